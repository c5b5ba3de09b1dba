"""Types of the compiled extension; see `_core.pyx`."""

from collections.abc import Callable
from typing import Any

from falcon.codegen.cpu_emit import Operations
from falcon.codegen.update import Updates

ISA_NAMES: tuple[str, ...]
DTYPES: tuple[str, ...]

class Workspace:
    nbytes: int
    def __init__(self, nbytes: int) -> None: ...
    def __buffer__(self, flags: int) -> memoryview: ...

class Scheme:
    format: tuple[int, int, int, int]
    codes: tuple[int, int]
    def __init__(
        self,
        m: int,
        k: int,
        n: int,
        left: Operations,
        right: Operations,
        updates: Updates,
        parts: int = 1,
    ) -> None: ...

class Layout:
    threads: int
    scheme: Scheme | None
    nbytes: int
    least: int
    blocking: tuple[int, ...]
    segments: list[list[int]]
    plain_nbytes: int
    chunks: tuple[int, int, int]
    b_in_place: bool
    is_direct: bool
    in_place: bool
    is_tiny: bool
    def within(self, limit: float) -> Layout: ...

class SmallProducts:
    def __init__(self, isa: str, macs: float, library: Callable[..., Any]) -> None: ...
    def multiply(self, a: Any, b: Any, out: Any) -> Any: ...

class PackedB:
    dtype: str
    isa: str
    scheme: Scheme | None
    nbytes: int

def supported_isas() -> tuple[str, ...]: ...
def refused_isas() -> dict[str, str]: ...
def put_kernel(isa: str, dtype: str, address: int) -> None: ...
def cache_sizes() -> dict[str, int]: ...
def in_forked_child() -> bool: ...
def threading(wanted: str | None = None) -> str: ...
def lend_callback(most: int, threads: int) -> int: ...
def meet(parallel: int) -> int: ...
def guests() -> int: ...

# dtype: what `DType.engine` is; a type without a name there, None, raises ValueError.
def kernel_info(dtype: str | None, isa: str | None = None) -> dict[str, Any]: ...
def peak(
    dtype: str | None, threads: int = 1, isa: str | None = None, seconds: float = 0.2
) -> float: ...
def plan(M: int, N: int, K: int, dtype: str | None, **options: Any) -> Layout: ...
def pack_b(layout: Layout, b: Any, column_scales: Any = None) -> PackedB: ...
def gemm_batch(
    layout: Layout,
    a: Any,
    b: Any,
    c: Any,
    shape: tuple[int, ...],
    steps: tuple[tuple[int, ...], ...],
    alpha: Any = 1.0,
    workspace: Any = None,
    mirror: Any = None,
) -> None: ...
def gemm(
    layout: Layout, a: Any, b: Any, c: Any, alpha: Any = 1.0, beta: Any = 0.0, **options: Any
) -> Any: ...
def norms(
    x: Any,
    sums: Any,
    axis: int = 0,
    threads: int = 1,
    isa: str | None = None,
    kind: str | None = None,
    cuts: Any = None,
    totals: Any = None,
    units: Any = None,
) -> None: ...
def roundings(
    x: Any,
    found: Any,
    slice: int,
    axis: int = 0,
    threads: int = 1,
    isa: str | None = None,
    kind: str | None = None,
    parts: int = 1,
) -> None: ...
def quantise(x: Any, to: Any, numbers: Any, threads: int = 1, isa: str | None = None) -> None: ...
def peaks(c: Any, by: Any, found: Any, threads: int = 1, isa: str | None = None) -> None: ...
def from_bytes(
    x: Any,
    of_rows: Any,
    of_columns: Any,
    c: Any,
    beta: float = 0.0,
    threads: int = 1,
    isa: str | None = None,
) -> None: ...

NUMBERS: dict[Any, int]

def modulo(
    terms: Any, parts: Any, modulus: int, carry: int = 0, threads: int = 1, isa: Any = None
) -> None: ...
