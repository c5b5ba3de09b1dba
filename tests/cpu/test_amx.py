"""AMX: what a tile computes, small M, packed operands, permission, and falcon's own calls by tiles.

The tiles are emulated (`emulated.py`), so that every machine runs these tests; the checklist of
shapes, strides and schemes is in test_types.py and in the C driver. The real kernels must give the
same bits, whether they run on AMX or by traps.
"""

import ctypes
import json
import re
import shutil
import subprocess

import ml_dtypes
import numpy as np
import pytest

from falcon._backends import BACKENDS
from falcon._cpu import _core, extension
from falcon._cpu.programs import engine_scheme
from falcon._cpu.sources import isas_for
from falcon.schemes import get

from ..support import python
from . import emulated
from .support import gemm, pack, run_script, same_bits

BF16 = np.dtype(ml_dtypes.bfloat16)
TYPES = {
    "bf16": (np.uint16, np.uint16),
    "i8": (np.int8, np.int8),
    "u8": (np.uint8, np.uint8),
    "u8i8": (np.uint8, np.int8),
    "i8u8": (np.int8, np.uint8),
}
REAL = _core.supported_isas()  # without the emulated kernels
REAL_F32 = _core.kernel_info("f32", REAL[0])["name"]


@pytest.fixture
def tiles(emulated_libraries):
    with emulated.kernels(emulated_libraries, "emulated") as isa:
        yield isa


def values(rng, dtype, shape, side=0):
    """Elements of all kinds as the binding takes them; of bfloat16 none whose sums overflow."""
    if dtype == "bf16":
        return rng.standard_normal(shape).astype(BF16).view(np.uint16)
    return rng.integers(0, 256, shape, np.uint8).view(TYPES[dtype][side])


def of_close_exponents(*shapes):
    """bfloat16 matrices of which float64 holds every product and sum exactly."""
    rng = np.random.default_rng(1)
    for x in shapes:
        made = rng.uniform(1, 2, x) * 2.0 ** rng.integers(-6, 7, x) * rng.choice([-1, 1], x)
        yield made.astype(BF16)


def product(a, b, dtype, isa, **options):
    acc = np.float32 if dtype == "bf16" else np.int32
    c = np.empty((a.shape[0], b.shape[1]), acc)
    gemm(a, b, c, isa=isa, kind=dtype, **options)
    return c


def test_the_emulated_kernels_are_used(tiles):
    for dtype in TYPES:
        assert _core.kernel_info(dtype, tiles)["name"] == f"emulated_{dtype}_ukr_32x32"
        assert _core.kernel_info(dtype, "amx_int8")["isa"] != "amx_bf16"
    assert _core.supported_isas()[:2] == ("amx_bf16", "amx_int8")
    assert _core.kernel_info("f32", tiles)["name"] == REAL_F32


def test_bfloat16_is_summed_as_the_manual_says(tiles):
    """Even steps in one float32, odd ones in another, fused; both together are added to C."""
    M, N, K = 32, 32, 96  # three tiles of K
    a, b = of_close_exponents((M, K), (K, N))
    want = np.zeros((M, N), np.float32)
    for k in range(0, K, 32):
        sums = np.zeros((2, M, N), np.float32)
        for q in range(k, k + 32):
            exact = np.outer(a[:, q].astype(float), b[q].astype(float)) + sums[q % 2]
            sums[q % 2] = exact.astype(np.float32)
        want += sums[0] + sums[1]
    assert same_bits(product(a.view(np.uint16), b.view(np.uint16), "bf16", tiles), want)


def test_subnormals_are_zero(tiles):
    """Operands, products and sums; a single step of K, so that nothing else is rounded."""
    tiny = np.finfo(np.float32).tiny
    a = np.array([[tiny / 2, tiny, tiny, 1, -tiny / 2]], BF16).repeat(33, 0)
    for column, (factor, want) in enumerate(
        [(2.0**100, 0), (0.5, 0), (1, tiny), (tiny / 2, 0), (1, 0)]
    ):
        b = np.full((1, 40), factor, BF16)
        one = np.ascontiguousarray(a[:, column : column + 1])
        assert (product(one.view(np.uint16), b.view(np.uint16), "bf16", tiles) == want).all()


@pytest.mark.parametrize("kind", emulated.USED)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_elements_are_rounded_as_they_are_packed(emulated_libraries, kind, dtype):
    """The bits of products of rounded elements, and of the real kernels where there are any."""
    rng = np.random.default_rng(4)
    name = f"f{8 * np.dtype(dtype).itemsize}bf16"
    for M, N, K in ((1, 1, 1), (32, 32, 64), (100, 70, 1000), (3, 300, 500), (67, 33, 129)):
        x, y = rng.standard_normal((M, K)).astype(dtype), rng.standard_normal((K, N)).astype(dtype)
        for a, b in ((x, y), (x.copy("F"), y.copy("F")), (x[:, ::-1], y[::-1])):
            for scheme in (None, engine_scheme(get("strassen"))):
                if scheme and min(M, N, K) < 30:
                    continue
                found, want = np.empty((2, M, N), dtype)
                with emulated.kernels(emulated_libraries, kind) as isa:
                    gemm(a, b, found, isa=isa, kind=name, scheme=scheme)
                    wide = product(*(z.astype(BF16).view(np.uint16) for z in (a, b)), "bf16", isa,
                                   scheme=scheme)  # fmt: skip
                want[...] = wide
                assert same_bits(found, want)
                c = np.ones((M, N), dtype)
                with emulated.kernels(emulated_libraries, kind) as isa:
                    gemm(a, b, c, 2.0, 3.0, isa=isa, kind=name, scheme=scheme)
                assert same_bits(c, (2 * want + 3).astype(dtype))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("M", [1, 2, 3, 15, 16, 17, 31, 33, 34, 35, 64, 65, 66])
def test_few_rows_alone_and_below_others(tiles, dtype, M):
    """One or two rows of a panel are multiplied in vectors: integers are the same bit for bit."""
    rng = np.random.default_rng(M)
    for N, K in ((1, 70), (33, 129), (100, 600)):
        a, b = values(rng, dtype, (M, K)), values(rng, dtype, (K, N), 1)
        packed = pack(b, dtype if dtype == "bf16" else dtype[-2:], isa=tiles)
        assert packed.isa == emulated.KERNELS[dtype]
        both = [product(a, b, dtype, tiles), product(a, b, dtype, tiles, packed=packed)]
        if dtype == "bf16":
            exact = a.view(BF16).astype(float) @ b.view(BF16).astype(float)
            size = abs(a.view(BF16).astype(float)) @ abs(b.view(BF16).astype(float))
            assert all((abs(c - exact) <= 1e-6 * size).all() for c in both)
        else:
            want = (a.astype(np.int64) @ b.astype(np.int64)).astype(np.int32)
            assert all((c == want).all() for c in both)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("kind", ["trapped"] if emulated.TRAPPED else ["by AMX"])
def test_the_real_kernels_have_the_emulated_bits(emulated_libraries, kind, dtype):
    if kind != "trapped" and emulated.KERNELS[dtype] not in REAL:
        pytest.skip("this machine has no AMX")
    rng = np.random.default_rng(3)
    for M, N, K in ((32, 32, 32), (100, 70, 1000), (3, 300, 500), (66, 33, 129)):
        a, b = values(rng, dtype, (M, K)), values(rng, dtype, (K, N), 1)
        for name in (None, "strassen"):
            scheme = engine_scheme(None if name is None else get(name))

            def run(isa, a=a, b=b, scheme=scheme):
                return product(a, b, dtype, isa, scheme=scheme, threads=2)

            if kind != "trapped":
                found = run(emulated.KERNELS[dtype])
            else:
                with emulated.kernels(emulated_libraries, kind) as isa:
                    assert _core.kernel_info(dtype, isa)["name"].startswith("amx_")
                    found = run(isa)
            with emulated.kernels(emulated_libraries, "emulated") as isa:
                assert same_bits(found, run(isa))


@pytest.fixture
def trapped(emulated_libraries):
    if "trapped" not in emulated_libraries:
        pytest.skip("AMX's kernels are for Linux on x86-64")
    return emulated_libraries["trapped"]


def test_every_tile_instruction_of_the_kernels_is_emulated(trapped):
    """Of the objects, on every x86-64 machine: one with AMX executes what others must emulate."""
    objdump = shutil.which("objdump")
    if objdump is None:
        pytest.skip("objdump is not installed")
    command = [objdump, "-dw", *trapped.parent.glob("trapped-amx_*.o")]
    listing = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    lines = [x.split("\t") for x in listing.splitlines() if re.search(r"\t\w*tile|%tmm", x)]
    found = {bytes.fromhex(code): text for _, code, text in lines}
    assert {"ldtilecfg", "tdpbf16ps", "tdpbssd"} < {x.split()[0] for x in found.values()}
    known = ctypes.CDLL(str(trapped)).trap_tiles_knows
    assert not [text for code, text in found.items() if known(code + bytes(8)) != len(code)]


@pytest.mark.parametrize("tests", ["real", "wrap", "not real and not wrap"])
def test_the_real_kernels_by_traps(trapped, tests):
    """Bits and the checklist in processes that may not use tiles, on machines with AMX too."""
    files = [f"tests/cpu/test_{x}.py" for x in ("amx", "arithmetic", "types")]
    emulated.run_trapped(trapped.parent, "-k", f"trapped and ({tests})", *files)


def test_a_trap_that_is_not_known_is_named(trapped):
    code = f"""
import ctypes, mmap
ctypes.CDLL({str(trapped)!r}).trap_tiles()
page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(bytes.fromhex("0f0b"))
ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
"""
    done = python("-c", code, status=1)
    assert re.search("not emulated, at 0x[0-9a-f]+ .*: 0f 0b", done.stderr)


# --- permission, and falcon's own calls -----------------------------------------------------------


def test_show_config_says_why_tiles_are_refused(monkeypatch, doors):
    why = "Linux refuses the use of tile registers: Operation not supported (arch_prctl)"
    cpu = BACKENDS["cpu"]
    assert not [x for x in cpu.describe() if "refused" in x] or "amx_bf16" not in REAL
    monkeypatch.setattr(_core, "refused_isas", lambda: {"amx_bf16": why})
    assert cpu.describe()["amx_bf16 refused"] == why
    if "amx_bf16" not in REAL:
        doors.forced_isa("amx_bf16")
        assert why in extension._reason()


CALLS = """
import json, pickle
import ml_dtypes, numpy as np
from tests.cpu import emulated
emulated.put({library!r}, {kind!r})
import falcon
rng = np.random.default_rng(4)
right = []
for dtype in (ml_dtypes.bfloat16, np.int8, np.uint8):
    a, b, c = (rng.integers(0, 3, x).astype(dtype) for x in ((70, 81), (81, 90), (70, 90)))
    exact = a.astype(np.int64) @ b.astype(np.int64)
    for scheme in ("auto", "classical", "strassen", "winograd"):
        packed = falcon.pack(b, scheme=scheme, backend="cpu")
        for right_hand in (b, packed, pickle.loads(pickle.dumps(packed))):
            options = {{}} if right_hand is not b else {{"scheme": scheme, "backend": "cpu"}}
            right.append((falcon.gemm(a, right_hand, **options) == exact.astype(dtype)).all())
        got = falcon.gemm(a, b, c, alpha=3, beta=2, scheme=scheme, backend="cpu")
        exact_too = 3 * exact + 2 * c.astype(np.int64)
        right.append((got == exact_too.astype(np.float32).astype(dtype)).all()
                     if dtype is ml_dtypes.bfloat16 else (got == exact_too.astype(dtype)).all())
found = falcon.show_config("dict")["cpu kernels"]
names = [found[x] for x in ("in use", "bf16 kernel", "i8 kernel")]
print(json.dumps([[bool(x) for x in right], *names]))
"""


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (kind, name)
        for kind in ("emulated", "blocks")
        for name in sorted(set(emulated.KINDS[kind].values()))
    ],
)
def test_falcons_calls_by_emulated_kernels(emulated_libraries, kind, name):
    """FALCON_ISA takes the names; the best kernels up to that one are used."""
    code = CALLS.format(library=str(emulated_libraries[kind]), kind=kind)
    words = run_script(code, FALCON_ISA=name)
    right, used, bf16, i8 = json.loads(words.splitlines()[-1])
    assert all(right) and len(right) == 48
    assert used == name and i8.startswith(f"{kind}_i8_ukr_")
    assert bf16.startswith(f"{kind}_bf16_ukr_") == name.endswith("_bf16")


def test_instruction_sets_that_do_not_run_are_named():
    assert {*extension.missing(), *REAL} == {x.name for x in isas_for()}
