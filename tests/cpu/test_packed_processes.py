"""Packed operands elsewhere: fresh processes, files, other instruction sets, damage."""

import json
import logging
import lzma
import multiprocessing
import pickle
import platform
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

import falcon
from falcon import schemes

from .support import require_cpu, run_script, same_bits, whole

require_cpu()
from falcon._cpu import _core  # noqa: E402  (absent where the extension is)
from falcon._cpu import packed as layout  # noqa: E402
from falcon._cpu.extension import isa  # noqa: E402
from falcon._cpu.programs import engine_scheme  # noqa: E402

HERE = _core.kernel_info("f64", isa())["isa"]  # of the panels of float64
NAMES = [*schemes.names(), "strassen@strassen", "strassen@3x4x4:38", "strassen@6x3x4:54"]
OLDER = Path(__file__).parent / "data" / "packed_layout_0.pickle.xz"

# Of `panels_of`, per instruction set: fingerprints and the panels that they stand for.
PANELS = {
    "avx512": [
        ("1139182fcca040dd", "f658eb73284c8738"),
        ("d12249bc5f89ae68", "35bdef97a9fa9780"),
        ("c006efab07371743", "f45ce6d3cb9f138a"),
        ("ef4329f1d3ab843d", "2e3fe5827b0b00b8"),
    ],
    "avx2": [
        ("2fdea6e23aca1e27", "4fa75d6156b1b129"),
        ("5d3aeb1b0d3c0f9d", "acba0e40215e317a"),
        ("c8a0ecd49fefc186", "7edfacfefd30c25a"),
        ("4fcf6a2a6060dcc9", "9983a876a136b9f3"),
    ],
    "generic": [
        ("73e21fe2e288382e", "3355fd7350b97e46"),
        ("e7feeb3506aeb032", "acbd729e80660cf9"),
        ("ebb35841b15596fb", "f9bfad6f37606141"),
        ("e39ac8e5d54a91e4", "1f6ec6a63a1406d9"),
    ],
}

# Loads a list of (a, packed operand), multiplies, and prints the digests and what was logged.
CHILD = """
import hashlib, json, logging, pickle, sys
import falcon
said = []
logger = logging.getLogger("falcon")
logger.setLevel(logging.DEBUG)
logger.addHandler(type("Listener", (logging.Handler,), {"emit": lambda self, x: said.append(x)})())
with open(%r, "rb") as file:
    pairs = pickle.load(file)
digests = [hashlib.sha256(falcon.gemm(a, w, threads=1)).hexdigest() for a, w in pairs]
isas = sorted({getattr(w.payload, "isa", None) or "" for _, w in pairs})
print(json.dumps([digests, [x.getMessage() for x in said], isas]))
"""


def digest(array):
    return sha256(np.ascontiguousarray(array)).hexdigest()


def operands(name, dtype="f8"):
    """Whole and random operands of a size at which blocks are padded, per scheme."""
    m, k, n = schemes.get(name).format
    rng = np.random.default_rng([m, k, n])
    shapes = (8 * m + 1, 9 * k - 2), (9 * k - 2, 7 * n + 3)
    yield [whole(rng, x).astype(dtype) for x in shapes]
    yield [rng.standard_normal(x).astype(dtype) for x in shapes]


def pairs_of(names, dtype="f8", **options):
    return [
        (a, falcon.pack(b, scheme=name, backend="cpu", **options))
        for name in names
        for a, b in operands(name, dtype)
    ]


def multiplied_elsewhere(tmp_path, pairs, **environment):
    """Digests of products, log and instruction sets of a fresh process."""
    path = tmp_path / "pairs"
    path.write_bytes(pickle.dumps(pairs))
    return json.loads(run_script(CHILD % str(path), **environment))


# --- every scheme in another process --------------------------------------------------------


@pytest.fixture(scope="module")
def pairs():
    return pairs_of(NAMES)


@pytest.fixture(scope="module")
def expected(pairs):
    return [digest(falcon.gemm(a, packed, threads=1)) for a, packed in pairs]


def test_the_products_here_are_right(pairs):
    for a, packed in pairs[::2]:
        np.testing.assert_array_equal(falcon.gemm(a, packed), a @ packed.source)


def test_every_scheme_by_pickle_into_a_fresh_process(tmp_path, pairs, expected):
    found, said, isas = multiplied_elsewhere(tmp_path, pairs)
    wrong = {packed.scheme.name for (_, packed), x, y in zip(pairs, found, expected, strict=True)
             if x != y}  # fmt: skip
    assert not wrong
    assert said == []  # nothing was made again
    assert isas == [HERE]


def test_every_scheme_by_spawn(pairs, expected):
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found = pool.starmap(falcon.gemm, pairs, chunksize=len(pairs))
    wrong = {packed.scheme.name for (_, packed), x, y in zip(pairs, found, expected, strict=True)
             if digest(x) != y}  # fmt: skip
    assert not wrong


@pytest.mark.parametrize("backend", ["cpu", "numpy"])
def test_float32_without_a_source_and_classical(tmp_path, backend):
    pairs = [
        (a, falcon.pack(b, scheme=name, backend=backend, keep_source=False))
        for name in ("classical", "3x4x4:38")
        for a, b in operands("3x4x4:38", "f4")
    ]
    found, said, _ = multiplied_elsewhere(tmp_path, pairs)
    assert found == [digest(falcon.gemm(a, packed, threads=1)) for a, packed in pairs]
    assert said == []


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


# --- another layout -------------------------------------------------------------------------


@pytest.fixture
def said(caplog):
    caplog.set_level(logging.DEBUG, "falcon")
    return lambda: [x.getMessage() for x in caplog.records]


def older():
    """A pickle of a version without fingerprints; see data/README.md."""
    return pickle.loads(lzma.decompress(OLDER.read_bytes()))


def test_a_file_of_an_older_layout_is_made_again(said):
    packed = older()
    assert (packed.shape, packed.scheme.name) == ((30, 28), "3x4x4:38")
    assert len(said()) == 1 and "made again: its panels have another layout" in said()[0]
    np.testing.assert_array_equal(falcon.gemm(np.eye(30), packed), packed.source)
    np.testing.assert_array_equal(falcon.gemm(np.eye(30), packed, scheme="3x4x4:38"), packed.source)
    assert (
        packed.payload.fingerprint
        == falcon.pack(packed.source, scheme="3x4x4:38", backend="cpu").payload.fingerprint
    )
    again = pickle.loads(pickle.dumps(packed))
    assert len(said()) == 1 and again.payload.fingerprint == packed.payload.fingerprint


def test_a_file_of_an_older_layout_in_a_fresh_process(tmp_path):
    (tmp_path / "older").write_bytes(lzma.decompress(OLDER.read_bytes()))
    script = f"""
import pickle, numpy as np, falcon
from pathlib import Path
w = pickle.loads(Path({str(tmp_path / "older")!r}).read_bytes())
print(bool((falcon.gemm(np.eye(30), w) == w.source).all()))
"""
    assert run_script(script) == "True"


OTHERWISE = {
    "layout": lambda patch: patch.setattr(layout, "LAYOUT", layout.LAYOUT + 1),
    "kernel": lambda patch: patch.setattr(
        layout._core, "kernel_info", lambda *x, known=_core.kernel_info: {**known(*x), "nr": 999}
    ),
    "programs": lambda patch: patch.setattr(
        layout, "engine_form", lambda s, known=layout.engine_form: (*known(s)[:-1], 12345)
    ),
    "isa": lambda patch: patch.setattr(
        layout._core, "kernel_info", lambda *x, known=_core.kernel_info: known(*x) | {"isa": "that"}
    ),
}


@pytest.mark.parametrize("what", OTHERWISE)
def test_panels_of_another_layout_are_packed_again_or_refused(what, monkeypatch, said):
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((2, 60, 60))
    kept, bare = (
        falcon.pack(b, scheme="3x4x4:38", backend="cpu", keep_source=x) for x in (True, False)
    )
    expected = falcon.gemm(a, kept)
    stored = pickle.dumps(kept), pickle.dumps(bare)
    assert said() == []
    OTHERWISE[what](monkeypatch)
    why = "the instruction set .*; this process uses that" if what == "isa" else "another layout"
    with pytest.raises(ValueError, match=f"keep_source=False: its 60 x 60 float64 .*{why}.*pack b"):
        pickle.loads(stored[1])
    if what == "isa":
        return  # no kernel of that name would pack it
    again = pickle.loads(stored[0])
    assert len(said()) == 1 and why in said()[0]
    assert same_bits(falcon.gemm(a, again), expected)


@pytest.mark.parametrize("other", [x for x in _core.supported_isas() if x in PANELS and x != HERE])
def test_another_instruction_set(tmp_path, other):
    pairs = pairs_of(["strassen", "3x4x4:38", "strassen@strassen"])
    found, said, isas = multiplied_elsewhere(tmp_path, pairs, FALCON_ISA=other)
    assert isas == [other]
    assert len(said) == len(pairs) and all(f"this process uses {other}" in x for x in said)
    (tmp_path / "whole").write_bytes(pickle.dumps([(a, w.source) for a, w in pairs]))
    names = [w.scheme.name for _, w in pairs]
    script = f"""
import hashlib, json, pickle, falcon
from pathlib import Path
found = []
for (a, b), name in zip(pickle.loads(Path({str(tmp_path / "whole")!r}).read_bytes()), {names!r}):
    w = falcon.pack(b, scheme=name, backend="cpu")
    found.append(hashlib.sha256(falcon.gemm(a, w, threads=1)).hexdigest())
print(json.dumps(found))
"""
    assert found == json.loads(run_script(script, FALCON_ISA=other))
    bare = pairs_of(["strassen"], keep_source=False)
    (tmp_path / "bare").write_bytes(pickle.dumps(bare[0][1]))
    refused = f"""
import pickle, falcon
from pathlib import Path
try:
    pickle.loads(Path({str(tmp_path / "bare")!r}).read_bytes())
except ValueError as error:
    print(error)
"""
    text = run_script(refused, FALCON_ISA=other)
    assert f"for the instruction set {HERE}; this process uses {other}" in text
    assert "keep_source=False" in text and "pack b in this process" in text


def test_where_the_extension_is_missing(tmp_path):
    packed = falcon.pack(np.ones((20, 20)), scheme="strassen", backend="cpu")
    (tmp_path / "packed").write_bytes(pickle.dumps(packed))
    script = f"""
import pickle, sys
from pathlib import Path
sys.modules["falcon._cpu._core"] = None
import falcon
try:
    pickle.loads(Path({str(tmp_path / "packed")!r}).read_bytes())
except ValueError as error:
    print(error)
"""
    text = run_script(script)
    assert "b was packed for backend 'cpu', which is not available here" in text
    assert "pack b again for another backend" in text


def panels_of(isa, dtype, name):
    """Fingerprint and digest of panels, blocked the same on every machine."""
    scheme = None if name == "classical" else schemes.get(name)
    b = (np.arange(70 * 53).reshape(70, 53) * 7 % 11 - 5).astype(dtype)
    engine = _core.pack_b(
        b, isa=isa, scheme=engine_scheme(scheme), threads=2, blocking=(0, 30, 40, 16, 0, 0, 0, 0)
    )
    fingerprint = layout.Payload(engine, scheme).fingerprint
    return fingerprint[:16], sha256(engine.memory).hexdigest()[:16]


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="panels of x86 kernels")
@pytest.mark.parametrize("isa", [x for x in _core.supported_isas() if x in PANELS])
def test_equal_fingerprints_mean_equal_panels(isa):
    """Stored files rely on it: where panels change and fingerprints do not, raise LAYOUT."""
    found = [panels_of(isa, dtype, x) for dtype in ("f4", "f8") for x in ("classical", "strassen")]
    known = dict(PANELS[isa])
    assert [x for x in found if known.get(x[0], x[1]) != x[1]] == [], "raise falcon's LAYOUT"
    assert found == PANELS[isa], "fingerprints have changed, and so did panels: note the new ones"


# --- damaged files --------------------------------------------------------------------------


def flipped(stored, at):
    return stored[:at] + bytes([stored[at] ^ 0x10]) + stored[at + 1 :]


@pytest.mark.parametrize("backend", ["cpu", "numpy"])
@pytest.mark.parametrize("scheme", ["classical", "strassen"])
def test_a_damaged_file(backend, scheme, said):
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((2, 50, 50))
    kept, bare = (
        falcon.pack(b, scheme=scheme, backend=backend, keep_source=x) for x in (True, False)
    )
    expected = falcon.gemm(a, kept)
    stored = pickle.dumps(kept)
    panels = (
        kept.payload.array.tobytes() if backend == "numpy" else bytes(kept.payload.engine.memory)
    )
    begin = stored.index(panels)
    again = pickle.loads(flipped(stored, begin + len(panels) // 3))
    assert len(said()) == 1 and "damaged" in said()[0]
    assert same_bits(falcon.gemm(a, again), expected)
    # The source, which follows the panels, is refused, and so are panels without a source.
    source = stored.index(b.tobytes(), begin + len(panels))
    with pytest.raises(ValueError, match="the packed operand is damaged: b or its description"):
        pickle.loads(flipped(stored, source + 1234))
    stored = pickle.dumps(bare)
    with pytest.raises(ValueError, match=r"damaged; pack b in this process"):
        pickle.loads(flipped(stored, stored.index(panels) + len(panels) // 3))
    state = kept.__getstate__()
    with pytest.raises(ValueError, match="the packed operand is damaged"):
        object.__new__(falcon.PackedOperand).__setstate__({**state, "shape": (49, 50)})


@pytest.mark.parametrize("keep", [True, False])
def test_no_flipped_bit_gives_a_wrong_product(keep):
    """Whichever byte is hit: an exception, or the right product."""
    rng = np.random.default_rng(4)
    a, b = whole(rng, (5, 6)).astype("f8"), whole(rng, (6, 7)).astype("f8")
    stored = pickle.dumps(falcon.pack(b, scheme="winograd", backend="cpu", keep_source=keep))
    expected, right = a @ b, 0
    for at in range(0, len(stored), 1 + len(stored) // 400):
        try:
            got = falcon.gemm(a, pickle.loads(flipped(stored, at)))
        except Exception:  # pickle raises what it likes
            continue
        np.testing.assert_array_equal(got, expected)
        right += 1
    assert right > 10 or not keep


def test_sources_of_any_strides_and_byte_order():
    b = np.arange(60.0 * 50).reshape(60, 50)
    for source in (b, b.T, b[::2, ::-3], np.asfortranarray(b), b.astype(">f8"), b[:0], b[:, :1]):
        packed = falcon.pack(source, scheme="strassen", backend="cpu", dtype="f8")
        again = pickle.loads(pickle.dumps(packed))
        np.testing.assert_array_equal(again.source, source)
        a = np.ones((7, source.shape[0]))
        assert same_bits(falcon.gemm(a, again), falcon.gemm(a, packed))
