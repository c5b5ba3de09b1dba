"""Every kernel by itself, whatever the instruction set in use."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from time import monotonic
from typing import Any

import numpy as np

from falcon._core.dtypes import (
    BFLOAT16,
    BY_ARITHMETIC,
    BY_FLOAT,
    ENGINE,
    INT64,
    PAIRS,
    RUNGS,
    DType,
)
from falcon.schemes import M4, Scheme, get

try:
    from . import _core, rounding
    from .programs import complex_scheme, engine_scheme
except ImportError:  # `extension.why_unavailable` says so
    _core = None  # type: ignore[assignment]

# One type for each kernel (unsigned integers share those of signed ones), and complex ones.
_RUNGS = (x for some in RUNGS.values() for x in some)
_KINDS = *ENGINE, *PAIRS, *BY_ARITHMETIC.values(), BY_FLOAT[INT64], *_RUNGS
_ROWS = {(x.engine, x.is_complex): x for x in reversed(_KINDS)}
_USUAL = 131, 103, 97  # M, N, K: several blocks of rows, columns and steps, with edges
# All numbers of rows and columns that may be left of a tile; several slices of K, of up to 1536.
_EDGES = *((33 + x, 65 + 5 * x % 64, 33) for x in range(64)), (37, 45, 1601), _USUAL
_THREADED = 307, 411, 523  # so that each of several threads has 10^6 multiply-adds


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel of an instruction set, and a type that it multiplies."""

    name: str
    isa: str
    operand: DType

    def growth(self, scheme: Scheme | None) -> float | None:
        """Return a scheme's RMS error where C is rounded to few bits; None: as is usual for it."""
        return rounding.rounded_growth(self.operand, scheme, self.isa)

    def peak(self, threads: int, seconds: float) -> float:
        """Return the flop/s of the micro-kernel alone."""
        return _core.peak(self.operand.engine, threads, self.isa, seconds)

    def product(
        self, a: np.ndarray, b: np.ndarray, result: DType, scheme: Scheme | None, **how: Any
    ) -> np.ndarray:
        """Return ``a @ b``; bfloat16 is passed as the integers of 16 bits that hold it.

        `how`: `threads`, which may be more than the CPUs; with `is_blocked`, small products are
        packed and cut as large ones.
        """
        (M, K), N, is_wide = a.shape, b.shape[1], result is not self.operand.left
        form: Any = complex_scheme(M4, scheme) if self.operand.is_complex else scheme
        how |= {"a_by_columns": a.strides[0] == a.itemsize, "c_wide": is_wide}
        how |= {"b_by_rows": b.strides[1] == b.itemsize, "scheme": engine_scheme(form)}
        c = np.empty((M, N), result.numpy if is_wide else a.dtype)
        _core.gemm(_core.plan(M, N, K, self.operand.engine, isa=self.isa, **how), a, b, c)
        return c

    def tested(self) -> Iterator[tuple[str, str]]:
        """Multiply whole numbers of all edges; yield what was multiplied, and what is wrong.

        Also to accumulators, by Strassen's scheme, and in blocks, as large products.
        """
        some: list[dict[str, Any]] = [{"sizes": x} for x in _EDGES] + [{"by_columns": True}]
        if self.operand.result is self.operand.left:  # else sums of elements may not fit the panels
            some.append({"scheme": "strassen"})
        some += [x | {"is_blocked": True} for x in some if "by_columns" not in x]
        some += [{"is_wide": True}] if self.operand.wide and self.operand.pair is None else []
        for how in some:
            yield self._told(how)

    def threaded(self, counts: list[int]) -> Iterator[tuple[str, str]]:
        """Do so with these numbers of threads."""
        for threads, scheme in product(counts, ("", "strassen")):
            yield self._told({"sizes": _THREADED, "threads": threads, "scheme": scheme})

    def _told(self, how: dict[str, Any]) -> tuple[str, str]:
        (M, N, K), row = how.get("sizes", _USUAL), str(self.operand)
        said = [f"{k} {v}" for k, v in how.items() if k != "sizes" and v]
        said = [self.name, self.isa, row, f"{M} x {K} @ {K} x {N}", *said]
        try:
            return ", ".join(said), self.known(**how)()
        except Exception as error:  # whatever it is, it is what the user wants to be told
            return ", ".join(said), f"raises {type(error).__name__}: {error}"

    def known(
        self, sizes: tuple[int, int, int] = _USUAL, threads: int = 1, scheme: str = "",
        by_columns: bool = False, is_blocked: bool = False, is_wide: bool = False, most: int = 4,
    ) -> Callable[[], str]:  # fmt: skip
        """Return what multiplies whole numbers and says what is wrong; "" if nothing is."""
        (M, N, K), row, random = sizes, self.operand, np.random.default_rng(sizes)
        a = _drawn(random, (M, K), row, row.left, most)
        b = _drawn(random, (K, N), row, row.right, most)
        a, b = (np.asfortranarray(x) if by_columns else x for x in (a, b))
        kind = row.wide[0] if is_wide else row.result
        form = get(scheme) if scheme else None
        exact = np.einsum("ik,kj", _numbers(a, row.left), _numbers(b, row.right))
        right = _numbers(_held(exact, kind), kind)

        def wrong() -> str:
            c = self.product(a, b, kind, form, threads=threads, is_blocked=is_blocked)
            return why_different(_numbers(c, kind), right)

        return wrong


def why_different(c: np.ndarray, exact: np.ndarray) -> str:
    """Return how many entries differ, and one of them; "" if none does."""
    at = tuple(int(x) for x in np.unravel_index(np.argmax(c != exact), c.shape))
    said = f"{np.count_nonzero(c != exact)} of {c.size} entries differ, entry {[*at]}: "
    return f"{said}{c[at]}, not {exact[at]}" if c[at] != exact[at] else ""


def _drawn(random: Any, shape: tuple[int, int], row: DType, kind: DType, most: int) -> np.ndarray:
    """Return whole numbers: all that integers hold, such that no sum of floats is rounded."""
    if row.part is not None:
        real, imaginary = (_drawn(random, shape, row.part, row.part, most) for _ in "ab")
        return (real + 1j * imaginary).astype(kind.numpy)
    if row.is_exact and row.arithmetic is None:
        limits = np.iinfo(kind.numpy)
        return random.integers(limits.min, limits.max, shape, kind.numpy, endpoint=True)
    most = 2**18 if row.is_exact else most
    return _held(random.integers(-most, most, shape, endpoint=True), kind)


def _held(x: np.ndarray, kind: DType) -> np.ndarray:
    """Return whole numbers in a type, wrapped; bfloat16 as the integers that hold it, rounded."""
    if kind is not BFLOAT16:
        return x.astype(kind.numpy)
    bits = x.astype(np.float32).view(np.uint32)
    return (bits + (0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def _numbers(x: np.ndarray, kind: DType) -> np.ndarray:
    """Return the numbers of a type in float64 (complex128) or more, or in int64 modulo 2^64."""
    if kind is BFLOAT16:
        x = (x.astype(np.uint32) << 16).view(np.float32)
    return x.astype(np.int64 if kind.is_exact else np.result_type(x, np.float64))


def kernels() -> list[Kernel]:
    """Return the kernels that run here, best instruction set first; none without the extension."""
    found = []
    for isa in () if _core is None else _core.supported_isas():
        for row in reversed(_ROWS.values()):
            try:
                info = _core.kernel_info(row.engine, isa)
            except ValueError:  # only tiles multiply parts of float32
                continue
            if info["isa"] == isa:
                found.append(Kernel(info["name"], isa, row))
    return found


def cores(seconds: float) -> Iterator[tuple[str, Iterator[tuple[str, str]], str]]:
    """Yield each CPU, what every kernel multiplies there and what is wrong of it, and "".

    Raises ValueError: there are no kernels, or threads do not choose their CPU here.
    """
    if _core is None or not hasattr(os, "sched_setaffinity"):
        raise ValueError("--cores needs falcon's kernels, and a system where threads choose a CPU")
    some = [(f"{x.name}, {x.isa}, {x.operand}", x.known(_THREADED, most=9)) for x in kernels()]
    cpus = sorted(os.sched_getaffinity(0))

    def told(cpu: int) -> Iterator[tuple[str, str]]:
        os.sched_setaffinity(0, {cpu})  # of this thread
        try:
            end, is_first = monotonic() + seconds / len(cpus), True
            while is_first or monotonic() < end:
                yield from ((said, wrong()) for said, wrong in some)
                is_first = False
        finally:
            os.sched_setaffinity(0, cpus)

    for cpu in cpus:
        yield f"CPU {cpu}", told(cpu), ""
