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
from operator import index
from typing import Any

from .dtypes import DType

LARGEST_MODULUS = 2**31 - 1


def check_modulus(value: Any) -> int:
    """Return a modulus as an integer; raise unless ``2 <= modulus < 2**31``."""
    try:
        if isinstance(value, bool):
            raise TypeError
        modulus = index(value)
    except TypeError:
        raise TypeError(f"modulus is {value!r}; expected an integer") from None
    if not 2 <= modulus <= LARGEST_MODULUS:
        raise ValueError(
            f"modulus is {modulus}; expected at least 2 and less than 2**31 (a larger product of "
            "coprime factors can be put together from products modulo each: the Chinese remainders)"
        )
    return modulus


@dataclass(frozen=True, slots=True)
class Residues:
    """How matrices modulo p are multiplied: as which type, and in how many parts."""

    modulus: int
    kind: DType  # of the parts
    parts: tuple[int, int] = (1, 1)  # of an element of A, and of B

    @property
    def sums(self) -> DType:
        """The type in which products of parts are summed, and returned."""
        return self.kind.wide[0] if self.kind.wide else self.kind

    @property
    def bases(self) -> tuple[int, int]:
        """The bases of the parts of A and of B; p itself where there is one part."""
        a, b = (_base(self.modulus, parts) for parts in self.parts)
        return a, b

    @property
    def largest(self) -> tuple[int, int]:
        """The largest magnitudes of parts of A and of B."""
        found = []
        for parts, base in zip(self.parts, self.bases, strict=True):
            whole, part = self.modulus // 2, 0
            for _ in range(parts - 1):
                whole, part = (2 * whole + base) // (2 * base), base // 2
            found.append(max(whole, part))
        return found[0], found[1]

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
        return self.most / (max(K, 1) * a * b)

    def places(self, sizes: tuple[int, int, int]) -> tuple[int, int, int]:
        """Return where parts of B and sums begin behind parts of A, in bytes, and all bytes."""
        (M, N, K), (of_a, of_b), item = sizes, self.parts, self.kind.itemsize
        ends, end = [], 0
        of_sums = of_a * of_b * M * N * self.sums.itemsize
        for nbytes in (of_a * M * K * item, of_b * K * N * item, of_sums):
            end += -(-nbytes // 64) * 64
            ends.append(end)
        return ends[0], ends[1], ends[2]

    def __str__(self) -> str:
        a, b = self.parts
        return str(self.kind) if a * b == 1 else f"{self.kind} in {a} x {b} parts"


def _base(modulus: int, parts: int) -> int:
    """Return the least base in which residues have so many digits."""
    base = max(round(modulus ** (1 / parts)), 2)
    while base**parts < modulus:
        base += 1
    return base
