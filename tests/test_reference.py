"""The reference algorithms: proved symbolically, then run on every kind of number.

The proof: each written-out algorithm is run once on matrices of symbols.  A product of two linear
forms is written down and replaced by a new symbol, so that one run yields the coefficients U, V
and W, the number of products and the number of additions; the Brent equations do the rest.
"""

import ast
import doctest
import importlib
import json
import sys
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from reference.brent import brent_residual
from reference.classical import classical
from reference.gram import gram
from reference.hopcroft_kerr import hopcroft_kerr
from reference.laderman import laderman
from reference.lcma import lcma
from reference.modular import modular
from reference.multilevel import multilevel
from reference.padding import join, pad, split
from reference.strassen import strassen
from reference.winograd import winograd

from .support import python

FOLDER = Path(importlib.import_module("reference").__file__).parent
FILES = sorted(FOLDER.glob("*.py"))
MODULES = ["reference"] + [f"reference.{f.stem}" for f in FILES if f.stem != "__init__"]


class Tape:
    """Counts the operations of one symbolic run and keeps the factors of each product."""

    def __init__(self):
        self.products = []
        self.additions = 0


class Form:
    """A linear form with integer coefficients, such as ``a11 - a21``."""

    def __init__(self, tape, terms):
        self.tape = tape
        self.terms = {name: value for name, value in terms.items() if value}

    def _plus(self, other, sign):
        if isinstance(other, int) and other == 0:
            return self
        self.tape.additions += 1
        names = self.terms.keys() | other.terms.keys()
        sums = {x: self.terms.get(x, 0) + sign * other.terms.get(x, 0) for x in names}
        return Form(self.tape, sums)

    def __add__(self, other):
        """Add a form, or the number 0."""
        return self._plus(other, 1)

    __radd__ = __add__

    def __sub__(self, other):
        """Subtract a form."""
        return self._plus(other, -1)

    def __mul__(self, other):
        """Scale by an integer, or write down a product of two forms."""
        if isinstance(other, int):
            return Form(self.tape, {name: other * value for name, value in self.terms.items()})
        self.tape.products.append((self, other))
        return Form(self.tape, {("h", len(self.tape.products) - 1): 1})

    def __rmul__(self, number):
        """Scale by an integer from the left."""
        return self * number

    def row(self, names):
        """Return the coefficients of the given names; there must be no others."""
        assert self.terms.keys() <= set(names)
        return [self.terms.get(name, 0) for name in names]


def symbols(tape, letter, rows, columns):
    """Return an object array of symbols and the list of their names."""
    names = [(letter, i, j) for i in range(rows) for j in range(columns)]
    x = np.array([Form(tape, {name: 1}) for name in names], dtype=object)
    return x.reshape(rows, columns), names


@cache
def extract(algorithm, m, k, n):
    """Run the algorithm on symbols; return ((U, V, W), number of additions)."""
    tape = Tape()
    a, a_names = symbols(tape, "a", m, k)
    b, b_names = symbols(tape, "b", k, n)
    c = algorithm(a, b)
    rank = len(tape.products)
    h_names = [("h", r) for r in range(rank)]
    U = np.array([left.row(a_names) for left, _ in tape.products]).reshape(rank, m, k)
    V = np.array([right.row(b_names) for _, right in tape.products]).reshape(rank, k, n)
    W = np.array([form.row(h_names) for form in c.flat]).T.reshape(rank, m, n)
    return (U, V, W), tape.additions


def size(triple):
    """Return the format (m, k, n) of a scheme."""
    return (*triple[0].shape[1:], triple[1].shape[2])


def trivial(m, k, n):
    """Return the classical algorithm <m,k,n;mkn> as a scheme."""
    U, V, W = (np.zeros((m * k * n, *s), dtype=int) for s in ((m, k), (k, n), (m, n)))
    for r, (i, q, j) in enumerate(np.ndindex(m, k, n)):
        U[r, i, q] = V[r, q, j] = W[r, i, j] = 1
    return U, V, W


STRASSEN = extract(strassen, 2, 2, 2)[0]
# The same algorithm in another basis of the coefficients: exact only among fractions.
HALF, THIRD = Fraction(1, 2), Fraction(1, 3)
RATIONAL = (STRASSEN[0] * HALF, STRASSEN[1] * THIRD, STRASSEN[2] * Fraction(6))

WRITTEN_OUT = {  # name: function, format, products, additions
    "strassen": (strassen, (2, 2, 2), 7, 18),
    "winograd": (winograd, (2, 2, 2), 7, 15),
    "laderman": (laderman, (3, 3, 3), 23, None),
    "hopcroft_kerr": (hopcroft_kerr, (3, 2, 3), 15, None),
}
HOPCROFT_KERR = extract(hopcroft_kerr, 3, 2, 3)[0]
SCHEMES = {
    "strassen": STRASSEN,
    "hopcroft_kerr": HOPCROFT_KERR,
    "laderman": extract(laderman, 3, 3, 3)[0],
    "1x2x1": trivial(1, 2, 1),
    "3x1x2": trivial(3, 1, 2),
    "2x3x4": trivial(2, 3, 4),
}
LEVELS = {
    "no levels": [],
    "strassen twice": [STRASSEN, STRASSEN],
    "strassen over hopcroft_kerr": [STRASSEN, HOPCROFT_KERR],
    "2x3x4 over 1x2x1 over strassen": [trivial(2, 3, 4), trivial(1, 2, 1), STRASSEN],
}
ALGORITHMS = {"classical": (classical, (1, 1, 1))}  # name: function, format
ALGORITHMS |= {name: row[:2] for name, row in WRITTEN_OUT.items()}
ALGORITHMS |= {
    f"lcma {name}": (lambda a, b, triple=triple: lcma(a, b, *triple), size(triple))
    for name, triple in SCHEMES.items()
}
ALGORITHMS |= {
    f"multilevel {name}": (
        lambda a, b, levels=levels: multilevel(a, b, levels),
        tuple(np.prod([(1, 1, 1), *(size(level) for level in levels)], axis=0).tolist()),
    )
    for name, levels in LEVELS.items()
}
every_algorithm = pytest.mark.parametrize("name", ALGORITHMS)

SHAPES = [  # M, K, N: empty, single, exact multiples, odd, prime, long and thin
    *((0, 0, 0), (0, 3, 2), (3, 0, 2), (3, 2, 0), (1, 1, 1), (1, 7, 1), (2, 2, 2), (3, 2, 3)),
    *((5, 7, 3), (12, 12, 12), (13, 17, 11), (31, 1, 29), (1, 37, 2), (41, 43, 47)),
]


def random_integers(rng, shape, dtype):
    """Return integers over the whole range of the dtype, so that sums wrap."""
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, size=shape, dtype=dtype, endpoint=True)


@pytest.mark.parametrize("module", MODULES)
def test_doctests(module):
    """Every file has an example, and it is true."""
    result = doctest.testmod(importlib.import_module(module))
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.name)
def test_a_file_fits_on_a_page_and_imports_only_numpy_and_itself(file):
    """The oracle must not depend on falcon."""
    text, imported = file.read_text(encoding="utf-8"), set()
    assert len(text.splitlines()) <= 60
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add("reference" if node.level else node.module.split(".")[0])
    assert imported - sys.stdlib_module_names <= {"numpy", "reference"}


def test_the_proof_of_a_file(tmp_path):
    """As `Scheme.save` writes it."""
    path = tmp_path / "mine.json"
    record = {"m": 1, "k": 1, "n": 2, "U": [[1], [2]], "V": [[1, 0], [0, 1]], "W": [[1, 0], [0, 1]]}
    for last, status, told in ("1/2", 0, "hold"), (1, 1, "fail, by 1 at most: it is no scheme"):
        record["W"][1][1] = last
        path.write_text(json.dumps(record), encoding="utf-8")
        found = python(FOLDER / "brent.py", path, status=status)
        assert found.stdout.strip() == f"the 4 Brent equations of <1,1,2;2> {told}"


@pytest.mark.parametrize("name", SCHEMES)
def test_lcma_does_what_the_coefficients_say(name):
    """What comes out of a run over symbols is what went in."""
    triple = SCHEMES[name]
    found, _ = extract(lambda a, b: lcma(a, b, *triple), *size(triple))
    for x, y in zip(found, triple, strict=True):
        np.testing.assert_array_equal(x, y)


@every_algorithm
def test_every_algorithm_is_proved(name):
    """Each function, run at its own format, meets the Brent equations; its formulas are counted."""
    algorithm, shape = ALGORITHMS[name]
    triple, counted = extract(algorithm, *shape)
    assert brent_residual(*triple) == 0
    if name in WRITTEN_OUT:
        _, _, products, additions = WRITTEN_OUT[name]
        assert len(triple[0]) == products and additions in (None, counted)


# The whole range of integers, which wrap; whole numbers of which no type rounds a sum.
LARGEST = {"float32": 9, "complex64": 9, **dict.fromkeys(("float64", "complex128"), 10**5),
           "longdouble": 10**5, **dict.fromkeys(("int64", "int32", "int8", "uint16"))}  # fmt: skip


@every_algorithm
@pytest.mark.parametrize("dtype", LARGEST)
def test_whole_numbers_bit_for_bit(name, dtype):
    """Every algorithm is exact over the integers modulo 2**w; no type loses digits on the way."""
    rng, most = np.random.default_rng(1), LARGEST[dtype]
    for m, k, n in SHAPES:
        if most is None:
            a, b = random_integers(rng, (m, k), dtype), random_integers(rng, (k, n), dtype)
        else:
            a, b = (rng.integers(-most, most + 1, s).astype(dtype) for s in ((m, k), (k, n)))
        factors = (2 + 1j, 1 - 3j) if np.dtype(dtype).kind == "c" else (1, 1)
        expected = (a @ b) * (factors[0] * factors[1])
        c = ALGORITHMS[name][0](a * factors[0], b * factors[1])
        assert (c.dtype, c.shape) == (dtype, (m, n))
        np.testing.assert_array_equal(c, expected.astype(dtype))


@every_algorithm
def test_fractions_are_exact(name):
    """Arrays of Fraction stay Fractions."""
    rng = np.random.default_rng(4)
    a, b = (
        np.array([Fraction(int(x), 7) for x in rng.integers(-99, 99, 35)]).reshape(s)
        for s in ((5, 7), (7, 5))
    )
    c = ALGORITHMS[name][0](a, b)
    assert all(isinstance(x, Fraction) for x in c.flat)
    np.testing.assert_array_equal(c, a @ b)


@every_algorithm
def test_operands_are_left_alone(name):
    """Strided operands of different dtypes work, are not written to, and are not returned."""
    base = np.arange(210, dtype=np.int32).reshape(14, 15)
    a, b = base[::2, ::-3], base[:10:2, 1:8].astype(np.int16).T[::-1].T
    base.flags.writeable = b.flags.writeable = False
    c = ALGORITHMS[name][0](a, b)
    assert c.dtype == np.int32
    assert not np.shares_memory(c, base)
    np.testing.assert_array_equal(c, a @ b)
    c[...] = 0  # the result is an ordinary array of its own


@every_algorithm
@pytest.mark.parametrize("shapes", [((2, 3), (4, 2)), ((2, 3), (2, 3)), ((3,), (3, 2))], ids=str)
def test_operands_that_do_not_fit(name, shapes):
    """Padding must not hide a mistake: 3 and 4 are both padded to 4."""
    with pytest.raises(ValueError, match="expected shapes"):
        ALGORITHMS[name][0](np.ones(shapes[0]), np.ones(shapes[1]))


def test_rational_coefficients():
    """Fractions serve exact and floating operands; integers refuse what they cannot represent."""
    assert brent_residual(*RATIONAL) == 0
    rng = np.random.default_rng(5)
    a, b = rng.integers(-99, 99, (5, 7)), rng.integers(-99, 99, (7, 3))
    for function in (lambda a, b: lcma(a, b, *RATIONAL), lambda a, b: multilevel(a, b, [RATIONAL])):
        exact = function(a.astype(object), b.astype(object))
        np.testing.assert_array_equal(exact, a @ b)
        np.testing.assert_allclose(function(a.astype(float), b.astype(float)), a @ b, atol=1e-9)
        with pytest.raises(ValueError, match="integer coefficients"):
            function(a, b)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("grid", [(1, 1), (2, 3), (4, 5)], ids=str)
def test_pad_split_join(shape, grid):
    """Padding adds the fewest zeros, blocks are views, and join undoes both."""
    rows, _, columns = shape
    x = np.random.default_rng(6).integers(1, 99, (rows, columns))
    padded = pad(x, *grid)
    for before, after, multiple in zip(x.shape, padded.shape, grid, strict=True):
        assert after % multiple == 0
        assert before <= after < before + multiple
    assert padded.sum() == x.sum()
    blocks = split(padded, *grid)
    assert all(block.base is padded for row in blocks for block in row)
    np.testing.assert_array_equal(join(blocks, rows, columns), x)


def test_split_refuses_what_does_not_divide():
    """The message says what to do."""
    with pytest.raises(ValueError, match="pad it first"):
        split(np.ones((3, 4)), 2, 2)


@pytest.mark.parametrize("shape", [(1, 1), (4, 4), (5, 3), (3, 7), (0, 2), (2, 0)])
def test_gram(shape):
    a = np.random.default_rng(3).integers(-9, 10, shape)
    np.testing.assert_array_equal(gram(a), a @ a.T)


@pytest.mark.parametrize("name", SCHEMES)
def test_brent_finds_every_misprint(name):
    """Change any one coefficient that is not zero, and the residual is not zero."""
    for factor in range(3):
        for index in np.argwhere(SCHEMES[name][factor])[:: 1 if name == "strassen" else 9]:
            wrong = [x.copy() for x in SCHEMES[name]]
            wrong[factor][tuple(index)] *= -1
            assert brent_residual(*wrong) > 0


def test_brent_is_exact():
    """Nothing wraps in 64 bits, and no fraction is rounded."""
    U, V, W = trivial(1, 1, 1)
    assert brent_residual(U * 2**40, V * 2**40, W) == 2**80 - 1
    tiny = Fraction(1, 10**30)
    assert brent_residual(U + tiny, V, W) == tiny


def test_brent_refuses_floats_and_wrong_shapes():
    """A check in floating point would not be a proof."""
    U, V, W = STRASSEN
    with pytest.raises(TypeError, match="exact"):
        brent_residual(U.astype(float), V, W)
    with pytest.raises(ValueError, match="are not"):
        brent_residual(U, V, W[:6])


@pytest.mark.parametrize("p", [2, 3, 4, 256, 257, 1009, 2**20 - 1, 2**20, 2**26 + 15, 2**31 - 1])
def test_products_modulo_p(p):
    """Bit for bit Python's integers, at the ends of the residues and of the integers."""
    rng = np.random.default_rng(5)
    for K in (0, 1, 40, 2100):
        residues = [0, 1, p // 2, (p + 1) // 2, p - 1]
        pairs = [(np.full((2, K), x), np.full((K, 3), y)) for x in residues for y in residues]
        signed = rng.integers(-(2**63), 2**63, (4, K))
        pairs.append((signed, rng.integers(0, 2**64, (K, 5), np.uint64)))
        for a, b in pairs:
            c = modular(a, b, p)
            assert c.dtype == np.int64
            assert c.tolist() == (a.astype(object) @ b.astype(object) % p).tolist()
