"""`falcon.grade`: known arithmetic is named, native products are, and so is what is wrong."""

from functools import partial

import numpy as np
import pytest

import falcon
from falcon._backends import available_backends
from falcon._grade.page import page
from falcon._grade.probes import exact_product

from .simulated import KNOWN, flushing, rounded, strassen, truncating

try:
    import torch
except ImportError:
    torch = None


@pytest.mark.parametrize("known", KNOWN)
def test_known_arithmetic_is_named(known):
    f, dtype, name, letter = KNOWN[known]
    found = falcon.grade(f, dtype, size=256)
    assert (found.name, found.letter) == (name, letter), str(found)
    assert found.seconds < 300 and found.size == 256


def findings(f, dtype="float32", **how):
    found = falcon.grade(f, dtype, **{"size": 128} | how)
    return {x.what: x.found for x in found.findings}, found


def test_what_is_found_of_them():
    def of(known, what):
        return findings(*KNOWN[known][:2], size=256)[0][what]

    assert of("native", "operands") == "24 of 24 bits"
    assert of("bf16x3", "operands") == "17 of 24 bits, 2 parts of 8"
    assert of("bf16x6", "operands") == "24 of 24 bits, 3 parts of 8"
    assert of("fp16x3", "operands").startswith("23 of 24 bits, 2 parts of 11")
    assert of("Ozaki, 6", "operands") == "42 of 53 bits, down to 2^-42 of a line's largest"
    assert of("truncated, 8", "sums") == "24 bits, rounded toward zero after 8 terms"
    assert of("float16 sums", "sums") == "11 bits, rounded to nearest"
    assert of("flushed", "subnormal numbers") == "operands and results flushed to 0"
    for what in ("zeros", "permutations", "near overflow", "NaN and Inf"):
        assert of("Strassen, 2", what).endswith(" entries")
        assert of("native", what) == "as it must be"
    assert "errors up to" in of("Strassen, 1", "uneven lines")
    assert "transposed" in of("Strassen, 1", "same bits")
    for known, letter, meaning in (
        ("native", "A", "No more than rounding explains."),
        ("bfloat16", "C", "As large as its operands or sums make them."),
    ):
        made = findings(*KNOWN[known][:2], size=256)[1]
        (errors,) = (x for x in made.findings if x.what == "errors")
        assert (errors.letter, errors.meaning) == (letter, meaning), errors.found
        assert " u sqrt(K) |a| |b| (NumPy " in errors.found


def test_more_arithmetics_at_once():
    def tensor_core(a, b):
        return truncating(4)(rounded(a, 11), rounded(b, 11))

    found = falcon.grade(tensor_core, size=256)
    assert found.name == "TF32 operands, accumulator truncates after 4 terms"
    found = falcon.grade(lambda a, b: strassen(1, rounded(a, 11), rounded(b, 11)), size=128)
    assert (found.letter, found.name) == ("C", "TF32 operands, Strassen-like, 1 level")


def test_operands_that_are_cut():
    mask = np.uint32(0xFFFFE000)  # TF32, not rounded
    cut = lambda x: (x.view(np.uint32) & mask).view(np.float32)  # noqa: E731
    found = falcon.grade(
        lambda a, b: cut(np.ascontiguousarray(a)) @ cut(np.ascontiguousarray(b)), size=128
    )
    assert found.name == "TF32 operands"


@pytest.mark.parametrize(("down", "said"), [(np.floor, "down"), (np.ceil, "up")])
def test_directed_rounding(down, said):
    @np.vectorize
    def add(x, y):
        exact = float(x) + float(y)
        unit = 2.0 ** (np.frexp(exact)[1] - 24)
        return down(exact / unit) * unit

    def f(a, b):
        c = np.zeros((len(a), b.shape[1]))
        some = np.ix_(np.flatnonzero(a.any(1)), np.flatnonzero(b.any(0)))
        for k in np.flatnonzero(a.any(0) & b.any(1)):
            c[some] = add(c[some], np.outer(a[:, k].astype(float), b[k].astype(float))[some])
        return c.astype(a.dtype)

    from falcon._grade.probes import Subject, arithmetic

    assert arithmetic(Subject(f, np.dtype("float32"), 64)).rounding == said


# --- native products ------------------------------------------------------------------------

NATIVE = {"NumPy": np.matmul, "falcon": partial(falcon.matmul, scheme="classical")}
NATIVE |= {f"falcon, {x.name}": partial(falcon.matmul, scheme="classical", backend=x.name)
           for x in available_backends()}  # fmt: skip
if torch is not None:
    NATIVE["torch"] = lambda a, b: torch.matmul(torch.asarray(a), torch.asarray(b)).numpy()
SIZES = 64, 96, 128, 200, 256, 480, 960, 1920


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("name", NATIVE)
def test_native_products(name, dtype):
    found = falcon.grade(NATIVE[name], dtype, size=128)
    assert (found.letter, found.name) == ("A", f"IEEE {dtype}"), str(found)


@pytest.mark.soak
def test_a_thousand_native_products():
    """No false alarm, in all sizes that grades have."""
    wrong, random = [], np.random.default_rng(0)
    for seed in range(1000):
        size = (
            SIZES[-1]
            if seed % 100 == 0
            else SIZES[-2]
            if seed % 20 == 0
            else random.choice(SIZES[:-2])
        )
        f = NATIVE[[*NATIVE][seed % len(NATIVE)]]
        found = falcon.grade(f, size=int(size), seed=seed)
        wrong += [(seed, size, str(found))] if found.letter != "A" else []
    assert not wrong, wrong[:3]


def test_integers():
    assert falcon.grade(falcon.matmul, "uint8", size=64).letter == "A"

    def by_floats(a, b):
        return (a.astype(np.float32) @ b.astype(np.float32)).astype(a.dtype)

    with np.errstate(invalid="ignore"):
        found, made = findings(by_floats, "int32")
    assert made.letter == "C" and made.name == "int32 that does not wrap"
    assert found["integers"].endswith("exact up to 2^24")


# --- functions that are wrong ---------------------------------------------------------------


def test_functions_that_cannot_be_used():
    def said(f):
        found = falcon.grade(f, size=64)
        assert (found.letter, found.name) == ("F", "wrong")
        assert "F" in page([found]) and str(found)
        return found.findings[-1].found

    assert said(lambda a, b: 1 / 0) == "raises ZeroDivisionError: division by zero"
    assert said(lambda a, b: a[:3]) == "returns float32 (3, 64), not float32 (64, 64)"
    assert said(lambda a, b: None) == "returns object (), not float32 (64, 64)"
    assert said(lambda a, b: (a @ b).astype(complex)).startswith("returns complex128")
    assert (
        said(lambda a, b: np.full((64, 64), np.float32(np.nan)))
        == "returns NaN or Inf for finite operands"
    )


def test_functions_that_fail_at_times():
    def refusing(a, b):
        if not (np.isfinite(a).all() and np.isfinite(b).all()):
            raise ValueError("not finite")
        return a @ b

    found, made = findings(refusing)
    assert made.letter == "B" and found["NaN and Inf"] == "raises ValueError: not finite"


def is_twin(a, b):
    return a.shape == b.shape[::-1] and a.ctypes.data == b.ctypes.data and a.strides != b.strides


TWINS = "b is a.T, a is b.T, b is a.T of few rows, a is b.T of few columns"


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize(
    ("f", "said"),
    [(lambda a, b: np.matmul(a, b) * (not is_twin(a, b)), TWINS),
     (lambda a, b: np.matmul(a, b) * (1 + is_twin(a, b)), TWINS),
     (lambda a, b: np.matmul(a, b) * (not np.may_share_memory(a, b) or len(a) != len(b)),
      "b is a.T, a is b.T, b is a, b beside a"),
     (lambda a, b: np.matmul(a, b) * (not np.may_share_memory(a, b) or is_twin(a, b) or a is b),
      "b beside a, b overlaps a"),
     (lambda a, b: np.matmul(a, b) * (a is not b), "b is a"),
     (lambda a, b: np.matmul(a, b) * (len(a) > 1), "a row alone"),
     (lambda a, b: np.matmul(a, b) * a.flags.c_contiguous,
      "by columns, transposed, a is b.T, b beside a, a is b.T of few columns")],
    ids=range(7),
)  # fmt: skip
def test_functions_that_are_wrong_for_some_layouts(f, said, dtype):
    found, made = findings(lambda a, b: f(a, b).astype(a.dtype), dtype)
    assert made.letter == "F" and found["layouts"] == said and found["whole numbers"][:2] == "as"


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_functions_that_change_their_operands_or_the_type(dtype):
    def overwriting(a, b, only=lambda a: True):
        c = np.matmul(a, b)
        if only(a):
            b[...] = 0
        return c

    for f in overwriting, partial(overwriting, only=lambda a: a.flags.f_contiguous):
        found, made = findings(f, dtype)
        assert made.letter == "F" and "changes its operands" in found.values()
    found, made = findings(lambda a, b: a.astype(float) @ b.astype(float), dtype)
    assert (made.letter, made.name) == ("F", "wrong")
    assert f"returns float64 (128, 128), not {dtype} (128, 128)" in found.values()


@pytest.mark.parametrize("fault", [1.0, 1e-2])
def test_an_entry_that_is_wrong(fault):
    def wrong(a, b):
        c = np.matmul(a, b)
        c[..., -1, -1] += fault
        return c

    found, made = findings(wrong)
    assert made.letter == "F" and found["whole numbers"] == "1 of 16384 entries"


def test_arguments():
    for f, how, kind, said in (
        (3, {}, TypeError, "f is 3; expected a function"),
        (
            np.matmul,
            {"dtype": "complex64"},
            TypeError,
            "dtype is complex64; expected one of float16",
        ),
        (np.matmul, {"size": 8}, ValueError, "size is 8; expected at least 64"),
    ):
        with pytest.raises(kind, match=said):
            falcon.grade(f, **how)


def test_exact_products_are_finer_than_float64():
    """By Python's integers."""
    a, b = np.random.default_rng(0).uniform(-1, 1, (2, 60, 60))
    whole = [np.vectorize(lambda v: int(v * 2.0**80), otypes=[object])(x) for x in (a, b)]
    parts = (np.vectorize(lambda v: int(v * 2.0**160), otypes=[object])(x)
             for x in exact_product(a, b))  # fmt: skip
    error = sum(parts) - whole[0] @ whole[1]
    assert np.abs((error / 2**160).astype(float)).max() < 2**-53 * 2**-12


# --- the page -------------------------------------------------------------------------------


def test_the_page(tmp_path):
    grades = [falcon.grade(x, size=64) for x in (np.matmul, partial(strassen, 1), flushing)]
    grades[0].of = "<numpy> & co"
    text = page(grades)
    assert "&lt;numpy&gt; &amp; co" in text and "Strassen-like, 1 level" in text
    assert text.count("<svg") == 9 and text.count("<polyline") == 12
    first, second, third = text.split("<section>")[1:]
    assert "<rect" in second and "<rect" not in first + third  # errors in other blocks
    assert not any(x in text for x in ("<script", "http", "nan", "src="))
    assert "prefers-color-scheme" in text or "light-dark(" in text
