"""Types of the compiled extension; see `_core.pyx`."""

from typing import Any

from falcon.codegen.program import Program
from falcon.codegen.update import Updates

ISA_NAMES: tuple[str, ...]
DTYPES: tuple[str, ...]

class Workspace:
    nbytes: int
    def __init__(self, nbytes: int) -> None: ...
    def __buffer__(self, flags: int) -> memoryview: ...

class Scheme:
    format: tuple[int, int, int, int]
    def __init__(
        self,
        m: int,
        k: int,
        n: int,
        left: Program,
        right: Program,
        updates: Updates,
        parts: int = 1,
    ) -> None: ...

class PackedB:
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

# dtype: what `DType.engine` is; a type without a name there, None, raises ValueError.
def kernel_info(dtype: str | None, isa: str | None = None) -> dict[str, Any]: ...
def peak(
    dtype: str | None, threads: int = 1, isa: str | None = None, seconds: float = 0.2
) -> float: ...
def plan(
    M: int, N: int, K: int, dtype: str | None, **options: Any
) -> tuple[tuple[int, ...], int]: ...
def pack_b(b: Any, **options: Any) -> PackedB: ...
def gemm_batch(
    a: Any,
    b: Any,
    c: Any,
    shape: tuple[int, ...],
    steps: tuple[tuple[int, ...], ...],
    alpha: Any = 1.0,
    threads: int = 1,
    isa: str | None = None,
    blocking: tuple[int, ...] | None = None,
    workspace: Any = None,
    triangle: str | None = None,
    mirror: Any = None,
) -> None: ...
def gemm(a: Any, b: Any, c: Any, *arguments: Any, **options: Any) -> Any: ...
def norms(
    x: Any,
    sums: Any,
    axis: int = 0,
    threads: int = 1,
    isa: str | None = None,
    kind: str | None = None,
) -> None: ...
