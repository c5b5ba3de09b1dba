"""Scheme files that would take much memory or time are refused at once."""

import json
import struct
from fractions import Fraction

import numpy as np
import pytest

from falcon import schemes

from ..support import python
from .support import archive

STRASSEN = schemes.get("strassen")
PROBE = """
import resource, sys, time
from falcon.schemes import SchemeError, load_all
def peak():
    found = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return found / (2**20 if sys.platform == "darwin" else 2**10)
before, start = peak(), time.process_time()
try:
    load_all(sys.argv[1])
    print("loaded")
except SchemeError as error:
    print(str(error).removeprefix(sys.argv[1]).replace(chr(10), " "))
print(time.process_time() - start)
print(peak() - before)
"""


def record(**changes):
    factors = {x: getattr(STRASSEN, x).reshape(7, 4).tolist() for x in "UVW"}
    return json.dumps({"m": 2, "k": 2, "n": 2, **factors, **changes})


def memo(folder):
    """192 bytes that made a memo of 2^25 places: 546 MiB."""
    return archive(folder / "x.npz", {"2,2,2": b"\x80\x02]r" + struct.pack("<I", 2**25) + b"."})


def text_memo(folder):
    return archive(folder / "x.npz", {"2,2,2": b"]p33554432\n."})


def many_members(folder):
    members = {f"{i},2,2": bytes(3600000) for i in range(100)}
    return archive(folder / "x.npz", members, (3, 4, 300000), "|i1")


def many_lists(folder):
    return archive(folder / "x.npz", {"2,2,2": b"\x80\x02](" + b"]" * 2**25 + b"e."})


def long_bytes(folder):
    payload = b"\x80\x04\x8e" + struct.pack("<Q", 2**33) + b"abc."
    return archive(folder / "x.npz", {"2,2,2": payload})


def many_coefficients(folder):
    factors = {"12,12,12": np.ones((3, 144, 1728), np.int8)}
    np.savez_compressed(folder / "x.npz", **factors)
    return folder / "x.npz"


def large_pickled_array(folder):
    content = np.empty(3, object)
    content[:] = [np.zeros((4, 2**22), np.int8)] * 3
    np.savez_compressed(folder / "x.npz", **{"2,2,2": content})
    return folder / "x.npz"


def written(folder, text):
    (folder / "x.json").write_text(text)
    return folder / "x.json"


def denominators(folder):
    rows = [[f"1/{10**19 + 7 * i + j}" for j in range(4)] for i in range(20)]
    return written(folder, record(U=rows, V=rows, W=rows))


def nested_json(folder):
    return written(folder, "[" + "[]," * 2**20 + "[]]")


def long_json(folder):
    return written(folder, record(name="x" * 2**24))


def one_dense_product(folder):
    """2^24 terms, and nearly as many equations that fail, in 1.5 KB: they took 1.5 GB."""
    rows = [[1] * 256]
    return written(folder, record(m=16, k=16, n=16, U=rows, V=rows, W=rows))


def long_fractions(folder):
    held = np.empty((7, 4), object)
    held[:] = Fraction(1, 10**4000)
    np.savez(folder / "x.npz", U=held, V=held, W=held)
    return folder / "x.npz"


def sums_of_sums(folder):
    """20 000 lines, each of which is all that is before it."""
    lines = "".join(f"x{i}=x{i - 1};" for i in range(1, 20000))
    (folder / "x.txt").write_text(f"x0=a11;{lines}")
    return folder / "x.txt"


def names_of_a_long_sum(folder):
    sums = "+".join(f"a{i},{j}" for i in range(1, 100) for j in range(1, 100))
    (folder / "x.txt").write_text(f"x={sums};" + "".join(f"y{i}=x;" for i in range(9999)))
    return folder / "x.txt"


HOSTILE = [
    (long_fractions, "something that is no number"),
    (sums_of_sums, "too many terms"),
    (names_of_a_long_sum, "too many terms"),
    (memo, "stores its object number 33554432 too early"),
    (text_memo, "stores its object number 33554432 too early"),
    (many_members, "100 members would unpack to 360012800 bytes"),
    (many_lists, "more than 1048576 instructions"),
    (long_bytes, "archive"),
    (many_coefficients, "5159780352 products of coefficients, at most 67108864"),
    (one_dense_product, "occurs 1 time in c12, expected 0"),
    (large_pickled_array, "U has more than 8388608 coefficients"),
    (denominators, "common denominator is beyond"),
    (nested_json, "expected a JSON object"),
    (long_json, "more than 8388608 bytes"),
]


@pytest.mark.parametrize("make, message", HOSTILE, ids=[x.__name__ for x, _ in HOSTILE])
def test_hostile_files(make, message, tmp_path):
    """In a process of its own, whose peak of memory is that of the file."""
    path = make(tmp_path)
    done = python("-c", PROBE, path)
    answer, seconds, mebibytes = done.stdout.splitlines()
    assert message in answer
    assert float(seconds) < 5
    assert float(mebibytes) < 200


def test_what_is_allowed(tmp_path):
    """Pickles of lists of integers, floats of whole numbers, fractions."""
    U, V, W = (getattr(STRASSEN, x).reshape(7, 4).T for x in "UVW")
    content = np.empty(3, object)
    content[:] = [x.astype(object) for x in (U, V, W)]
    np.savez(tmp_path / "objects.npz", **{"2,2,2": content})
    np.savez(tmp_path / "floats.npz", **{"2,2,2": np.stack([U, V, W]).astype(float)})
    for name in ("objects.npz", "floats.npz"):
        assert schemes.load(tmp_path / name).same_coefficients(STRASSEN)
    half = [[str(Fraction(x, 2**20)) for x in row] for row in U.T.tolist()]
    twice = [[x * 2**20 for x in row] for row in W.T.tolist()]
    path = written(tmp_path, record(U=half, W=twice))
    assert schemes.load(path).U[0, 0, 0] == Fraction(1, 2**20)
