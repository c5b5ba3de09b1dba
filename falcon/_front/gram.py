"""`gram`: ``x.T @ x`` and ``x @ x.T`` with half the work of a general product."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, Unpack, get_args, overload

import numpy as np
import numpy.typing as npt

from falcon._backends import host_engine
from falcon._core.checks import check_switch
from falcon._core.dtypes import FLOAT32, DType, of
from falcon._core.keywords import CallOptions, takes_options
from falcon._core.options import KEYWORDS, Options, are_default
from falcon._core.problem import Problem
from falcon._core.symmetric import copy_triangle
from falcon._numpy.original import quiet_matmul

from .adapters import Adapter, enter
from .arithmetic import check_out, common_type, scalar_type
from .execute import Product, multiply, without
from .matmul import matmul
from .planner import requested
from .validate import check_added, check_shape, real_scalar, scalar

Part = Literal["full", "lower", "upper"]
_PARTS = get_args(Part)
# Complex matrices of so few rows, or so few products M^2 K, are multiplied as any others: then half
# of the operations is less than the passes over C between real products (Zen 4, 2 threads: equal
# at K = 60 to 100 for M = 1000, and at M = K = 180 to 300).
_FEW_ROWS, _FEW_PRODUCTS = 64, 8e6
_STRIP = 128  # rows that are mirrored at a time
_PANEL = 2**20  # elements of x that are copied with their weights at a time
# Of rows of products with real and with imaginary parts, in their sum.
_FACTORS = {(x, y): np.array([1, -1j if y else 1j], x) for x in "FD" for y in (False, True)}


@overload
def gram(x: np.ndarray, *, transpose: bool = False, conjugate: bool = True, alpha: complex = 1.0,
         beta: complex = 0.0, c: np.ndarray | None = None, out: np.ndarray | None = None,
         symmetric: Part = "full", centred: bool = False, weights: npt.ArrayLike | None = None,
         **options: Unpack[CallOptions]) -> np.ndarray: ...  # fmt: skip
@overload
def gram(x: Any, *, transpose: bool = False, conjugate: bool = True, alpha: complex = 1.0,
         beta: complex = 0.0, c: Any = None, out: Any = None, symmetric: Part = "full",
         centred: bool = False, weights: Any = None,
         **options: Unpack[CallOptions]) -> Any: ...  # fmt: skip
@takes_options(*KEYWORDS)
def gram(
    x: Any,
    *,
    transpose: bool = False,
    conjugate: bool = True,
    alpha: complex = 1.0,
    beta: complex = 0.0,
    c: Any = None,
    out: Any = None,
    symmetric: Part = "full",
    centred: bool = False,
    weights: Any = None,
    **options: Unpack[CallOptions],
) -> Any:
    """Multiply a matrix by its own transpose: ``alpha * x.T @ x + beta * c``, or with weights.

    Parameters
    ----------
    x : array_like, shape (..., K, M)
        Integer, float or complex matrices, any strides; a batch of them has more axes.
    transpose : bool
        ``x @ x.T`` instead, of `x` of shape (..., M, K).
    conjugate : bool
        For complex `x`, compute ``x.conj().T @ x`` (``x @ x.conj().T``), which is Hermitian; False:
        without the conjugate. No effect on real matrices.
    alpha, beta : scalar
        As for `gemm`; real if the result is Hermitian.
    c : array_like, shape (..., M, M), optional
        Symmetric (Hermitian), which is not tested: one of its triangles may be read, or both. Read
        only if `beta` is not zero.
    out : ndarray, shape (..., M, M), optional
        Receives the result; may overlap `x` and `c`.
    symmetric : {"full", "lower", "upper"}
        The triangle to write, including the diagonal. The other one of `out` is left unchanged; in
        a new result it is zero.
    centred : bool
        Subtract the mean of each column of `x` first (of each row, if `transpose`): divided by
        ``K - 1``, the result is the covariance. A mean far larger than the deviations costs no
        accuracy, unlike ``gram(x) - K * mean * mean``. For floats in host memory; takes a copy of
        `x`.
    weights : array_like, shape (..., K), optional
        Real numbers w, of any sign, one per row of `x` (per column, if `transpose`): ``x.T @ (w[:,
        None] * x)``, without that copy of `x`. Broadcast to the batch of `x`. In host memory.
    {options}

    Returns
    -------
    ndarray (or tensor, or GPU array of the caller's library), shape (..., M, M)
        `out`, or a new array of the dtype of `x` (the common one of `x` and `weights`). With
        "full", exactly symmetric (Hermitian), but for GPU arrays, which are multiplied as any
        others: up to rounding.

    Raises
    ------
    ValueError, TypeError
        As `gemm`; also for a triangle of arrays in GPU memory, and for weights that are complex, or
        come with ``centred=True`` or a modulus.
    VerificationError
        ``check="verify"`` found the result wrong.

    Notes
    -----
    One triangle is computed, and each tile is copied to the other one while it is in cache. Large
    matrices are cut into halves: the product off the diagonal is an ordinary one, for which "auto"
    may choose an LCMA. Errors have the same bound as for `gemm`: ``1.5 growth u sqrt(K) norm(x_i)
    norm(x_j)``, where x_i are columns of `x` (rows, if `transpose`).

    ``falcon.matmul(x.T, x)`` and ``falcon.gemm(x.T, x)`` detect the shared memory and do the same.
    Complex matrices need two real Gram matrices and one real product, half of a complex product;
    small ones are multiplied as any others, and mirrored, or by one real Gram matrix of all parts.

    With weights, all is classical unless a scheme is named. falcon's kernels of float32, float64
    and complex numbers of these multiply by `weights` while they pack; other types, and NumPy's
    BLAS, take a panel of weighted rows at a time, and no less work than a general product.

    See also docs/gram.md.

    Examples
    --------
    >>> import falcon, numpy as np
    >>> x = np.arange(6.0).reshape(3, 2)
    >>> falcon.gram(x).tolist()
    [[20.0, 26.0], [26.0, 35.0]]
    >>> falcon.gram(x, centred=True, alpha=1 / 2).tolist()  # np.cov(x, rowvar=False)
    [[4.0, 4.0], [4.0, 4.0]]
    """
    if symmetric not in _PARTS:
        raise ValueError(f"symmetric is {symmetric!r}; expected one of {', '.join(_PARTS)}")
    plain_call = c is None and type(alpha) is type(beta) is float and (alpha, beta) == (1, 0)
    plain_call = plain_call and symmetric == "full" and not (options or centred) and are_default()
    plain_call = plain_call and weights is None
    if plain_call and _is_real(x) and (out is None or type(out) is np.ndarray):
        return matmul(x, x.T, out) if transpose else matmul(x.T, x, out)  # recalls its calls
    if plain_call and out is None and _is_small_complex(x, transpose):
        return _by_halves(x, transpose, conjugate)
    check_added(beta, c)
    adapter, x, c, target, weights = enter(x=x, c=c, out=out, weights=weights)
    chosen = requested("gram", KEYWORDS, options, adapter.device)
    array = adapter.array("x", x)
    if symmetric != "full" and adapter.device is not None:
        raise ValueError(f"symmetric is {symmetric!r}, but on a GPU all of C is written")
    if len(array.shape) < 2:
        raise ValueError(f"x has shape {tuple(array.shape)}; expected a matrix, or a batch of them")
    M = array.shape[-2] if transpose else array.shape[-1]
    shape = (*array.shape[:-2], M, M)
    added = None if c is None else adapter.array("c", c)
    check_shape("c", added, shape)
    if beta == 0:
        added = None
    axis = -1 if transpose else -2
    if weights is not None:
        weights = _checked(adapter, weights, (*array.shape[:-2], array.shape[axis]), chosen)
    read = (x for x in (array, added, weights) if x is not None)
    dtype = common_type(adapter, read)
    if check_switch("centred", centred):
        if weights is not None:
            raise ValueError("centred is True, but there are weights; subtract means of x first")
        array, chosen = _without_means(adapter, array, dtype, axis, chosen)
    hermitian = dtype.is_complex and conjugate
    kind = np.dtype(dtype.numpy.char.lower()) if hermitian else scalar_type(adapter, dtype).numpy
    checked = real_scalar if hermitian else scalar
    alpha, beta = (checked(name, v, kind) for name, v in (("alpha", alpha), ("beta", beta)))
    if beta == 0:  # rounded to it
        added = None
    target = None if out is None else adapter.target(target)
    if target is not None:
        check_out(adapter, target, shape, dtype)
    with adapter.current():
        fresh = target is None
        result = adapter.empty(shape, dtype, [array]) if target is None else target
        if fresh and symmetric != "full":
            result[...] = 0
        # An earlier product of a batch may overwrite what a later one reads, and the copy of a
        # triangle what it still has to copy.
        if not fresh and (len(shape) > 2 or symmetric != "full"):
            written, read = adapter.matrix(result), adapter.matrix(array)
            if len(shape) > 2 and written.overlaps(read):
                chosen, array = without(chosen, read.shape, dtype), _copy(adapter, array, dtype)
            read = written if added is None else adapter.matrix(added)
            if written.overlaps(read) and not written.is_same(read):
                chosen, added = without(chosen, shape, dtype), _copy(adapter, added, dtype)
        products = _Products(adapter, dtype, chosen, alpha, beta, symmetric, transpose, hermitian)
        whole = products.is_small(array) or not dtype.is_complex
        if weights is not None:
            kind_of_sums = products.summed.part or products.summed
            weights = np.array(weights, kind_of_sums.numpy, order="C")
        if (whole and weights is None) or alpha == 0:
            products.multiply(array, added, result)
        else:
            for at in np.ndindex(*shape[:-2]):
                one = products if weights is None else replace(products, weights=weights[at])
                one.multiply(array[at], None if added is None else added[at], result[at])
    return adapter.wrap(result) if out is None else out


def _checked(
    adapter: Adapter, weights: Any, shape: tuple[int, ...], options: Options
) -> np.ndarray:
    """Return weights broadcast to a shape; raise unless they are real, in host memory, and fit."""
    if adapter.device is not None or options.modulus is not None:
        what = "x is in GPU memory" if adapter.device is not None else "products are modulo p"
        raise ValueError(f"weights are given, but {what}; multiply x by them first")
    array = adapter.array("weights", weights)
    if array.dtype.kind == "c":
        raise TypeError(f"weights are of {array.dtype}; expected real numbers")
    try:
        return np.broadcast_to(array, shape)
    except ValueError:
        raise ValueError(f"weights have shape {array.shape}; expected {shape}") from None


def _without_means(
    adapter: Adapter, x: np.ndarray, dtype: DType, axis: int, options: Options
) -> tuple[np.ndarray, Options]:
    """Return a copy of matrices without the means along an axis, and the options beside it.

    In two steps: sums of what the first one leaves are precise, however large a mean is.
    """
    if adapter.device is not None:
        raise ValueError("centred is True, but x is in GPU memory; subtract x.mean(axis) first")
    if dtype.is_exact:
        raise TypeError(f"centred is True, but x is of {dtype}, whose means are no such numbers")
    wide = np.dtype(np.float32) if dtype.itemsize < 4 else dtype.numpy
    for kind in dict.fromkeys((of(wide), dtype)):
        options = without(options, x.shape, kind)
    left, length = np.empty(x.shape, wide), max(x.shape[axis], 1)
    strips = [(..., slice(i, i + _STRIP), slice(None)) for i in range(0, x.shape[-2], _STRIP)]
    with np.errstate(all="ignore"):
        if axis == -1:  # of each strip alone
            for strip in strips:
                np.copyto(left[strip], x[strip], casting="unsafe")
                for _ in range(2):
                    left[strip] -= left[strip].sum(axis, keepdims=True) / length
        else:
            first, rest = (np.zeros((*x.shape[:-2], 1, x.shape[-1]), wide) for _ in range(2))
            for strip in strips:
                first += x[strip].sum(axis, wide, keepdims=True) / length
            for strip in strips:
                np.subtract(x[strip], first, out=left[strip], casting="unsafe")
                rest += left[strip].sum(axis, keepdims=True) / length
            for strip in strips:
                left[strip] -= rest
    return left.astype(dtype.numpy, copy=False), options


def _is_real(x: Any) -> bool:
    """Whether it is a real matrix of NumPy's, which `matmul` by its transpose multiplies alike."""
    return type(x) is np.ndarray and x.ndim == 2 and x.dtype.kind in "fiu"


def _is_small_complex(x: Any, transpose: bool) -> bool:
    """Whether `_by_halves` multiplies it fastest."""
    if not (type(x) is np.ndarray and x.ndim == 2 and x.size and x.dtype.char in "FD"):
        return False
    K, M = x.shape[:: -1 if transpose else 1]
    return bool(M <= _FEW_ROWS and M * M * K <= _FEW_PRODUCTS and x.dtype.isnative)


def _by_halves(x: np.ndarray, transpose: bool, hermitian: bool) -> np.ndarray:
    """Multiply real and imaginary parts as columns of one real matrix, and add up its entries.

    The real product is symmetric to the last bit, so that the result is symmetric, or Hermitian.
    """
    columns = np.ascontiguousarray(x.T if transpose else x).view(x.dtype.char.lower())
    product = matmul(columns.T, columns)  # recalls its calls
    M = len(product) // 2
    out = np.empty((M, M), x.dtype)
    rows, factors = product.view(x.dtype).reshape(M, 2, M), _FACTORS[x.dtype.char, hermitian]
    quiet_matmul(factors, rows, out.T if transpose else out)
    return out


def _copy(adapter: Adapter, x: Any, dtype: DType) -> Any:
    made = adapter.empty(tuple(x.shape), dtype)
    adapter.copy(x, made)
    return made


@dataclass(frozen=True, slots=True)
class _Products:
    """What is the same for all matrices of a batch."""

    adapter: Adapter
    dtype: DType
    options: Options
    alpha: Any
    beta: Any
    symmetric: str
    transpose: bool
    hermitian: bool
    weights: np.ndarray | None = None  # of one matrix, contiguous, of the real type of `summed`

    @property
    def summed(self) -> DType:
        """The type of sums of weighted panels."""
        is_half = self.dtype.itemsize < 4 and not self.dtype.is_exact
        return FLOAT32 if is_half else self.dtype

    def weighing(self) -> Options | None:
        """Return the options of products that the engine weighs; None: they are of panels."""
        options, engine = self.options, host_engine()
        plain = options.arithmetic in ("auto", "native") and options.check != "verify"
        plain = plain and options.scheme in ("auto", "classical") and not options.centre
        able = plain and not engine.is_library and options.backend in ("auto", engine.name)
        problem = Problem(1, 1, 1, self.dtype.part or self.dtype, weighted=True)
        if not able or engine.why_not(problem) is not None:
            return None
        return replace(options, backend=engine.name, scheme="classical", arithmetic="native")

    def multiply(self, x: np.ndarray, c: np.ndarray | None, out: np.ndarray) -> None:
        options = self.options if self.weights is None else self.weighing()
        if (self.dtype.is_complex or options is None) and self.alpha != 0:
            self._of_several(x, c, out, options)
            return
        options = options or self.options
        across = x.swapaxes(-1, -2)
        a, b = (x, across) if self.transpose else (across, x)
        whole = Product(
            *(self.adapter, a, b, c, out, self.dtype, self.dtype, options),
            *(self.alpha, self.beta),
            symmetric=self.symmetric,
            weights=self.weights,
        )
        elsewhere = self.options.check == "verify" or a.shape[-1] == 0 or self.alpha == 0
        if self.symmetric == "full" or not elsewhere:
            multiply(whole)
            return
        # Freivalds' test, and beta * c alone, need all of C.
        options = without(options, out.shape, self.dtype)
        full = self.adapter.empty(out.shape, self.dtype)
        multiply(replace(whole, out=full, options=options, symmetric="full"))
        copy_triangle(full, out, self.symmetric)

    def _of_several(
        self, x: np.ndarray, c: np.ndarray | None, out: np.ndarray, given: Options | None
    ) -> None:
        """Add up several products: real ones, by options `given`, or those of weighted panels."""
        kind, options = self.summed, self.options if given is None else given
        if given is not None:
            x = x if x.dtype == kind.numpy else x.astype(kind.numpy)
            options = without(options, out.shape, of(x.real.dtype))  # for P'Q
        written, *read = (self.adapter.matrix(y) for y in (out, x, c) if y is not None)
        overlaps = any(written.overlaps(y) for y in read)
        if self.symmetric == "full" and written.holds(kind) and not overlaps:
            full = out
        else:
            options = without(options, out.shape, kind)
            full = np.empty(out.shape, kind.numpy)
        if given is None:
            self._by_panels(x, full, options)
        elif self.is_small(x) and self.weights is None:
            self._by_complex(x, full)
        else:
            self._by_real(x, full, options)
        with np.errstate(all="ignore"):
            if self.alpha != 1:
                np.multiply(full, self.alpha, out=full)
            if c is not None:
                full += self.beta * c
        if self.symmetric != "full":
            copy_triangle(full, out, self.symmetric)
        elif full is not out:
            self.adapter.copy(full, out)

    def is_small(self, x: np.ndarray) -> bool:
        """Whether complex matrices are so small that one complex product is the faster way."""
        options, (K, M) = self.options, x.shape[-2:][:: -1 if self.transpose else 1]
        if not self.dtype.is_complex or self.alpha == 0 or 0 in x.shape:
            return False
        able = options.scheme in ("auto", "classical") and options.check != "verify"
        able = able and options.workspace_limit is options.modulus is None
        return able and (K <= _FEW_ROWS or M * M * K <= _FEW_PRODUCTS)

    def _by_complex(self, x: np.ndarray, out: np.ndarray) -> None:
        """Multiply as any other matrices, and copy one triangle to the other."""
        across = x.swapaxes(-1, -2)
        turned = across.conj() if self.hermitian else across
        a, b = (x, turned) if self.transpose else (turned, x)
        multiply(Product(self.adapter, a, b, None, out, self.dtype, self.dtype, self.options))
        self._mirror(out)

    def _by_panels(self, x: np.ndarray, out: np.ndarray, options: Options) -> None:
        """Multiply panels of `x`, and add up; a panel that has weights is a copy."""
        rows, kind, weights = x.T if self.transpose else x, of(out.dtype), self.weights
        steps = max(_STRIP, _PANEL // max(len(out), 1))
        options = without(options, (2 * min(steps, len(rows)), len(out)), kind)
        assert weights is not None  # for type checkers
        out[...] = 0
        for start in range(0, len(rows), steps):
            some = slice(start, start + steps)
            part = rows[some].astype(kind.numpy, copy=False)
            with np.errstate(all="ignore"):
                b = weights[some, None] * part
            if self.hermitian and self.transpose:
                np.conjugate(b, out=b)
            a = part.conj().T if self.hermitian and not self.transpose else part.T
            multiply(Product(self.adapter, a, b, out, out, kind, kind, options, 1, 1))
        self._mirror(out)

    def _mirror(self, out: np.ndarray) -> None:
        """Copy the lower triangle to the upper one."""
        across, size = out.swapaxes(-1, -2), out.shape[-1]
        with np.errstate(all="ignore"):
            for start in range(0, size, _STRIP):
                strip = ..., slice(start, start + _STRIP), slice(start, size)
                below = across[strip].conj() if self.hermitian else across[strip]
                np.copyto(out[strip], below, where=np.tri(*below.shape[-2:]) == 0)
            if self.hermitian:
                diagonal = out.imag.diagonal(axis1=-2, axis2=-1)
                diagonal.flags.writeable = True
                diagonal -= diagonal  # NaN and Inf leave NaN

    def _by_real(self, x: np.ndarray, full: np.ndarray, options: Options) -> None:
        """Compute P'P + Q'Q and P'Q - Q'P for x = P + iQ; unconjugated: P'P - Q'Q, P'Q + Q'P."""
        kind = of(x.real.dtype)
        real = replace(self, dtype=kind, options=options, alpha=1, beta=0, symmetric="full")
        real.multiply(x.real, None, full.real)
        sign = 1 if self.hermitian else -1
        replace(real, alpha=sign, beta=1).multiply(x.imag, full.real, full.real)
        a, b = (x.real, x.imag.T) if self.transpose else (x.real.T, x.imag)
        mixed = self.adapter.empty(full.shape, kind)
        mix = Product(self.adapter, a, b, None, mixed, kind, kind, options, weights=self.weights)
        multiply(mix)
        with np.errstate(all="ignore"):
            if not self.hermitian:
                np.add(mixed, mixed.T, out=full.imag)
            elif self.transpose:
                np.subtract(mixed.T, mixed, out=full.imag)
            else:
                np.subtract(mixed, mixed.T, out=full.imag)
