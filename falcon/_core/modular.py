"""`Residues`: exact products modulo p by kernels for floats, or for integers of few bits.

An integer is replaced by its residue of least magnitude, ``|x| <= p / 2``. Sums of products of such
residues are exact while they fit the type in which they are summed, and are reduced modulo p
afterwards. Where p is too large, the same is done modulo several small numbers, its *moduli*, which
have no factor in common. If their product M exceeds twice the largest sum X of products of residues
modulo p, X follows from its residues x_m, by the Chinese remainder theorem:

    X = sum of r_m M / m - q M,    r_m = x_m (M / m)^-1 modulo m,    q = round(sum of r_m / m)

Each term and q are reduced modulo p, so that no number has more than 64 bits.

Sources: J.-G. Dumas, P. Giorgi, C. Pernet, "Dense linear algebra over word-size prime fields: the
FFLAS and FFPACK packages", 2008, arXiv:cs/0601133; for several moduli K. Ozaki, Y. Uchino,
T. Imamura, "Ozaki scheme II", 2025, arXiv:2504.08009.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import gcd, isqrt, lcm, prod
from typing import Any

from falcon._tools.lazy import lazy

from .dtypes import FLOAT32, FLOAT64, DType, dtype_of

# Types of residues, and the largest magnitude that each holds.
KINDS = {dtype_of("int8"): 2**7 - 1, dtype_of("int16"): 2**15 - 1, FLOAT32: 2**24, FLOAT64: 2**53}
# The largest of several moduli: products with digits of 32 bits are exact in float64.
_LARGEST = 2**21


@dataclass(frozen=True)
class Residues:
    """How matrices are multiplied modulo p: as which type, and modulo which numbers."""

    results: tuple[int, ...]  # moduli of the products
    kind: DType  # of residues
    moduli: tuple[int, ...] = ()  # of residues; by default `modulus` alone

    def __post_init__(self) -> None:
        if not self.moduli:
            object.__setattr__(self, "moduli", (self.modulus,))

    @lazy
    def modulus(self) -> int:
        """That of the operands, a multiple of that of all products; 0: they are not reduced."""
        whole = lcm(*self.results)
        return whole if whole <= 2**62 else 0

    @classmethod
    def several(
        cls, results: tuple[int, ...], kind: DType, longest: float, bound: int
    ) -> Residues | None:
        """Return the way with the fewest moduli; None: there are not enough of them.

        `longest`: products whose sums must be held.
        `bound`: of the magnitude of sums, to be put together.
        """
        most = 2 * isqrt(int(cls((2,), kind).most / longest))
        moduli = coprime(min(most, 2 * KINDS[kind] + 1, _LARGEST), 3 * bound)
        return cls(results, kind, moduli) if moduli else None

    @lazy
    def sums(self) -> DType:
        """The type in which products of residues are summed, and returned."""
        return self.kind.wide[0] if self.kind.wide else self.kind

    @property
    def largest(self) -> int:
        """The largest magnitude of residues."""
        return max(self.moduli) // 2

    @property
    def most(self) -> float:
        """The largest sum; those of float64 leave room for the multiple of p that is subtracted."""
        sums = self.sums
        if sums.is_exact:
            return 2.0 ** (8 * sums.itemsize - 1) - 1
        return 1 / sums.unit_roundoff - (2.0**32 if sums.itemsize == 8 else 0)

    def headroom(self, K: int) -> float:
        """Return how many times the largest sum of K products may be held."""
        return self.most / (K * self.largest**2)

    def nbytes(self, M: int, N: int, K: int) -> int:
        """Return the bytes of the residues of A and of B, and of sums."""
        count, item = len(self.moduli), self.kind.itemsize
        sizes = M * K * item, K * N * item, M * N * self.sums.itemsize
        return sum(-(-count * x // 64) * 64 for x in sizes)

    def of_operand(self, parts: Any) -> tuple[list[Any], int, int]:
        """Return arguments of `Backend.reduce`, behind the terms, that write residues to `parts`.

        The term is the operand: ``(x, 1, 0, 0)``.
        """
        return [*zip(parts, self.moduli, strict=True)], self.modulus, 0

    def of_sums(self, sums: Any, p: int, alpha: int = 1) -> tuple[list[Any], int]:
        """Return terms and carry for `Backend.reduce` that are ``alpha a b`` modulo p.

        `sums`: of products of residues.
        """
        terms = [(x, alpha * y % p, m, factor)
                 for x, (y, m, factor) in zip(sums, self._basis, strict=True)]  # fmt: skip
        return terms, alpha * prod(self.moduli) % p

    @lazy
    def _basis(self) -> list[tuple[int, int, int]]:
        """Of each modulus m the product of the others, m, and its inverse modulo m."""
        others = [(prod(self.moduli) // m, m) for m in self.moduli]
        return [(y, m, pow(y, -1, m)) for y, m in others]

    def __str__(self) -> str:
        count = len(self.moduli)
        return str(self.kind) if count == 1 else f"{self.kind} by {count} moduli"


@cache
def coprime(largest: int, bound: int) -> tuple[int, ...]:
    """Return the largest numbers without common factors whose product exceeds a bound.

    None is larger than `largest`; empty if there are not enough of them.

    >>> coprime(10, 100)
    (10, 9, 7)
    """
    found, product = [], 1
    for x in range(largest, 1, -1):
        if product > bound:
            break
        if gcd(x, product) == 1:
            found.append(x)
            product *= x
    return tuple(found) if product > bound else ()
