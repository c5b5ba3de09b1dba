"""`pack`: prepare the right operand of many products once."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from falcon import schemes as _schemes
from falcon._backends import available_backends
from falcon._core.dtypes import of
from falcon._core.options import thread_count
from falcon._core.packed import PackedOperand
from falcon._core.problem import Problem
from falcon._core.spread import uneven
from falcon._gpu.where import is_on_gpu

from .planner import plan_for, requested_settings
from .validate import check_numeric, matrix

_log = logging.getLogger("falcon")


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
    keep_source: bool = True,
) -> PackedOperand:
    """Combine and lay out B once, for many products with the same weights.

    ``gemm(a, packed)`` and ``matmul(a, packed)`` then skip Combine B (or the packing of B).

    Parameters
    ----------
    b : array_like, shape (K, N)
        Must not be changed while the packed operand is in use, unless `keep_source` is False.
    rows : int, optional
        Rows of A to expect: decides which scheme "auto" takes, nothing else. Default: K.
    dtype : dtype, optional
        Of the arithmetic; default: b's own.
    backend, scheme, max_growth, threads, workspace_limit
        As for `gemm`; the scheme is fixed from here on.
    keep_source : bool
        False saves the memory of B. Four things take B itself, and are then refused with a
        ValueError: to redo a product classically where an LCMA comes upon a NaN or Inf
        (``check="none"`` does not look for them), or where "auto" chose the scheme and A is scaled
        too badly for it, ``check="verify"``, and to load a pickle where the panels would lie
        otherwise. Products then see B as being of `dtype`. A B in GPU memory
        is always kept.

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
    referenced, unless `keep_source` is False. Source of the method: FalconGEMM's offline Combine B.

    A pickle holds both, with checksums, and a fingerprint of what the layout depends on: the
    scheme as it runs, the kernel, the blocking, the layout's version. Within one version of falcon
    and on one kind of machine it is loaded as it is. With another instruction set (another
    machine, FALCON_ISA), another version, or where the panels are damaged, they are made again of
    B (logged by "falcon", level debug). A damaged B is refused.

    Examples
    --------
    >>> import falcon, numpy as np
    >>> w = falcon.pack(np.eye(64), scheme="strassen")
    >>> bool((falcon.gemm(np.ones((3, 64)), w) == 1).all())
    True
    """
    if rows is not None and (isinstance(rows, bool) or not isinstance(rows, int) or rows < 1):
        raise ValueError(f"rows is {rows!r}; expected a positive integer")
    if not isinstance(keep_source, bool):
        raise ValueError(f"keep_source is {keep_source!r}; expected True or False")
    if is_on_gpu(b):
        if not keep_source:
            raise ValueError(
                "keep_source is False, but b is in GPU memory, where b itself is always kept for "
                "products that are redone classically; leave it out"
            )
        from . import device  # at first need

        options = (backend, scheme, max_growth, threads, workspace_limit, None)
        return device.pack(b, rows, dtype, options)
    source = matrix("b", b)
    native = np.dtype(source.dtype if dtype is None else dtype).newbyteorder("=")
    check_numeric("dtype", native)
    K, N = source.shape
    requested = requested_settings(backend, scheme, max_growth, threads, workspace_limit, None)
    if requested.backend == "auto":  # NumPy, which cannot use packed operands, comes last
        able = Problem(1, N, K, of(native))
        first = next(x for x in available_backends() if x.why_not(able) is None)
        requested = replace(requested, backend=first.name)
    problem = Problem(
        rows or max(K, 1), N, K, of(native), packed=True, threads=thread_count(requested.threads)
    )
    chosen = plan_for(problem, requested)
    scales = chosen.backend.scales(source, chosen) if chosen.guarded else None
    if scales is not None and chosen.scheme is not None:
        chunks, growth = chosen.option.chunks, chosen.growth
        if (why := uneven(chosen.scheme, growth, chunks, np.ones(1), scales)) is not None:
            _log.debug("falcon: b is packed for the classical algorithm: %s", why)
            chosen, scales = plan_for(problem, replace(requested, scheme="classical")), None
    payload = chosen.backend.pack(source, chosen)
    name = chosen.backend.name
    kept = source if keep_source else None
    return PackedOperand((K, N), native, chosen.scheme, name, payload, kept, scales)


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
    if scheme != "auto" and not packed.is_for(wanted):
        raise ValueError(f"scheme is {scheme!r}, but b is {packed!r}")
