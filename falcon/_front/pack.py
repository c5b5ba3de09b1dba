"""`pack`: prepare the right operand of many products once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from falcon import schemes as _schemes
from falcon._backends import available_backends
from falcon._core.options import thread_count
from falcon._core.packed import PackedOperand
from falcon._core.problem import Problem
from falcon._gpu.where import is_on_gpu

from .planner import plan_for, requested_settings
from .validate import check_numeric, matrix


def pack(
    b: npt.ArrayLike,
    *,
    rows: int | None = None,
    dtype: npt.DTypeLike | None = None,
    backend: str = "auto",
    scheme: str | _schemes.Scheme = "auto",
    max_growth: float | None = None,
    threads: int | None = None,
    workspace_limit: int | None = None,
) -> PackedOperand:
    """Combine and lay out B once, for many products with the same weights.

    ``gemm(a, packed)`` and ``matmul(a, packed)`` then skip Combine B (or the packing of B).

    Parameters
    ----------
    b : array_like, shape (K, N)
        Must not be changed while the packed operand is in use.
    rows : int, optional
        Rows of A to expect: decides which scheme "auto" takes, nothing else. Default: K.
    dtype : dtype, optional
        Of the arithmetic; default: b's own.
    backend, scheme, max_growth, threads, workspace_limit
        As for `gemm`; the scheme is fixed from here on.

    Returns
    -------
    PackedOperand
        Printable, usable from several threads, can be pickled.

    Raises
    ------
    ValueError, TypeError
        As `gemm`.

    Notes
    -----
    With a scheme, R/(kn) times the bytes of B are held (Strassen: 1.75 times), and B itself stays
    referenced. Source of the method: FalconGEMM's offline Combine B.

    Examples
    --------
    >>> import falcon, numpy as np
    >>> w = falcon.pack(np.eye(64), scheme="strassen")
    >>> bool((falcon.gemm(np.ones((3, 64)), w) == 1).all())
    True
    """
    if rows is not None and (isinstance(rows, bool) or not isinstance(rows, int) or rows < 1):
        raise ValueError(f"rows is {rows!r}; expected a positive integer")
    if is_on_gpu(b):
        from . import device  # at first need

        options = (backend, scheme, max_growth, threads, workspace_limit, None)
        return device.pack(b, rows, dtype, options)
    source = matrix("b", b)
    native = np.dtype(source.dtype if dtype is None else dtype).newbyteorder("=")
    check_numeric("dtype", native)
    K, N = source.shape
    requested = requested_settings(backend, scheme, max_growth, threads, workspace_limit, None)
    if requested.backend == "auto":  # NumPy, which cannot use packed operands, comes last
        able = Problem(1, N, K, native)
        first = next(x for x in available_backends() if x.why_not(able) is None)
        requested = replace(requested, backend=first.name)
    problem = Problem(
        rows or max(K, 1), N, K, native, packed=True, threads=thread_count(requested.threads)
    )
    chosen = plan_for(problem, requested)
    payload = chosen.backend.pack(source, chosen)
    name = chosen.backend.name
    return PackedOperand((K, N), native, chosen.scheme, name, payload, source)


def check_packed(
    packed: PackedOperand, dtype: np.dtype, backend: str, scheme: str | _schemes.Scheme
) -> None:
    """Refuse what contradicts the way in which b was packed."""
    if dtype != packed.dtype:
        raise TypeError(f"the arithmetic would be {dtype}, but b was packed for {packed.dtype}")
    if backend not in ("auto", packed.backend):
        raise ValueError(f"backend is {backend!r}, but b was packed for {packed.backend!r}")
    if isinstance(scheme, str) and scheme not in ("auto", "classical"):
        scheme = _schemes.get(scheme)
    wanted = None if isinstance(scheme, str) else scheme
    if scheme != "auto" and wanted != packed.scheme:
        raise ValueError(f"scheme is {scheme!r}, but b is {packed!r}")
