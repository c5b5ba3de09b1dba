"""gemm, matmul, plan and pack for CuPy arrays and torch tensors in GPU memory.

The same steps as for NumPy arrays, but nothing is moved: operands stay where they are, the result
has the caller's type, and everything runs in the caller's current stream, without waiting for it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from falcon import schemes as _schemes
from falcon._backends import DEVICE, get_backend
from falcon._core.options import Options
from falcon._core.packed import PackedOperand
from falcon._core.plan import Plan
from falcon._core.problem import Problem
from falcon._gpu import kernels, operands
from falcon._gpu.arrays import Library, library_of, numpy_dtype, promoted
from falcon._gpu.device import current, on
from falcon._gpu.matrix import Matrix
from falcon._gpu.sources import SUMS_DTYPE
from falcon._gpu.where import device_of

from .planner import plan_for, plan_packed, requested_settings
from .validate import matmul_shape, number, scalar, shape_and_dtype


def gemm(
    a: Any, b: Any, c: Any, alpha: complex, beta: complex, out: Any, options: tuple[Any, ...]
) -> Any:
    """Multiply matrices in GPU memory; see `falcon.gemm`."""
    packed = b if isinstance(b, PackedOperand) else None
    if packed is not None and packed.backend != DEVICE:
        raise ValueError(f"b was packed for backend {packed.backend!r}, but a is in GPU memory")
    source: Any = b if packed is None else packed.source
    number("beta", beta)
    if beta != 0 and c is None:
        raise ValueError(f"beta is {beta!r} but c is missing")
    given = {"a": a, "b": source, "c": c, "out": out}
    library, index = _place({name: x for name, x in given.items() if x is not None})
    for name, x in given.items():
        if x is not None and len(x.shape) != 2:
            raise ValueError(f"{name} has shape {tuple(x.shape)}; expected a matrix")
    (M, K), (inner, N) = a.shape, source.shape
    if inner != K:
        raise ValueError(
            f"a has shape {tuple(a.shape)} and b {tuple(source.shape)}: a's columns ({K}) must "
            f"equal b's rows ({inner})"
        )
    for name, x in (("c", c), ("out", out)):
        if x is not None and tuple(x.shape) != (M, N):
            raise ValueError(f"{name} has shape {tuple(x.shape)}; expected {(M, N)}")
    if beta == 0:
        c = None
    read = [x for x in (a, source, c) if x is not None]
    dtype = promoted([library_of(x).dtype_name(x) for x in read])
    if out is not None:
        promoted([library_of(out).dtype_name(out)])
    sums = np.dtype(SUMS_DTYPE[dtype])
    alpha, beta = scalar("alpha", alpha, sums), scalar("beta", beta, sums)
    requested = _requested(*options)
    if packed is not None:
        _check_packed(packed, dtype, options)
    with on(index), library.stream(index):
        result = library.empty((M, N), dtype, index) if out is None else out
        if M and N:
            left, right, target = (library_of(x).matrix(x) for x in (a, source, result))
            added = None if c is None else library_of(c).matrix(c)
            _multiply(left, right, added, alpha, beta, target, dtype, index, requested, packed)
    return result


def _multiply(
    a: Matrix,
    b: Matrix,
    c: Matrix | None,
    alpha: Any,
    beta: Any,
    out: Matrix,
    dtype: str,
    index: int,
    requested: Options,
    packed: PackedOperand | None,
) -> None:
    M, N, K = *out.shape, a.shape[1]
    if K == 0 or alpha == 0:
        # Neighbouring threads may not read what others have written.
        if c is not None and c.overlaps(out) and not operands.same(c, out):
            c = operands.duplicate(c)
        kernels.copy(c, out, float(beta) if c is not None else 1.0)
        return
    product = operands.needs_product(out, a, None if packed is not None else b, c, dtype)
    problem = Problem(
        M,
        N,
        K,
        numpy_dtype(dtype),
        buffered=c is not None and operands.needs_copy(c, None if product else out),
        a_direct=operands.readable(a, dtype),
        b_direct=packed is not None or operands.readable(b, dtype),
        out_direct=not product,
        packed=packed is not None,
        device=index,
        tf32=requested.tf32 and dtype == "float32",
    )
    if packed is None:
        plan = plan_for(problem, requested)
    else:
        plan = plan_packed(problem, packed, requested)
    backend: Any = plan.backend  # whose operands are no NumPy arrays
    right = b if packed is None else packed
    backend.execute(plan, a, right, c, out, alpha=alpha, beta=beta)


def matmul(a: Any, b: Any, out: Any, options: tuple[Any, ...]) -> Any:
    """Multiply vectors, matrices and batches in GPU memory; see `falcon.matmul`."""
    if isinstance(out, tuple) and len(out) == 1:
        out = out[0]
    if isinstance(b, PackedOperand):
        return _matmul_packed(a, b, out, options)
    library, index = _place({"a": a, "b": b, **({} if out is None else {"out": out})})
    if min(len(a.shape), len(b.shape)) == 0:
        raise ValueError("matmul: an operand is a scalar; expected at least one axis")
    if len(a.shape) == len(b.shape) == 2:
        return gemm(a, b, None, 1.0, 0.0, out, options)
    wanted = None if out is None else tuple(out.shape)
    batch, kept = matmul_shape(tuple(a.shape), tuple(b.shape), wanted)
    if out is not None and wanted != (*batch, *kept):
        raise ValueError(f"out has shape {wanted}; expected {(*batch, *kept)}")
    dtype = promoted([library.dtype_name(a), library.dtype_name(b)])
    left = a[None, :] if len(a.shape) == 1 else a
    right = b[:, None] if len(b.shape) == 1 else b
    (M, K), N = left.shape[-2:], right.shape[-1]
    requested = _requested(*options)
    problem = Problem(M, N, K, numpy_dtype(dtype), device=index)
    asked = requested.workspace_limit is not None
    with on(index), library.stream(index):
        # One call for the whole batch does what falcon would do, unless an LCMA pays.
        alike = library.dtype_name(a) == library.dtype_name(b)
        if alike and not asked and (K == 0 or plan_for(problem, requested).scheme is None):
            return library.matmul(a, b, out)
        if out is not None and any(_flat(library, out).overlaps(_flat(library, x)) for x in (a, b)):
            raise ValueError("out overlaps an operand of a batch")
        left = library.broadcast(left, (*batch, *left.shape[-2:]))
        right = library.broadcast(right, (*batch, *right.shape[-2:]))
        result = library.empty((*batch, *kept), dtype, index) if out is None else out
        target = result[..., None] if len(b.shape) == 1 else result
        target = target[..., None, :] if len(a.shape) == 1 else target
        for at in np.ndindex(*batch):
            gemm(left[at], right[at], None, 1.0, 0.0, target[at], options)
    return result


def _matmul_packed(a: Any, b: PackedOperand, out: Any, options: tuple[Any, ...]) -> Any:
    """Multiply by a packed operand: all rows in one product."""
    if len(a.shape) == 0 or a.shape[-1] != b.shape[0]:
        raise ValueError(
            f"matmul: a has shape {tuple(a.shape)} and b {b.shape}: the inner dimensions differ"
        )
    shape = (*a.shape[:-1], b.shape[1])
    rows = int(np.prod(shape[:-1]))
    if out is not None and tuple(out.shape) != shape:
        raise ValueError(f"out has shape {tuple(out.shape)}; expected {shape}")
    product = gemm(a.reshape(rows, b.shape[0]), b, None, 1.0, 0.0, None, options).reshape(shape)
    if out is None:
        return product
    out[...] = product
    return out


def plan(a: Any, b: Any, dtype: Any, options: tuple[Any, ...]) -> Plan:
    """Plan a product of GPU arrays, or of shapes (on the current device); see `falcon.plan`."""
    shapes = (x if isinstance(x, tuple) else tuple(x.shape) for x in (a, b))
    left, right = (shape_and_dtype(name, x)[0] for name, x in zip("ab", shapes, strict=True))
    (M, K), (inner, N) = left, right
    if inner != K:
        raise ValueError(f"a has shape {left} and b {right}: a's columns must equal b's rows")
    requested = _requested(*options)
    arrays = {name: x for name, x in (("a", a), ("b", b)) if not isinstance(x, tuple)}
    index = _place(arrays)[1] if arrays else current()
    found = [library_of(x).dtype_name(x) for x in arrays.values()]
    name = str(dtype) if dtype is not None else promoted(found or ["float64"])
    tf32 = requested.tf32 and name == "float32"
    with on(index):
        problem = Problem(M, N, K, numpy_dtype(name), device=index, tf32=tf32)
        return plan_for(problem, requested)


def pack(b: Any, rows: int | None, dtype: Any, options: tuple[Any, ...]) -> PackedOperand:
    """Form the sums of a B in GPU memory; see `falcon.pack`."""
    library, index = _place({"b": b})
    if len(b.shape) != 2:
        raise ValueError(f"b has shape {tuple(b.shape)}; expected a matrix")
    name = promoted([library.dtype_name(b) if dtype is None else str(dtype)])
    requested = _requested(*options)
    (K, N), kind = b.shape, numpy_dtype(name)
    tf32 = requested.tf32 and name == "float32"
    problem = Problem(rows or max(K, 1), N, K, kind, packed=True, device=index, tf32=tf32)
    with on(index), library.stream(index):
        chosen = plan_for(problem, requested)
        backend: Any = chosen.backend
        matrix = library.matrix(b)
        scales = backend.scales(matrix, chosen) if chosen.guarded else None
        payload = backend.pack(matrix, chosen)
    return PackedOperand((K, N), kind, chosen.scheme, DEVICE, payload, b, scales)


def _place(operands: dict[str, Any]) -> tuple[Library, int]:
    """Return the library and the device of all operands; they must agree."""
    first = next(iter(operands))
    index = {name: device_of(x) for name, x in operands.items()}
    gpu = next(x for x in index.values() if x is not None)
    for name, found in index.items():
        if found is None:
            kind = type(operands[name]).__name__
            raise TypeError(
                f"{name} is a {kind} in host memory, but another operand is on cuda:{gpu}; move "
                f"it there first (cupy.asarray({name}), or {name}.cuda() of torch): falcon moves "
                "no data by itself"
            )
        if found != gpu:
            raise ValueError(f"{name} is on cuda:{found} and {first} on cuda:{index[first]}")
    libraries = {name: library_of(x) for name, x in operands.items()}
    for name, library in libraries.items():
        if library.name != libraries[first].name:
            raise TypeError(
                f"{name} is of {library.name} and {first} of {libraries[first].name}; convert one "
                "(cupy.from_dlpack and torch.from_dlpack do it without a copy)"
            )
    return libraries[first], gpu


def _requested(backend: str, *others: Any) -> Options:
    """Merge arguments and settings; "auto" is the GPU, because that is where the data is."""
    requested = requested_settings(backend, *others)
    if requested.backend not in ("auto", DEVICE):
        raise ValueError(
            f"backend is {requested.backend!r}, but the operands are in GPU memory; use 'auto' or "
            f"{DEVICE!r}, or move them to the host (cupy.asnumpy(a), or a.cpu() of torch)"
        )
    if requested.check == "verify":
        raise ValueError(
            "check='verify' works on the host; use falcon.verify on host copies, or check='finite'"
        )
    get_backend(DEVICE)
    return replace(requested, backend=DEVICE)


def _check_packed(packed: PackedOperand, dtype: str, options: tuple[Any, ...]) -> None:
    if dtype != packed.dtype.name:
        raise TypeError(f"the arithmetic would be {dtype}, but b was packed for {packed.dtype}")
    scheme = options[1]
    if isinstance(scheme, str) and scheme not in ("auto", "classical"):
        scheme = _schemes.get(scheme)
    wanted = None if isinstance(scheme, str) else scheme
    if scheme != "auto" and not packed.is_for(wanted):
        raise ValueError(f"scheme is {options[1]!r}, but b is {packed!r}")


def _flat(library: Library, x: Any) -> Matrix:
    """Bounds of an array of any number of axes, as a matrix of one row."""
    return library.matrix(x.reshape(1, -1) if len(x.shape) != 2 else x)
