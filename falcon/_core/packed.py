"""`PackedOperand`: B combined and laid out once, for many products with the same weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from falcon.schemes import Scheme


@dataclass(frozen=True, eq=False)
class PackedOperand:
    """The right operand of many products, prepared by `falcon.pack`.

    Depends on B, the scheme and the machine's instruction set, never on the number of rows of A.
    May be used from several threads at once, and pickled.

    Attributes
    ----------
    shape : (int, int)
        K and N of the matrix that was packed.
    dtype : numpy.dtype
        Of the arithmetic.
    scheme : Scheme or None
        Whose sums of B are held; None: B in the layout of the classical kernel.
    backend : str
        The backend that packed it and multiplies it.
    payload : object
        The backend's own data.
    source : ndarray
        B itself, by reference: needed where a NaN or Inf in A, or an overflow, makes falcon redo
        a product classically. Must not be changed while the packed operand is in use.
    """

    shape: tuple[int, int]
    dtype: np.dtype
    scheme: Scheme | None
    backend: str
    payload: Any
    source: np.ndarray

    @property
    def nbytes(self) -> int:
        """Bytes of the packed data, without `source`."""
        return int(self.payload.nbytes)

    def __repr__(self) -> str:
        scheme = "classical" if self.scheme is None else self.scheme.name
        return (
            f"<PackedOperand {self.shape[0]} x {self.shape[1]} {self.dtype} for {scheme} on "
            f"backend {self.backend}, {self.nbytes / 2**20:.1f} MiB>"
        )
