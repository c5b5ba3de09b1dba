"""Object arrays from archives: no call in a pickle is executed, and damage is always reported."""

import os
import pickle
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from falcon.schemes import SchemeError, load, load_all

from .support import archive


class Calls:
    """Pickles as a call of any function."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def pickled_archive(path, payload):
    return archive(path, {"2,2,2": payload})


HOSTILE = {
    "os.mkdir": lambda trap: Calls(os.mkdir, trap),
    "builtins.eval": lambda trap: Calls(eval, f"__import__('os').mkdir({trap!r})"),
    "numpy's own eval": lambda trap: Calls(np.lib.format.open_memmap, trap, "w+", float, (3,)),
    "numpy.save": lambda trap: Calls(np.save, trap, np.zeros(3)),
    "numpy.load": lambda trap: Calls(np.load, trap),
    "inside an array": lambda trap: np.array([Calls(os.mkdir, trap), 1, 2], dtype=object),
}


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_malicious_pickles_do_not_run(kind, protocol, tmp_path):
    trap = str(tmp_path / "trap")
    payload = pickle.dumps(HOSTILE[kind](trap), protocol)
    path = pickled_archive(tmp_path / "hostile.npz", payload)
    with pytest.raises(SchemeError, match=r"is not admitted in a scheme file"):
        load(path)
    assert os.listdir(tmp_path) == ["hostile.npz"]


def nested(made, depth):
    """An object array with a small pickle that takes ages to walk over, or to print."""
    for _ in range(depth):
        made = type(made)([made, made])
    held = np.empty(3, object)
    held[:] = [made] * 3
    return pickle.dumps(held)


@pytest.mark.parametrize(
    "payload",
    [
        nested((1, 2), 64),
        nested([1, 2], 64),
        nested([1, 2], 200),
        b"cnumpy\nndarray\n.",
        b"cnumpy\ndtype\n(S'V8'\ntR.",
        b"cnumpy\ndtype\n(S'f8,O'\ntR.",
        b"cnumpy\nndarray.__class__\n.",
        b"\x80\x04\x8c\x05numpy\x8c\x12ndarray.__reduce__\x93.",
        b"cnumpy.f2py\n_reconstruct\n(tR.",
        b"cnumpy.core.multiarray\n_reconstruct\n(tR(I1\n(I3\ntcnumpy\ndtype\n(S'O8'\ntRI00\n]tb.",
        b"I1\n.",
        b"(lp0\ng0\na.",
        b"",
        b".",
        b"\x80\xff.",
    ],
)
def test_odd_pickles(payload, tmp_path):
    with pytest.raises(SchemeError):
        load(pickled_archive(tmp_path / "odd.npz", payload))


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=60), st.integers(0, 400), st.integers(0, 20))
def test_fuzz_pickles(tmp_path, noise, position, removed):
    held = np.empty(3, dtype=object)
    held[:] = [np.ones((1, 1), np.int8)] * 3
    payload = pickle.dumps(held)
    position %= len(payload)
    payload = payload[:position] + noise + payload[position + removed :]
    with suppress(SchemeError, OSError):
        load_all(pickled_archive(tmp_path / "fuzz.npz", payload))
