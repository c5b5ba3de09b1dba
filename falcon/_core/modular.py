"""`Residues`: exact products modulo p by kernels for floats, or for integers of few bits.

An integer is replaced by its residue of least magnitude, ``|x| <= p / 2``. Sums of products of such
residues are exact while they fit the type in which they are summed, and are reduced modulo p
afterwards. Where p is too large, residues are cut into *parts*, the digits of a number in some
base, again of least magnitude: each part of A meets each part of B, and powers of the bases are put
back in when the sums are reduced.

Source: J.-G. Dumas, P. Giorgi, C. Pernet, "Dense linear algebra over word-size prime fields: the
FFLAS and FFPACK packages", 2008, arXiv:cs/0601133.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from .dtypes import FLOAT32, FLOAT64, DType, of
from .lazy import lazy

# Types of parts, and the largest magnitude that each holds.
KINDS = {of("int8"): 2**7 - 1, of("int16"): 2**15 - 1, FLOAT32: 2**24, FLOAT64: 2**53}


@dataclass(frozen=True)
class Residues:
    """How matrices modulo p are multiplied: as which type, and in how many parts."""

    modulus: int
    kind: DType  # of the parts
    parts: tuple[int, int] = (1, 1)  # of an element of A, and of B

    @lazy
    def sums(self) -> DType:
        """The type in which products of parts are summed, and returned."""
        return self.kind.wide[0] if self.kind.wide else self.kind

    @lazy
    def bases(self) -> tuple[int, int]:
        """The least bases in which residues have so many digits; p itself where that is one."""
        a, b = (max(ceil(self.modulus ** (1 / x) - 1e-12), 2) for x in self.parts)
        return a, b

    @property
    def largest(self) -> tuple[int, int]:
        """Bounds of the magnitudes of parts of A and of B; the highest digit may be rounded up."""
        a, b = (base // 2 + (x > 1) for x, base in zip(self.parts, self.bases, strict=True))
        return a, b

    @property
    def most(self) -> float:
        """The largest sum; those of float64 leave room for the multiple of p that is subtracted."""
        sums = self.sums
        if sums.is_exact:
            return 2.0 ** (8 * sums.itemsize - 1) - 1
        return 1 / sums.unit_roundoff - (2.0**32 if sums.itemsize == 8 else 0)

    def room(self, K: int) -> float:
        """Return how many times the largest sum of K products may be held."""
        a, b = self.largest
        return self.most / (K * a * b)

    def nbytes(self, M: int, N: int, K: int) -> int:
        """Return the bytes of the parts of A and of B, and of sums."""
        (of_a, of_b), item = self.parts, self.kind.itemsize
        sums = of_a * of_b * M * N * self.sums.itemsize
        return sum(-(-x // 64) * 64 for x in (of_a * M * K * item, of_b * K * N * item, sums))

    def __str__(self) -> str:
        a, b = self.parts
        return str(self.kind) if a * b == 1 else f"{self.kind} in {a} x {b} parts"
