"""`Products`: what products of n x n get wrong: errors, zeros, range, whole numbers, bits."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from .probes import GradeError, Subject, UnusableError, exact_product, multiplied

_ROWS = 16  # of C that are compared with exact ones


@dataclass
class Products:
    """Products of random numbers, and of such with zeros, huge numbers, NaN, ...

    Those that return a str say what is wrong; "" if nothing is.
    """

    subject: Subject
    signs: int = 2  # entries between -1 and 1; with 1, between 0 and 1
    rows: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.n, self.random, self.kind = self.subject.n, self.subject.random, self.subject.dtype
        self.rows, shape = self.random.permutation(self.n)[:_ROWS], (2, self.n, self.n)
        if self.kind.kind != "f":  # all that the type holds
            limits = np.iinfo(self.kind)
            self.a, self.b = self.random.integers(limits.min, limits.max, shape, self.kind)
            return
        grid = 2**self.subject.bits  # whose multiples are not rounded, however they are scaled
        self.a, self.b = self.random.integers(1 - grid * (self.signs - 1), grid, shape) / grid
        self.exact = exact_product(self.a[self.rows], self.b)

    def __call__(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return self.subject(a.astype(self.kind), b.astype(self.kind))

    def scaled(self, r: Any = 0, d: Any = 0, s: Any = 0) -> np.ndarray:
        """Return C of ``2^r A 2^d`` and ``2^-d B 2^s``, its rows and columns scaled back."""
        r, d, s = (np.broadcast_to(x, self.n) for x in (r, d, s))
        c = self(np.ldexp(self.a, r[:, None] + d), np.ldexp(self.b, s - d[:, None]))
        return np.ldexp(c, -r[:, None] - s)

    def errors(self, c: np.ndarray, steps: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return errors of some rows of C over u (|A| |B|), and over u sqrt(K) norm(a) norm(b).

        `steps`: of K that were multiplied. NaN and Inf are errors without limit.
        """
        a, b = self.a[self.rows, :steps], self.b[:steps]
        first, rest = self.exact if steps is None else exact_product(a, b)
        error = np.nan_to_num(((c[self.rows] - first) - rest) * 2.0**self.subject.bits, nan=np.inf)
        norms = np.outer(np.linalg.norm(a, axis=1), np.linalg.norm(b, axis=0)) * np.sqrt(len(b))
        return error / multiplied(np.abs(a), np.abs(b)), error / norms

    def native(self) -> np.ndarray:
        """Return NumPy's product in the same type."""
        return np.matmul(self.a.astype(self.kind), self.b.astype(self.kind)).astype(float)

    def against_k(self) -> list[tuple[float, ...]]:
        """Return K, the RMS error over u sqrt(K) norm(a) norm(b), and that of NumPy's product."""
        a, b, found = self.a.astype(self.kind), self.b.astype(self.kind), []
        for steps in sorted({self.n >> x for x in (6, 4, 2, 1, 0)}):
            x, y = np.ascontiguousarray(a[:, :steps]), b[:steps]
            mine, other = (self.errors(c, steps)[1] for c in (self.subject(x, y), np.matmul(x, y)))
            found.append((steps, *(float(np.sqrt((e**2).mean())) for e in (mine, other))))
        return found

    def uneven(self, most: float) -> str:
        """Scale a row, a column, all rows, all steps of K by powers of two."""
        reach, at = (self.subject.most - 8) // 4, np.arange(self.n)
        one, many = (
            np.where(at == self.n // 3, reach, 0),
            self.random.integers(-reach, reach, self.n),
        )
        some: Any = {"r": one}, {"s": one}, {"r": many}, {"d": many}
        worst = max(np.abs(self.errors(self.scaled(**how))[0]).max() for how in some)
        return f"errors up to {worst:.2g}" if worst > most else ""

    def zeros(self) -> str:
        """Let some rows of A and columns of B be zero."""
        a, b, (rows, columns) = self.a.copy(), self.b.copy(), self.random.random((2, self.n)) < 0.2
        a[rows], b[:, columns] = 0, 0
        return _count(self(a, b)[rows[:, None] | columns] != 0)

    def permuted(self) -> str:
        """Let A be a permutation times powers of two: nothing is rounded."""
        order, powers = self.random.permutation(self.n), 2.0 ** self.random.integers(-4, 5, self.n)
        return _count(self(np.eye(self.n)[order] * powers[:, None], self.b)
                      != powers[:, None] * self.b[order])  # fmt: skip

    def overflowing(self) -> str:
        """Let sums of entries of A overflow, but no product."""
        a = np.copysign(np.ldexp(0.6 + 0.39 * np.abs(self.a), self.subject.most), self.a)
        return _count(~np.isfinite(self(a, self.b / 16 / self.n)))

    def misplaced(self) -> str:
        """Put a NaN into A and an Inf into B."""
        a, b, i, j = self.a.copy(), self.b.copy(), self.n // 3, self.n // 5
        a[i, j], b[i, j] = np.nan, np.inf
        c, expected = self(a, b), np.zeros((self.n, self.n))
        expected[:, j] = np.where(a[:, i] == 0, np.nan, np.copysign(np.inf, a[:, i]))
        expected[i] = np.nan
        c[np.isfinite(c)] = 0
        return _count((c != expected) & ~(np.isnan(c) & np.isnan(expected)))

    def flushed(self) -> str:
        """Multiply a subnormal number, and two whose product is one."""
        low, half = self.subject.least - 5, self.subject.least // 2 - 3
        pairs = {"operands": (low, 5 - low // 2), "results": (half, half)}
        c = self.subject.dots([({0: 2.0**x}, {0: 2.0**y}) for x, y in pairs.values()])
        lost = [x for x, y in zip(pairs, c, strict=True) if y != 2.0 ** sum(pairs[x])]
        return " and ".join(lost) + " flushed to 0" if lost else ""

    def whole(self, most: float) -> str:
        """Multiply whole numbers, of which no sum exceeds `most`."""
        a, b = self._whole(most)
        return _count(self(a, b) != a @ b)  # which is exact in any order

    def laid(self, most: float) -> str:
        """Multiply whole numbers that lie in other ways, also as one matrix in both operands."""
        (a, b), found = self._whole(most), []
        x, y, turned = a.astype(self.kind), b.astype(self.kind), a.T.astype(self.kind, "C")
        ways = [(name, *given, of(a @ b)) for name, *given, of in self._ways(x, y)]
        square = a @ a.T.copy()
        ways += [("b is a.T", x, x.T, square), ("a is b.T", turned.T, turned, square)]
        ways += [("b is a", x, x, a @ a.copy())]
        both, half = np.hstack([x, y]), self.n // 2
        part = np.s_[:half, :half]
        ways += [("b beside a", both[:, : self.n], both[:, self.n :], a @ b)]
        ways += [("b overlaps a", x[:half], x[:, :half], (a @ a.copy())[part])]
        ways += [("b is a.T of few rows", x[:half], x[:half].T, square[part])]
        ways += [("a is b.T of few columns", turned[:, :half].T, turned[:, :half], square[part])]
        for name, left, right, exact in ways:
            try:
                found += [name] * bool((self.subject(left, right) != exact).any())
            except UnusableError:
                raise
            except GradeError:  # it does not multiply these
                pass
        return ", ".join(found)

    def _whole(self, most: float) -> np.ndarray:
        least = 0 if self.kind.kind == "u" else -2
        x = self.random.integers(least, 3, (2, self.n, self.n)).astype(float)
        x[0, :, int(max(1, most / 4)) :] = 0
        return x

    def _ways(self, a: np.ndarray, b: np.ndarray) -> Iterator[tuple[str, Any, Any, Any]]:
        """Yield how the same matrices may lie, and a function from C to what they then give."""
        i, later = self.n // 3, []
        for y in a, b:  # copies that begin an element after memory that is aligned
            later.append(np.empty(y.size + 1, y.dtype)[1:].reshape(y.shape))
            later[-1][...] = y
        yield "again", a, b, np.asarray
        yield "another alignment", later[0], later[1], np.asarray
        yield "by columns", np.asfortranarray(a), np.asfortranarray(b), np.asarray
        yield "transposed", b.T, a.T, np.transpose
        yield "a row alone", a[i : i + 1], b, lambda c: c[i : i + 1]

    def wrapped(self) -> str:
        """Multiply all that an integer type holds, modulo what the result holds."""
        c, a, b = self(self.a, self.b)[self.rows], self.a[self.rows], self.b
        exact = multiplied(a.astype(np.int64), b.astype(np.int64)).astype(self.kind)
        wrong = _count(c != exact.astype(np.int64))
        powers = range(2, min(53, 8 * self.kind.itemsize - 1))
        held = [({0: 2 ** (t - t // 2), 1: 1}, {0: 2 ** (t // 2), 1: 1}) for t in powers]
        is_exact = self.subject.dots(held) == 2.0 ** np.array(powers) + 1 if wrong else np.ones(1)
        return (
            f"{wrong}, sums are exact up to 2^{powers[int(np.argmin(is_exact))]}" if wrong else ""
        )

    def other_bits(self) -> str:
        """Multiply the same matrices, on one thread, as copies, views, parts, batches."""
        a, b, x = self.a.astype(self.kind), self.b.astype(self.kind), self.subject
        c, square = x(a, b), x(a, a.T)
        pairs = {name: (x(*given), of(c)) for name, *given, of in self._ways(a, b)}
        pairs["A A^T is not symmetric"] = square, square.T
        torch = sys.modules.get("torch")
        with threadpool_limits(1), ExitStack() as stack:
            if torch is not None:
                stack.callback(torch.set_num_threads, torch.get_num_threads())
                torch.set_num_threads(1)
            pairs["one thread"] = x(a, b), c
        found = [name for name, (y, z) in pairs.items() if (y != z).any()]
        with suppress(GradeError):  # it multiplies no batches
            found += ["a batch"] * bool((x(np.stack([b, a]), np.stack([a, b]))[1] != c).any())
        return ", ".join(found)


def _count(wrong: np.ndarray) -> str:
    return f"{np.count_nonzero(wrong)} of {wrong.size} entries" if wrong.any() else ""
