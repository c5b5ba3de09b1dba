"""`grade`: how a function multiplies, told from outside, and a letter for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from math import log2, sqrt
from typing import Any

import numpy as np

from falcon._tools.text import format_table

from .probes import GradeError, Subject, UnusableError, arithmetic, blocks
from .products import Products

LETTERS = {
    "A": "an IEEE classical product", "B": "precise by norms, not entry by entry or at all ends",
    "C": "less precise than its type", "F": "wrong",
}  # fmt: skip
# What is looked at, and what it means if it is as it must be, and if not; of errors, if operands or
# sums of fewer bits explain them.
_MEANING = {
    "a product": ("", "It cannot be used."),
    "operands": ("Every digit of the inputs counts.", "Inputs are rounded, or cut into parts."),
    "sums": ("Sums keep what the type holds.", "Long sums lose digits, or drift."),
    "algorithm": ("Each entry comes from its own row and column.",
                  "Large entries leave errors in other, small ones."),
    "errors": ("No more than rounding explains.", "More than rounding explains: it is wrong.",
               "As large as its operands or sums make them."),
    "uneven lines": ("Small rows and columns are as precise as large ones.",
                     "Small rows and columns beside large ones lose digits."),
    "zeros": ("Zero rows and columns stay zero.", "Entries that must be 0 are not."),
    "permutations": ("Copies and powers of two are exact.", "Even the identity changes digits."),
    "subnormal numbers": ("Very small numbers are kept.", "Very small numbers become 0."),
    "near overflow": ("Finite results are finite.", "It overflows where the result does not."),
    "NaN and Inf": ("They stay in their row and column.", "They reach other entries, or change."),
    "whole numbers": ("Exact, as far as sums have bits.", "Entries are plainly wrong."),
    "layouts": ("Exact, however operands lie, and where b is a.T.",
                "Entries are plainly wrong where operands lie so."),
    "integers": ("They wrap, as in NumPy.", "Large sums are wrong."),
    "same bits": ("However it is called.", "The last digits depend on how it is called."),
}  # fmt: skip
TYPES = ["float16", "float32", "float64"]
TYPES += [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
_SIZES, _PRODUCTS, _SECONDS = (1920, 960, 480, 256), 75, 15.0  # so many products take so long
_LIMIT = 12.0  # of errors over u sqrt(K) norm(a_i) norm(b_j): 1.5 times a growth of 8
_PARTS = {(8, 2): "bf16x3", (8, 3): "bf16x6", (11, 2): "fp16x3"}


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found of one property, the best letter that it allows, and what it means."""

    what: str
    found: str
    letter: str
    meaning: str


@dataclass(repr=False)
class Grade:
    """What `grade` found; printed, it is a table.

    Attributes
    ----------
    of, dtype, size, seconds : str, str, int, float
        What was graded, its type, the n of products n x n, how long it took.
    name : str
        The arithmetic: "IEEE float32", "TF32 operands", "Strassen-like, 2 levels", ...
    findings : list of Finding
        The evidence: what, found, letter, meaning.
    curve, entries, picture : list
        Of the page: K, error, NumPy's error; errors of entries, sorted, and NumPy's; errors where a
        large diagonal shows the blocks of a fast algorithm.

    Examples
    --------
    >>> import falcon, numpy as np
    >>> falcon.grade(np.matmul, size=64).name
    'IEEE float32'
    """

    of: str
    dtype: str
    size: int = 0
    name: str = "no product"
    findings: list[Finding] = field(default_factory=list)
    curve: list[tuple[float, ...]] = field(default_factory=list)
    entries: list[tuple[float, ...]] = field(default_factory=list)
    picture: list[list[float]] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def letter(self) -> str:
        """A: an IEEE classical product; B: within a bound by norms; C: less precise; F: wrong."""
        return max(x.letter for x in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """Return all of it for JSON."""
        return {**asdict(self), "letter": self.letter}

    def add(self, what: str, found: str, letter: str, meaning: int | None = None) -> None:
        """Add a finding, with one of its meanings; by default only an A is good."""
        meaning = int(letter != "A") if meaning is None else meaning
        self.findings.append(Finding(what, found, letter, _MEANING[what][meaning]))

    def look(self, what: str, letter: str, call: Callable[..., str], *given: Any) -> bool:
        """Add what a call finds wrong, or why it cannot be called; return whether it is good."""
        try:
            wrong = call(*given)
        except GradeError as error:
            wrong, letter = str(error), "F" if isinstance(error, UnusableError) else letter
        self.add(what, wrong or "as it must be", letter if wrong else "A", bool(wrong))
        return not wrong

    def __str__(self) -> str:
        rows = [(x.what, x.letter, x.found, x.meaning) for x in self.findings]
        head = f"{self.of}, {self.dtype}: {self.letter}, {self.name}"
        return f"{head} ({self.size} x {self.size}, {self.seconds:.0f} s)\n{format_table(rows, 3)}"

    __repr__ = __str__


def grade(
    f: Callable[[Any, Any], Any], dtype: Any = "float32", *, size: int | None = None, seed: int = 0
) -> Grade:
    """Tell how precisely a function multiplies matrices.

    Parameters
    ----------
    f : callable
        ``f(a, b)`` returns the product of two NumPy arrays, shapes (M, K) and (K, N).
    dtype : {"float16", "float32", "float64"} or an integer type
        The type of a and b.
    size : int, optional
        n of products n x n, at least 64. Default: 256 to 1920, as many as take some 10 s.
    seed : int, optional
        Of the random numbers.

    Returns
    -------
    Grade
        Letter, name and evidence. A function that raises, returns NaN, another shape or
        type, or changes its operands, gets an F that says so.

    Raises
    ------
    TypeError
        `f` is not callable, or `dtype` is none of these.
    ValueError
        `size` is too small.

    Notes
    -----
    Sums of which the result tells their arithmetic: M + x - M, with x at the last bit of M;
    (1 + w)^2 - 1 - 2 w, which is 0 where products of second parts are left out; and random products
    beside exact ones. Errors are in units of u sqrt(K) norm(a_i) norm(b_j).
    Sources: J. Demmel et al., "How to grade the accuracy of an implementation of the BLAS", 2025;
    M. Fasi et al., "Numerical behavior of NVIDIA tensor cores", 2021.

    Examples
    --------
    >>> import falcon, numpy as np
    >>> falcon.grade(np.matmul, size=64).letter
    'A'
    """
    if not callable(f):
        raise TypeError(f"f is {f!r}; expected a function of two matrices")
    kind = np.dtype(dtype)
    if kind.name not in TYPES:
        raise TypeError(f"dtype is {kind}; expected one of {', '.join(TYPES)}")
    if size is not None and size < 64:
        raise ValueError(f"size is {size}; expected at least 64")
    start = time.perf_counter()
    made = Grade(getattr(f, "__name__", str(f)), str(kind))
    try:
        subject = Subject(f, kind, size or _size(f, kind), seed)
        made.size = subject.n
        (_floats if kind.kind == "f" else _integers)(subject, made)
    except GradeError as error:
        made.add("a product", str(error), "F")
    made.name = "wrong" if made.letter == "F" else made.name
    made.seconds = time.perf_counter() - start
    return made


def _size(f: Callable[[Any, Any], Any], kind: np.dtype) -> int:
    """Return the largest size of which many products take some seconds."""
    least, times = _SIZES[-1], []
    subject, (a, b) = Subject(f, kind, least), np.ones((2, least, least), kind)
    for _ in range(5):
        start = time.perf_counter()
        subject(a, b)
        times.append(time.perf_counter() - start)
    longest = least * (_SECONDS / _PRODUCTS / min(times)) ** (1 / 3)
    return next((n for n in _SIZES if n <= longest), 64)


def _floats(subject: Subject, made: Grade) -> None:
    x, bits, n = arithmetic(subject), subject.bits, subject.n
    products, positive, (grid, picture) = Products(subject), Products(subject, 1), blocks(subject)
    made.picture, low, levels = picture.tolist(), min(x.read, x.sums), log2(grid)
    is_less, is_split = x.read < bits or x.parts == 2 or not x.reaches, x.parts > 1 or x.window > 0
    found = f"{x.read} of {bits} bits" + f", {x.parts} parts of {x.width}" * (x.parts > 1)
    found += f", down to 2^-{x.window} of a line's largest" * (x.window > 0)
    made.add("operands", found, "C" if is_less else "B" if is_split else "A")
    is_cut = x.rounding not in ("", "to nearest")
    is_odd = not (x.is_rounded_right or is_less or is_split or is_cut or grid > 1)
    found = f"{x.sums} bits" + f", rounded {x.rounding}" * bool(x.rounding)
    found += f" after {x.terms} terms" * (x.terms > 1) + ", products are not" * is_odd
    made.add("sums", found, "C" if x.sums < bits or is_cut else "B" if is_odd else "A")
    fast = f"Strassen-like, {levels:.0f} level{'s' * (levels > 1)}"
    fast = fast if levels in (1, 2, 3) else f"fast algorithm, {grid} x {grid} blocks"
    made.add("algorithm", fast if grid > 1 else "classical", "B" if grid > 1 else "A")
    try:
        errors = [y.errors(y.scaled()) for y in (products, positive)]
        errors.append(products.errors(products.native()))
        made.curve = products.against_k()
        entries = np.sort(np.abs([errors[0][0].ravel(), errors[2][0].ravel()]), axis=1)
        made.entries = entries[:, :: max(1, entries.shape[1] // 100)].T.tolist()
        both, one, native = (float(np.abs(y).max()) for _, y in errors)
        found = f"{both:.2g} u sqrt(K) |a| |b| (NumPy {native:.2g}), of one sign {one:.2g}"
        found += f", bias {errors[1][0].mean():.1g} u"
        over = max(both, one) / max(_LIMIT, sqrt(n))
        letter = "A" if over <= 1 else "C" if over <= 2.0 ** (bits - low) else "F"
        made.add("errors", found, letter, "AFC".index(letter))
    except GradeError as error:
        made.add("errors", str(error), "F")
    made.look("uneven lines", "B", products.uneven, n * 2.0 ** max(0, bits + 1 - low))
    made.look("zeros", "B", products.zeros)
    made.look("permutations", "B", products.permuted)
    is_kept = made.look("subnormal numbers", "B", products.flushed)
    made.look("near overflow", "B", products.overflowing)
    made.look("NaN and Inf", "B", products.misplaced)
    made.look("whole numbers", "F", products.whole, 2.0**low)
    made.look("layouts", "F", products.laid, 2.0**low)
    made.look("same bits", "A", products.other_bits)
    names = []
    if x.parts > 1:
        names = [_PARTS.get((x.width, x.parts), f"{x.parts} parts of {x.width} bits")]
    elif x.window and x.terms == subject.corner:
        names = [f"Ozaki, {round(x.window / 7)} slices"]
    elif x.sums < bits and x.read != 24:
        names = [f"accumulator of {x.sums} bits"]
    elif x.read < bits:
        kinds = {8: "bfloat16", 11: "TF32" if x.reaches else "float16", 24: "float32"}
        names = [f"{kinds.get(x.read, f'{x.read} bits')} operands"]
    names += [f"accumulator truncates after {x.terms} terms"] if is_cut else []
    names += [fast] if grid > 1 else []
    names += ["subnormal numbers are flushed"] if not is_kept and not names else []
    made.name = ", ".join(names) or f"IEEE {made.dtype}"


def _integers(subject: Subject, made: Grade) -> None:
    products = Products(subject)
    made.look("whole numbers", "F", products.whole, 63.0)
    made.look("layouts", "F", products.laid, 63.0)
    is_wrapped = made.look("integers", "C", products.wrapped)
    made.look("same bits", "A", products.other_bits)
    made.name = f"{made.dtype} that {'wraps' if is_wrapped else 'does not wrap'}"
