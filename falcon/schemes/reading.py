"""Read a scheme from formulas as papers, `to_formulas` and `to_latex` write them.

`repair` says what is wrong with them, in the names of who wrote them.

A value is a number or a sum of entries of A, of entries of B, or of products; a sum of A times a
sum of B is a new product. A line without a name is a trilinear term, (a..)(b..)(c..)/d, whose c
belong to C transposed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from ._checks import SchemeError

_TOKENS = re.compile(
    r"\s*(?:(?P<number>\d+(?:/\d+|\.\d+)?)|(?P<name>[A-Za-z]\w*(?:,\d+)?)|(?P<sign>[-+*/@()]))"
)
_ENTRY = re.compile(r"([abcABC])_?(?:(\d)(\d)|(\d+),(\d+))")
# What papers and LaTeX write, and what is read in its place.
_WRITTEN = (
    (r"#.*|^\s*Simplify\(.*", ""),  # a comment; the proof in scripts of Yacas
    # What `print` and ``python -m falcon schemes --show`` write before formulas, and after them.
    (r"^.*<\d+,\d+,\d+;\d+>: speed-up bound .*\n.*\n(source: .*)?", ""),
    (r"^with shared sums, \d+ additions:\n[\s\S]*", ""),
    (":=", "="),
    ("\u2212", "-"),
    (r"[\u00b7\u22c5]|\\cdot\b", "*"),
    (r"\\\\(\[1ex\])?", "\n"),
    (r"\\(begin|end)\{aligned\}|\\(left|right)\b|&", ""),
    (r"\\[td]?frac\{(\d+)\}\{(\d+)\}", r"\1/\2"),
    (r"(?<=[A-Za-z])_?[\[{] ?(\d{1,9}) ?(,?) ?(\d{0,9}) ?[\]}]", r"\1\2\3"),  # a_{1,2}, a[1,2]
)
# Limits that keep reading fast whatever the text holds: bits of a coefficient, terms, m k n.
_MOST_BITS, _MOST_TERMS, _MOST_VOLUME = 128, 2**20, 2**15
_KINDS = {"": "a number", "a": "a sum of A", "b": "a sum of B", "h": "a sum of products",
          "c": "a sum of C", "t": "a sum of trilinear terms"}  # fmt: skip
AXES = {"a": ("m", "k"), "b": ("k", "n"), "c": ("m", "n")}  # of entries
Place = tuple[int, int]


@dataclass(frozen=True)
class _Sum:
    """Coefficients by entry; of a kind of `_KINDS`: "" has the entry None, "t" (product, entry).

    A `Written` is an entry of all that is made of it: what is added there arrives so many times.
    """

    kind: str
    terms: dict[Any, Fraction]

    @property
    def entries(self) -> dict[Any, Fraction]:
        return {x: c for x, c in self.terms.items() if c and not isinstance(x, Written)}

    def scaled(self, factor: Fraction) -> _Sum:
        return _Sum(self.kind, {x: factor * c for x, c in self.terms.items()})


@dataclass(frozen=True, eq=False)
class Written:
    """A sum as it stands in a line, or in parentheses there; or a factor of a product."""

    name: str  # of the line
    right: str  # what is written there after "="
    terms: list[tuple[int, int, int, _Sum]]  # from, to, sign, and what it is without the sign
    value: _Sum
    is_factor: bool  # without parentheses
    known: int  # names that earlier lines define


class Formulas:
    """What the lines of a text define.

    Raises SchemeError: a formula cannot be read; the message quotes it.
    Raises TypeError: `text` is no text.
    """

    def __init__(self, text: str) -> None:
        if not isinstance(text, str) or re.fullmatch(r"\s*\S+\.[a-z]{1,4}\s*", text):
            what = SchemeError if isinstance(text, str) else TypeError
            raise what(f"{text!r:.80} is no formula; a file is read by falcon.schemes.load(path)")
        self.names: dict[str, _Sum] = {}
        self.products: list[tuple[_Sum, _Sum]] = []
        self.labels: list[str] = []  # of the products
        self.outputs: dict[Place, _Sum] = {}
        self.spelt: dict[tuple[str, Place], str] = {}  # entries, as they were first written
        self.terms = 0
        for written, read in _WRITTEN:
            text = re.sub(written, read, text, flags=re.MULTILINE)
        for line in re.split(r"[;\n]", text):
            if line.strip():
                self._read(line.strip())
        if not self.products or not self.outputs:
            raise SchemeError(
                "the formulas have no product of a sum of A and a sum of B, or no c11"
            )

    def _read(self, line: str) -> None:
        """Take in ``name = sum``, or a sum of trilinear terms."""
        self.line, (name, equals, right) = line, (x.strip() for x in line.partition("="))
        self.name, known = name if equals else line, len(self.products)
        if not equals and re.search(r"[cC]_?\d", line):
            value = self._value(line)
            if value.kind != "t":
                raise self._error(f"{_KINDS[value.kind]}; expected {_KINDS['t']}, or 'name = sum'")
            for (product, (j, i)), x in value.terms.items():
                terms = self.outputs.setdefault((i, j), _Sum("h", {})).terms
                terms[product] = terms.get(product, Fraction(0)) + x
            return
        if line.startswith("... and"):
            raise self._error("print has left formulas out; scheme.save(path) writes all")
        if not equals or not re.fullmatch(r"[A-Za-z]\w*(,\d+)?", name):
            raise self._error("expected 'name = sum'")
        entry = _ENTRY.fullmatch(name)
        if entry and entry[1] in "AB":  # the eleventh sum of A
            entry = None
        if name in self.names or (
            entry and (entry[1] not in "cC" or self._place(entry) in self.outputs)
        ):
            raise self._error(f"{name} is defined already")
        value = self._value(right)
        if entry is None:
            self.names[name] = value
            if value.entries == {known: 1}:
                self.labels[known] = name
        elif value.kind == "h" or value.terms == {None: 0}:
            self.spelt["c", self._place(entry)] = name
            self.outputs[self._place(entry)] = value
        else:
            raise self._error(f"{name} is {_KINDS[value.kind]}; expected {_KINDS['h']}")

    def _value(self, text: str) -> _Sum:
        self.right, self.tokens = text, self._tokens(text)
        try:
            value = self._sum()
        except RecursionError:
            raise self._error("the parentheses are nested too deeply") from None
        if self.tokens:
            raise self._error(f"{self.tokens[0]!r} is not expected")
        return value

    def spelling(self, letter: str, place: Place) -> str:
        """Return an entry as it was first written."""
        i, j = (x + 1 for x in place)
        return self.spelt.get((letter, place), f"{letter}{i}{',' if max(i, j) > 9 else ''}{j}")

    def factors(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return U, V and W, not proved, in the smallest format that holds all entries."""
        (m, k, n), rank = self.format, len(self.products)
        if m * k * n > _MOST_VOLUME or rank * (m * k + k * n + m * n) > _MOST_TERMS:
            raise SchemeError(f"the formulas of <{m},{k},{n};{rank}> have too many coefficients")
        U, V, W = (np.full((rank, *x), Fraction(0), object) for x in ((m, k), (k, n), (m, n)))
        for r, (x, y) in enumerate(self.products):
            for factor, value in ((U, x), (V, y)):
                for place, c in value.entries.items():
                    factor[r][place] = c
        for place, value in self.outputs.items():
            for r, c in value.entries.items():
                W[r][place] = c
        return U, V, W

    @property
    def used(self) -> set[tuple[str, Place]]:
        """The entries of A and B that are multiplied, and those of C that are given."""
        sums = ((letter, x) for pair in self.products for letter, x in zip("ab", pair, strict=True))
        found = {(letter, x) for letter, y in sums for x in y.terms if type(x) is tuple}
        return found | {("c", x) for x in self.outputs}

    @property
    def format(self) -> tuple[int, int, int]:
        """m, k, n of the smallest format that holds all entries."""
        places = [dict(zip(AXES[letter], place, strict=True)) for letter, place in self.used]
        m, k, n = (1 + max(x.get(axis, 0) for x in places) for axis in "mkn")
        return m, k, n

    def _tokens(self, text: str) -> list[str]:
        tokens, at = [], 0
        self.ends = [0]
        while at < len(text.rstrip()):
            match = _TOKENS.match(text, at)
            if match is None:
                raise self._error(f"{text[at:].strip()[:10]!r} cannot be read")
            tokens.append(match[0].strip())
            at = match.end()
            self.ends.append(at)
        return tokens

    def _at(self) -> int:
        """Return where the last token that was taken ends."""
        return self.ends[len(self.ends) - 1 - len(self.tokens)]

    def _sum(self) -> _Sum:
        """Terms with signs, up to a closing parenthesis or the end."""
        total: _Sum | None = None
        terms = []
        while total is None or (self.tokens and self.tokens[0] in "+-"):
            start, sign = self._at(), 1
            while self.tokens and self.tokens[0] in "+-":
                sign *= -1 if self.tokens.pop(0) == "-" else 1
            term = self._term()
            terms.append((start, self._at(), sign, term))
            term = term.scaled(Fraction(sign))
            total = term if total is None else self._added(total, term)
        return self._noted(total, terms)

    def _noted(self, value: _Sum, terms: list, is_factor: bool = False) -> _Sum:
        """Return a sum of A, B or products with an entry for it as it is written."""
        if value.kind not in ("a", "b", "h"):
            return value
        written = Written(self.name, self.right, terms, value, is_factor, len(self.names))
        return self._limited(_Sum(value.kind, {**value.terms, written: Fraction(1)}))

    def _term(self) -> _Sum:
        """Factors one after the other, with ``*``, ``@`` or neither; ``/`` before a number."""
        start, value = self._at(), self._factor()
        while self.tokens and self.tokens[0] not in "+-)":
            middle = self._at()
            sign = self.tokens.pop(0) if self.tokens[0] in "*/@" else "*"
            before, factor = self._at(), self._factor()
            if value.kind + factor.kind == "ab":
                value = self._noted(value, [(start, middle, 1, value)], True)
                factor = self._noted(factor, [(before, self._at(), 1, factor)], True)
                self.labels.append(self.right[start : self._at()].strip())
            if sign == "/":
                if factor.kind or not factor.terms[None]:
                    raise self._error("'/' stands before a number other than 0")
                factor = _Sum("", {None: 1 / factor.terms[None]})
            value = self._multiplied(value, factor)
        return value

    def _factor(self) -> _Sum:
        token = self.tokens.pop(0) if self.tokens else ""
        if token == "(":
            value = self._sum()
            if not self.tokens or self.tokens.pop(0) != ")":
                raise self._error("a parenthesis is not closed")
            return value
        if token == "-":  # after * or /
            return self._factor().scaled(Fraction(-1))
        if token[:1].isdigit():
            if token.endswith("/0"):
                raise self._error(f"{token} divides by zero")
            if len(token) > _MOST_BITS // 4:
                raise self._error(f"a number of {len(token)} characters is too long")
            return _Sum("", {None: Fraction(token)})
        if token in self.names:
            return self.names[token]
        entry = _ENTRY.fullmatch(token)
        if entry is not None:
            self.spelt.setdefault((entry[1].lower(), self._place(entry)), token)
            return _Sum(entry[1].lower(), {self._place(entry): Fraction(1)})
        known = "an entry such as a11 or b1,12, a number or a name of an earlier line"
        raise self._error(f"{token!r} is not {known}" if token else "a term is missing")

    def _added(self, x: _Sum, y: _Sum) -> _Sum:
        if x.kind != y.kind:
            raise self._error(f"{_KINDS[x.kind]} cannot be added to {_KINDS[y.kind]}")
        terms = dict(x.terms)
        for key, c in y.terms.items():
            terms[key] = terms.get(key, Fraction(0)) + c
        return self._limited(_Sum(x.kind, terms))

    def _multiplied(self, x: _Sum, y: _Sum) -> _Sum:
        if "" in (x.kind, y.kind):
            number, other = (x, y) if x.kind == "" else (y, x)
            return self._limited(other.scaled(number.terms[None]))
        if (x.kind, y.kind) == ("h", "c"):
            terms = {(r, place): c * d for r, c in x.terms.items() for place, d in y.terms.items()}
            return self._limited(_Sum("t", terms))
        if (x.kind, y.kind) != ("a", "b"):
            raise self._error(
                f"{_KINDS[x.kind]} times {_KINDS[y.kind]}: a product has a sum of A on its left "
                "and a sum of B on its right"
            )
        self.products.append((x, y))
        return _Sum("h", {len(self.products) - 1: Fraction(1)})

    def _limited(self, value: _Sum) -> _Sum:
        self.terms += len(value.terms)
        bits = (max(abs(x.numerator), x.denominator).bit_length() for x in value.terms.values())
        if self.terms > _MOST_TERMS or max(bits) > _MOST_BITS:
            raise self._error("the formulas have too many terms, or too large a coefficient")
        return value

    def _place(self, entry: re.Match[str]) -> Place:
        """Return the indices of an entry, from 0."""
        _, i, j, row, column = entry.groups()
        digits = i or row, j or column
        if any(len(x) > 3 or int(x) < 1 for x in digits):
            raise self._error(f"{entry[0]}: indices are from 1 to 999")
        return int(digits[0]) - 1, int(digits[1]) - 1

    def _error(self, why: str) -> SchemeError:
        return SchemeError(f"formula {self.line!r}: {why}")
