"""Whole calls on every backend: products of all types, NaN and Inf, batches, a packed B."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from falcon._backends import BACKENDS, DEVICE, device_backend
from falcon._core.dtypes import BFLOAT16, CUDA, FLOAT32, FLOAT64, INT32, TABLE, DType
from falcon._core.options import settings
from falcon._front.execute import problem_of_sizes
from falcon._front.gemm import gemm
from falcon._front.matmul import matmul
from falcon._front.pack import pack
from falcon._front.plan import plan
from falcon.schemes import get

from .exact import difference, fractions, held, whole, wide
from .trial import Trial, sizes_of

_SIZES = 131, 103, 97
_SCHEMES = "classical", "strassen"
_BATCH = (3, 1), (2,)  # axes before those of the matrices, which are broadcast


def _itself(x: Any) -> Any:
    return x


@dataclass(frozen=True, slots=True)
class Place:
    """A backend, the types that it multiplies, and how arrays get to its memory and back."""

    backend: str
    types: tuple[DType, ...]
    put: Callable[[np.ndarray], Any] = _itself
    get: Callable[[Any], np.ndarray] = _itself

    @property
    def backend_option(self) -> str:
        """What the keyword `backend` of calls is."""
        return "auto" if self.backend == DEVICE else self.backend

    def schemes(self, row: DType) -> list[str]:
        """Return the schemes that multiply a type here."""
        if self.backend == DEVICE:
            return list(_SCHEMES)
        problem = problem_of_sizes(_SIZES, row, settings())
        refused = BACKENDS[self.backend].why_classical_only(problem, get("strassen"))
        return [x for x in _SCHEMES if x == "classical" or refused is None]


def why_not(backend: str) -> str | None:
    """Return why a backend does not run here; None if it does."""
    return (device_backend() if backend == DEVICE else BACKENDS[backend]).why_unavailable()


def place_of(backend: str) -> Place:
    """Return the place of a backend that runs here."""
    if backend == DEVICE:
        import cupy

        return Place(backend, _of_numpy(CUDA), cupy.asarray, cupy.asnumpy)
    able = (
        x
        for x in TABLE
        if BACKENDS[backend].why_not(problem_of_sizes(_SIZES, x, settings())) is None
    )
    return Place(backend, _of_numpy(able))


def _of_numpy(rows: Any) -> tuple[DType, ...]:
    """Return those that NumPy has here: bfloat16 needs a package."""
    found = []
    for row in rows:
        try:
            _ = row.numpy
        except TypeError:
            continue
        found.append(row)
    return tuple(found)


def places() -> list[Place]:
    """Return those of all backends that run here."""
    return [place_of(x) for x in (*BACKENDS, DEVICE) if why_not(x) is None]


def of_backend(backend: str, trial: Trial) -> None:
    """Multiply matrices of all types that a backend has."""
    reason = why_not(backend)
    if reason is not None:
        trial.skip(reason)
        return
    place = place_of(backend)
    trial.about = f"{len(place.types)} types"
    for row in place.types:
        for scheme in place.schemes(row):
            _whole(trial, place, row, scheme)
            if FLOAT64.unit_roundoff <= row.unit_roundoff:
                _rounded(trial, place, row, scheme)


def _whole(trial: Trial, place: Place, row: DType, scheme: str) -> None:
    """Multiply whole numbers: A by rows and by columns, and ``3 a b - 2 c``."""
    a, b, exact = whole(_SIZES, row)
    where, options = _where(place, row, scheme), {"backend": place.backend_option, "scheme": scheme}
    for how, left in (("by rows", a), ("by columns", np.asfortranarray(a))):
        operands = (place.put(_public(x, row)) for x in (left, b))
        call = partial(gemm, *operands, **options)
        trial.same(where | {"layout": how}, _values(place, row, call), _expected(exact, row))
    if row.accumulator is not row:
        return  # -2 c would be rounded once more
    c = held(exact[::-1] % 5 if row.is_exact else exact[::-1].real % 5, row)
    call = partial(gemm, *(place.put(x) for x in (a, b, c)), alpha=3, beta=-2, **options)
    expected = _expected(3 * exact - 2 * c.astype(exact.dtype), row)
    trial.same(where | {"layout": "3 a b - 2 c"}, _values(place, row, call), expected)


def _rounded(trial: Trial, place: Place, row: DType, scheme: str) -> None:
    """Multiply random numbers; errors keep the bound that the plan states."""
    a, b = fractions(_SIZES, row)
    left, right = wide(a, row), wide(b, row)
    operands = [place.put(_public(x, row)) for x in (a, b)]
    options: Any = {"backend": place.backend_option, "scheme": scheme}
    trial.near(
        _where(place, row, scheme),
        _values(place, row, partial(gemm, *operands, **options)),
        lambda c: (
            np.abs(difference(c, left, right)) / plan(*operands, **options).error_bound(left, right)
        ),
    )


def not_finite(trial: Trial) -> None:
    """NaN and Inf in one entry of A and of B: they spread as in the classical algorithm."""
    trial.about = "spread as by the classical algorithm"
    for place in places():
        for row in (x for x in place.types if x in (FLOAT32, FLOAT64)):
            a, b = (x.copy() for x in whole(_SIZES, row)[:2])
            a[2, 3], a[100, 96], b[5, 7] = np.nan, -np.inf, np.inf
            with np.errstate(invalid="ignore"):
                expected = np.einsum("ik,kj->ij", a, b)  # in loops of its own, without a BLAS
            for scheme in place.schemes(row):
                operands = (place.put(x) for x in (a, b))
                call = partial(gemm, *operands, backend=place.backend_option, scheme=scheme)
                trial.same(_where(place, row, scheme), _values(place, row, call), expected)


def batches(trial: Trial) -> None:
    """Stacks of matrices, broadcast."""
    M, N, K = _SIZES
    first, second = _BATCH
    trial.about = f"{(*first, M, K)} by {(*second, K, N)}"
    for place in places():
        for row in (x for x in place.types if x in (FLOAT32, FLOAT64, INT32)):
            a, b, exact = whole(_SIZES, row)
            left = np.stack([a, a - a[::-1], -a]).reshape(*first, M, K)
            right = np.stack([b, b[:, ::-1]])
            some = np.stack([exact, exact - exact[::-1], -exact])
            expected = np.stack([some, some[:, :, ::-1]], axis=1)
            for scheme in place.schemes(row):
                operands = (place.put(x) for x in (left, right))
                call = partial(matmul, *operands, backend=place.backend_option, scheme=scheme)
                trial.same(
                    _where(place, row, scheme), _values(place, row, call), _expected(expected, row)
                )


def packed(trial: Trial) -> None:
    """A B that is laid out, or combined, beforehand."""
    trial.about = "B packed beforehand"
    for place in places():
        for row in (x for x in place.types if x in (FLOAT32, FLOAT64, INT32)):
            a, b, exact = whole(_SIZES, row)
            left, right = place.put(a), place.put(b)
            for scheme in place.schemes(row):
                options = {"backend": place.backend_option, "scheme": scheme}
                call = partial(_by_packed, left, right, options)
                trial.same(
                    _where(place, row, scheme), _values(place, row, call), _expected(exact, row)
                )


def _by_packed(a: Any, b: Any, options: Any) -> Any:
    return gemm(a, pack(b, **options))


def _public(x: np.ndarray, row: DType) -> np.ndarray:
    """Return an operand as users have it: bfloat16 in its own dtype."""
    return x.view(row.numpy) if row is BFLOAT16 else x


def _values(place: Place, row: DType, call: Callable[[], Any]) -> Callable[[], np.ndarray]:
    """Return a call whose results lie on the host, rounded types as float64."""
    if row.is_exact or row.unit_roundoff < FLOAT64.unit_roundoff:
        return lambda: place.get(call())
    return lambda: wide(place.get(call()), row)


def _expected(exact: np.ndarray, row: DType) -> np.ndarray:
    """Return what a product of whole numbers is, as `_values` returns it."""
    if row.is_exact or row.unit_roundoff < FLOAT64.unit_roundoff:
        return held(exact, row)
    return wide(held(exact, row), row)


def _where(place: Place, row: DType, scheme: str) -> dict[str, str]:
    return {
        "backend": f"backend {place.backend}",
        "type": str(row),
        "sizes": sizes_of(_SIZES),
        "scheme": scheme,
    }
