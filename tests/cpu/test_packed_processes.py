"""Packed operands elsewhere: a pickle holds B, which is packed again where it is loaded."""

import copy
import json
import pickle
from hashlib import sha256

import numpy as np
import pytest

import falcon
from falcon import schemes
from falcon._cpu import _core, extension

from .support import run_script, same_bits, whole

HERE = extension.isa()
NAMES = [*schemes.names(), "strassen@strassen", "strassen@3x4x4:38", "strassen@6x3x4:54"]

# Loads a list of (a, packed operand), multiplies, and prints digests, backends and kernels.
CHILD = """
import hashlib, json, pickle
import falcon
with open(%r, "rb") as file:
    pairs = pickle.load(file)
digests = [hashlib.sha256(falcon.gemm(a, w, threads=1)).hexdigest() for a, w in pairs]
about = {(w.backend, getattr(w.payload, "isa", "")) for _, w in pairs}
print(json.dumps([digests, sorted(about)]))
"""


def digests(pairs):
    return [sha256(falcon.gemm(a, b, threads=1)).hexdigest() for a, b in pairs]


def pairs_of(names, dtype="f8", backend="cpu"):
    """Whole and random operands of a size at which blocks are padded, per scheme."""
    for name in names:
        m, k, n = schemes.get(name).format if name != "classical" else (1, 1, 1)
        rng = np.random.default_rng([m, k, n])
        shapes = (8 * m + 1, 9 * k - 2), (9 * k - 2, 7 * n + 3)
        for draw in (whole, lambda rng, shape: rng.standard_normal(shape)):
            a, b = (draw(rng, x).astype(dtype) for x in shapes)
            yield a, falcon.pack(b, scheme=name, backend=backend)


def multiplied_elsewhere(tmp_path, pairs, **environment):
    """Digests of products, backends and instruction sets of a fresh process."""
    path = tmp_path / "pairs"
    path.write_bytes(pickle.dumps(pairs))
    return json.loads(run_script(CHILD % str(path), **environment))


def test_every_scheme_in_a_fresh_process(tmp_path):
    pairs = list(pairs_of(NAMES))
    for a, packed in pairs[::2]:
        np.testing.assert_array_equal(falcon.gemm(a, packed), a @ packed.source)
    found, about = multiplied_elsewhere(tmp_path, pairs)
    kernel = _core.kernel_info("f64", HERE)["isa"]
    assert about == [["cpu", kernel]]
    expected = digests(pairs)
    wrong = {w.scheme.name for (_, w), x, y in zip(pairs, found, expected, strict=True) if x != y}
    assert not wrong


@pytest.mark.parametrize("backend", ["cpu", "numpy"])
def test_float32_and_classical(tmp_path, backend):
    pairs = list(pairs_of(("classical", "3x4x4:38"), "f4", backend))
    assert multiplied_elsewhere(tmp_path, pairs)[0] == digests(pairs)


def test_a_scheme_that_only_one_process_knows(tmp_path):
    s = schemes.get("3x3x3:23")
    mine = falcon.Scheme(-s.U, -s.V, s.W, "mine")
    b = np.arange(90.0 * 77).reshape(90, 77) % 7
    pairs = [(np.eye(90), falcon.pack(b, scheme=mine, backend="cpu"))]
    assert multiplied_elsewhere(tmp_path, pairs)[0] == digests(pairs)


@pytest.mark.parametrize("other", [x for x in _core.supported_isas() if x != HERE])
def test_another_instruction_set(tmp_path, other):
    pairs = list(pairs_of(["strassen", "3x4x4:38", "strassen@strassen"]))[::2]  # exact
    found, about = multiplied_elsewhere(tmp_path, pairs, FALCON_ISA=other)
    kernel = _core.kernel_info("f64", other)["isa"]
    assert (found, about) == (digests(pairs), [["cpu", kernel]])


def test_where_the_extension_is_missing(tmp_path):
    """Backend "auto" is chosen again; a backend by name must be there."""
    named, auto = (falcon.pack(np.eye(20), backend=x, scheme="strassen") for x in ("cpu", "auto"))
    (tmp_path / "named").write_bytes(pickle.dumps(named))
    (tmp_path / "auto").write_bytes(pickle.dumps(auto))
    assert auto.backend == "cpu"
    script = f"""
import pickle, sys
from pathlib import Path
sys.modules["falcon._cpu._core"] = None
import falcon
folder = Path({str(tmp_path)!r})
print(pickle.loads((folder / "auto").read_bytes()).backend)
try:
    pickle.loads((folder / "named").read_bytes())
except ValueError as error:
    print(error)
"""
    backend, error = run_script(script).splitlines()
    assert backend == "numpy"
    assert "backend 'cpu' is not available" in error


def test_processes_that_load_schemes_in_opposite_orders_agree(tmp_path):
    """Also schemes whose coefficients come without the shared sums of the catalogue's file."""
    names = ["3x4x4:38", "strassen", "2x2x2:7-adds", "winograd", "4x4x4:49", "3x4x5:47-adds",
             "strassen@3x4x4:38", "4x3x4:38", "3x3x6"]  # fmt: skip
    for name in ("3x4x4:38", "winograd"):
        s = schemes.get(name)
        np.savez(tmp_path / f"{name.replace(':', '_')}.npz", U=s.U, V=s.V, W=s.W)
    script = f"""
import hashlib, json, numpy as np, falcon
from pathlib import Path
found = {{}}
names = {names!r} + sorted(map(str, Path({str(tmp_path)!r}).glob("*.npz")))
for name in names[::STEP]:
    scheme = falcon.Scheme(**np.load(name), name="mine") if name.endswith(".npz") else name
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((2, 97, 97))
    for backend in ("cpu", "numpy"):
        c = falcon.gemm(a, b, scheme=scheme, backend=backend, threads=1)
        found[f"{{name}} {{backend}}"] = hashlib.sha256(c).hexdigest()
print(json.dumps(found))
"""
    first, second = (json.loads(run_script(script.replace("STEP", x))) for x in ("1", "-1"))
    assert first == second and len(first) == 2 * (len(names) + 2)


# --- in this process ------------------------------------------------------------------------


def test_a_pickle_holds_b_and_the_options():
    b = np.random.default_rng(4).standard_normal((90, 77))
    with falcon.config(scheme="winograd", max_growth=3.0):
        packed = falcon.pack(b, rows=7, backend="numpy", dtype="f4", threads=1)
    again = pickle.loads(pickle.dumps(packed))
    assert repr(again) == repr(packed) and again.scheme.name == "winograd"
    assert again.pack_again.keywords == packed.pack_again.keywords
    assert "threads" not in again.pack_again.keywords
    assert len(pickle.dumps(packed)) < 1.1 * b.nbytes + 5000


@pytest.mark.parametrize("backend", ["cpu", "numpy"])
def test_without_its_source_there_is_no_pickle_and_no_copy(backend):
    packed = falcon.pack(np.eye(20), backend=backend, keep_source=False)
    for copied in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(ValueError, match="a copy or a pickle holds b itself"):
            copied(packed)


def test_sources_of_any_strides_and_byte_order():
    b = np.arange(60.0 * 50).reshape(60, 50)
    for source in (b, b.T, b[::2, ::-3], np.asfortranarray(b), b.astype(">f8"), b[:0], b[:, :1]):
        packed = falcon.pack(source, scheme="strassen", backend="cpu", dtype="f8")
        for again in (pickle.loads(pickle.dumps(packed)), copy.deepcopy(packed)):
            np.testing.assert_array_equal(again.source, source)
            a = np.ones((7, source.shape[0]))
            assert same_bits(falcon.gemm(a, again), falcon.gemm(a, packed))
