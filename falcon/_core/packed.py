"""`PackedOperand`: B combined and packed once, for many products with the same weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from falcon.schemes import ComplexScheme, Scheme


class Weighted(NamedTuple):
    """A right operand whose rows are multiplied by weights while it is read."""

    matrix: Any
    weights: np.ndarray  # K, contiguous, of the matrix's type


@dataclass(frozen=True, eq=False)
class PackedOperand:
    """The right operand of many products, packed by `falcon.pack`.

    ``x @ packed`` is ``falcon.matmul(x, packed)``, for NumPy arrays too.

    Depends on B, the scheme and the machine's instruction set, never on the number of rows of A.
    Can be used from several threads at once, and pickled: a pickle holds `source` and the options
    of `falcon.pack`, and B is packed again where it is loaded. Where panels would not make products
    faster, B is *not packed*: products are those of `source`, which is a copy then.

    Attributes
    ----------
    shape : (int, int)
        K and N of the matrix that was packed.
    dtype : numpy.dtype
        Of the result.
    scheme : Scheme, ComplexScheme or None
        The scheme whose sums of B are held; None: B in the layout of the classical kernel, or not
        packed.
    backend : str
        The backend that packed it and multiplies it; of a B that is not packed, the one expected.
    payload : object or None
        The backend's own data, with `nbytes`; None: B is not packed.
    source : ndarray or None
        B itself, by reference: needed to redo a product classically after a NaN or Inf in A or an
        overflow, and to pickle the operand. Must not be changed while the packed operand is in use.
        None: not kept. If B is not packed, a copy, so that products do not follow later changes.
    pack_again : callable
        `falcon.pack` with the options that B was packed with; can be pickled.
    matmul : callable
        `falcon.matmul`, which ``x @ packed`` calls.
    column_norms : object, optional
        Squared norms of B's columns, as the backend keeps them, to detect badly scaled operands
        (`falcon._core.scaling`); None if the scheme was chosen by name.
    column_totals : Totals, optional
        Sums of B's columns, by which rows of A are centred (`falcon._core.centring`).
    column_powers : ndarray of float64, optional
        Powers of two by which columns of different norms were multiplied when they were packed;
        `column_norms` are those of the multiplied columns. Products are divided by these powers.
    units : ndarray of float64, optional
        Powers of two by which rows of different norms were multiplied first; columns of A are
        divided by them (`falcon._core.units`).
    row_norms : ndarray of float64, optional
        Squared norms of these rows, if some columns are much larger than others.
    panels : numpy.dtype, optional
        Dtype of the packed B, if it is not `dtype`, and of A (int8 and uint8 go together, too).
    arithmetic : str
        How products of its elements are formed: "native", by parts, which it holds, or otherwise.
    kept : tuple of (str, object)
        Options of `falcon.pack` that products by a B that is not packed take; empty if it is.
    modulus : int, optional
        Products are reduced modulo it.
    error : float, optional
        What products may err by at most, if that was named.
    lines : Lines, optional
        What is known of B's columns then (`falcon._core.sampled`).

    Examples
    --------
    >>> import falcon, numpy as np
    >>> w = falcon.pack(np.ones((70, 80)), scheme="strassen")
    >>> w.shape, w.scheme, float((np.ones((9, 70)) @ w)[0, 0])
    ((70, 80), <Scheme strassen <2,2,2;7>>, 70.0)
    """

    shape: tuple[int, int]
    dtype: np.dtype
    scheme: Any
    backend: str
    payload: Any
    source: np.ndarray | None
    pack_again: Callable[[Any], PackedOperand]
    matmul: Callable[[Any, Any], Any]
    column_norms: Any = None
    column_totals: Any = None
    column_powers: np.ndarray | None = None
    units: np.ndarray | None = None
    row_norms: np.ndarray | None = None
    panels: np.dtype | None = None
    arithmetic: str = "native"
    kept: tuple[tuple[str, Any], ...] = ()
    modulus: int | None = None
    error: float | None = None
    lines: Any = None
    # Calls by it that are recalled (`falcon._front.calls`); on a GPU, `payload` has them.
    calls: dict[Any, Any] = field(default_factory=dict, init=False, repr=False)

    ndim: ClassVar = 2
    # NumPy's arrays then leave ``x @ packed`` to `__rmatmul__`, and its functions refuse it.
    __array_ufunc__: ClassVar = None

    def __rmatmul__(self, x: Any) -> Any:
        """Multiply from the left, as `falcon.matmul` does."""
        return self.matmul(x, self)

    @property
    def is_packed(self) -> bool:
        """Whether it holds panels; else products are those of a copy of B."""
        return self.payload is not None

    @property
    def nbytes(self) -> int:
        """Bytes beside B: of the packed data, or of the copy of B that is not packed."""
        held = self.payload if self.is_packed else self.needed_source("it is not packed")
        return int(held.nbytes)

    def needed_source(self, what: str) -> np.ndarray:
        """Return `source`; raise ValueError with the reason `what` if it was not kept."""
        if self.source is None:
            raise ValueError(f"b was packed with keep_source=False: {what}")
        return self.source

    def source_to_redo(self, refused: bool = False, why: str = "") -> np.ndarray:
        """Return `source` to redo a product classically after a non-finite value.

        With `refused`, the scheme did not run at all, because the rows of A could not be scaled.
        `why`: a product by an arithmetic that errs by more than was named is made again.
        """
        if why:
            return self.needed_source(
                f"the product {why}, and is then made again by b itself; out holds no result. Keep "
                "the source, or name a larger error"
            )
        if refused:
            return self.needed_source(
                "norms of rows of a differ by too much for the scheme that 'auto' chose when b was "
                "packed, or cannot be measured; the product is then classical, with b itself; "
                "nothing was written. Keep the source, or pack for a scheme by name, which runs "
                "whatever the norms"
            )
        return self.needed_source(
            "a NaN or Inf came up (in a or b, or by overflow), and the product is then redone "
            "classically with b itself; out holds no result. Keep the source, or ask for "
            "check='none', with which a NaN or Inf may spread to other entries"
        )

    def is_for(self, scheme: Scheme | None) -> bool:
        """Whether it was packed for `scheme`, or for one with the same coefficients."""
        own = self.scheme
        if isinstance(own, ComplexScheme):
            own = own.scheme if own.scheme is not None or own.is_classical else own
        if scheme is None or not isinstance(own, Scheme):
            return scheme is own
        return scheme.same_coefficients(own)

    def __repr__(self) -> str:
        how = "for classical" if self.scheme is None else f"for {self.scheme.name}"
        how = f"{how} on backend {self.backend}" if self.is_packed else "not packed"
        kinds = self.dtype if self.panels is None else f"{self.panels} to {self.dtype}"
        kinds = f"{kinds}{f' modulo {self.modulus}' if self.modulus else ''}"
        kinds = f"{kinds}{'' if self.arithmetic == 'native' else f' by {self.arithmetic}'}"
        return (
            f"<PackedOperand {self.shape[0]} x {self.shape[1]} {kinds} {how}, "
            f"{self.nbytes / 2**20:.1f} MiB>"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle B, which is packed again with the same options where it is loaded."""
        source = self.needed_source(
            "a copy or a pickle holds b itself, and packs it again; keep the source"
        )
        return self.pack_again, (source,)


# Pickles store the public name of the class, so that this file may move.
PackedOperand.__module__ = "falcon"


def refuse_packed(name: str, value: Any) -> None:
    """Raise TypeError for a packed operand where an array is required."""
    if isinstance(value, PackedOperand):
        raise TypeError(f"{name} is a PackedOperand, which gemm, matmul and plan take as b only")
