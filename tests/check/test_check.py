"""`falcon.check`: what it finds, what it says, and its record."""

import ctypes
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import falcon
from falcon.__main__ import main
from falcon._backends import available_backends
from falcon._check import case, steps
from falcon._check.case import RANDOM, WHOLE
from falcon._check.result import CheckResult
from falcon._core.dtypes import BFLOAT16, ENGINE_NAMES, FLOAT64, of
from falcon._cpu.each import kernels

from ..cpu.test_c_driver import COMPILER, table
from ..support import HANG, python

PACKAGE = Path(falcon.__file__).parent
HAS_CORE = any(x.name == "cpu" for x in available_backends())
needs_core = pytest.mark.skipif(not HAS_CORE, reason="needs the compiled extension")


@pytest.fixture
def small(doors):
    """A large product that is small."""
    doors.numbers(checked_size=250)
    doors.checks(room=lambda: 2**18)


@pytest.fixture
def calls_alone(small, doors):
    """With few kernels."""
    some = [x for x in kernels() if str(x.operand) in ("float32", "float64")]
    doors.checks(kernels=lambda: some)


# --- what it finds --------------------------------------------------------------------------


def test_this_machine(small, capsys):
    names = []
    with falcon.config(backend="numpy", scheme="classical", workspace_limit=2**20):
        found = falcon.check(tick=names.append)
    assert found.ok and found.failures == [], str(found)
    assert capsys.readouterr().out == ""
    rows = {x.step: x for x in found.rows}
    assert list(rows) == names
    expected = {"backend cpu", "backend numpy", "backend gpu", "NaN and Inf", "batches", "packed B"}
    assert expected | {"modulo p", "large product"} < set(rows)
    assert found.products == sum(x.products for x in found.rows) > 100
    assert all(0 <= x.worst < 1 for x in found.rows)
    assert rows["backend numpy"].worst > 0
    text = str(found)
    assert max(map(len, text.splitlines())) <= 100
    assert f"all {found.products} products are right" in text
    assert falcon.show_config("dict")["settings"]["backend"] == "auto"


@needs_core
def test_every_kernel_of_every_instruction_set():
    """All that the engine names; every one finds its way into a step."""
    from falcon._cpu import _core

    known = {
        (info["name"], info["isa"])
        for isa in _core.supported_isas()
        for engine in set(_core.DTYPES) - {"f32x6", "f32x3"}  # of tiles alone
        for info in [_core.kernel_info(engine, isa)]
        if info["isa"] == isa
    }
    assert {(x.name, x.isa) for x in kernels()} >= known
    assert {str(x.operand) for x in kernels() if x.isa == "generic"} >= {
        *("float32", "float64", "float16", "bfloat16", "complex64", "complex128"),
        *("int8", "int16", "int32", "int64", "uint8", "int64 by float64", "uint8 x int8"),
    }


@needs_core
def test_steps_run_their_own_kernels(small, monkeypatch):
    ran, names = {}, []
    add = lambda x: ran.setdefault(names[-1], set()).add(x.kernel)  # noqa: E731
    monkeypatch.setattr(case.Case, "run", lambda x: (add(x), 0))
    falcon.check(tick=names.append)
    every = {f"kernels {x.isa}": {y for y in kernels() if y.isa == x.isa} for x in kernels()}
    assert {name: of for name, of in ran.items() if name.startswith("kernels")} == every
    assert ran["threads"] <= set(kernels()) and ran["batches"] == {None}


# --- operands and comparisons ---------------------------------------------------------------


def test_whole_numbers():
    """What integers hold; of floats so small that no sum is rounded."""
    for name, kind in (("int8", int), ("float32", float), ("uint64", np.uint64)):
        row = of(name)
        a, b = case.operands(row, (5, 7, 9), WHOLE)
        assert a.shape == (5, 9) and b.shape == (9, 7) and a.dtype == b.dtype == row.numpy
        largest = 4 if name == "float32" else np.iinfo(row.numpy).max * 0.7
        assert max(a.max(), b.max()) >= largest and (a == np.round(a)).all()
        with np.errstate(over="ignore"):
            expected = (a.astype(kind) @ b.astype(kind)).astype(row.numpy)
        exact = case.held(case._multiplied(*(case.numbers(x, row) for x in (a, b))), row)
        np.testing.assert_array_equal(exact, expected)


def test_bfloat16_by_bits():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = np.random.default_rng(0).standard_normal(1000) * 1e3
    x[:4] = 1 + 2**-8, 1 + 3 * 2**-8, np.inf, 0
    bits = case.held(x, BFLOAT16)
    expected = x.astype(np.float32).astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(bits, expected.view(np.uint16))
    np.testing.assert_array_equal(case.numbers(bits, BFLOAT16), expected.astype(float))


def test_products_are_finer_than_float64():
    """The exact product by Python's integers."""
    a, b = case.operands(FLOAT64, (6, 5, 300), RANDOM)
    whole = [np.vectorize(lambda v: int(v * 2.0**80), otypes=[object])(x) for x in (a, b)]
    parts = (np.vectorize(lambda v: int(v * 2.0**160), otypes=[object])(x)
             for x in case.product(a, b))  # fmt: skip
    error = sum(parts) - whole[0] @ whole[1]
    assert np.abs((error / 2**160).astype(float)).max() < 2**-53 * 2**-12


def test_what_differs_is_told():
    x, y = np.array([[1.0, np.nan], [np.inf, 3.0]]), np.array([[1.0, np.nan], [np.inf, 4.0]])
    assert case.compared(x, x.copy()) == ("", 0.0)
    what, _ = case.compared(x, y)
    assert what == "1 of 4 entries differ, entry [1, 1]: 3.0, not 4.0"
    assert case.compared(x, np.ones((2, 2)))[0].startswith("3 of 4")
    assert "its shape is (2, 2), not (2, 3)" in case.compared(x, np.ones((2, 3)))[0]
    c, exact = np.array([1.0, 2.0]), np.array([1.0, 1.0])
    bound = np.array([1.0, 2.0])
    assert case.compared(c, exact, 0.0, bound) == ("", 0.5)
    what, _ = case.compared(c, exact, np.array([0.0, -0.5]), bound / 2)
    assert what.startswith("1 of 2") and "[1]: 2.0, not 1.0, 1.5 times the bound" in what
    assert "nan times" in case.compared(np.array([np.nan, 1.0]), exact, 0.0, bound)[0]
    whole = np.array([255, 0], np.uint8)
    assert "1 of 2" in case.compared(whole, np.array([254, 0], np.uint8))[0]


# --- faults on purpose ----------------------------------------------------------------------

BROKEN = """
#include "kernels/kernel.h"
extern const falcon_kernel falcon_kernel_generic_f32;
static falcon_kernel kernel;
static void write(const void *ct, const void *h, double coef, falcon_scalar alpha,
                  falcon_scalar beta, void *c, ptrdiff_t rs, ptrdiff_t cs, ptrdiff_t rows,
                  ptrdiff_t cols, int stream, void *watch) {
    falcon_kernel_generic_f32.write[0](ct, h, coef, alpha, beta, c, rs, cs, rows, cols, stream,
                                       watch);
    if (rows == 3)  /* at an edge */
        ((float *)c)[2 * rs] += 2;
}
const falcon_kernel *broken(void) {
    kernel = falcon_kernel_generic_f32;
    kernel.write[0] = write;
    kernel.transposed = &kernel;
    return &kernel;
}
"""


def compiled(folder):
    """A shared library that holds a kernel with a fault."""
    if COMPILER is None or not (PACKAGE / "_cpu/src").exists():
        pytest.skip("no C compiler, or no C sources")
    (folder / table().TABLES).write_text(table().tables(ENGINE_NAMES, table().isas_for()))
    (folder / "broken.c").write_text(BROKEN)
    command = [COMPILER, "-O1", "-std=gnu11", "-fPIC", "-shared", "-I", PACKAGE / "_cpu/src", "-I",
               folder, PACKAGE / "_cpu/src/kernels/generic.c", folder / "broken.c", "-lm", "-o",
               folder / "broken.so"]  # fmt: skip
    subprocess.run(command, check=True, timeout=HANG)
    return ctypes.CDLL(str(folder / "broken.so"))


@needs_core
def test_a_broken_kernel_is_named(small, tmp_path, capsys):
    from falcon._cpu import _core

    library = compiled(tmp_path)
    library.broken.restype = ctypes.c_size_t
    _core.put_kernel("generic", "f32", library.broken())
    try:
        status = main(["check", "-o", str(tmp_path / "record.json")])
    finally:
        _core.put_kernel("generic", "f32", 0)
    out, err = capsys.readouterr()
    assert status == 1
    assert re.search(r"^kernels generic .* FAILED ", out, re.M)
    (said,) = [
        x for x in out.splitlines() if x.startswith("kernels generic: ") and "complex" not in x
    ]
    assert "generic_f32_ukr_4x8, generic, float32, 35 x 33 @ 33 x " in said
    assert re.search(r"entries differ, entry \[34, 0\]: -?\d+\.0, not -?\d+\.0", out)
    assert "products are wrong" in out and "record.json" in err
    held = json.loads((tmp_path / "record.json").read_text())
    assert held["ok"] is False
    wrong = {(x["kernel"], x["type"]) for x in held["failures"]}
    assert ("generic_f32_ukr_4x8", "float32") in wrong
    assert {x for x, _ in wrong} == {"generic_f32_ukr_4x8"}
    assert {x["step"] for x in held["failures"]} - {"threads"} == {"kernels generic"}
    # a product that is rounded shows it by its bound
    assert any("times the bound" in x["wrong"] for x in held["failures"])


@needs_core
def test_bits_that_depend_on_threads(monkeypatch):
    from falcon._cpu.each import Kernel

    product = Kernel.product

    def careless(self, *operands, threads, **how):
        c = product(self, *operands, threads=threads, **how)
        if threads == 2:
            c[5, 6] = np.nextafter(c[5, 6], c.dtype.type(9))
        return c

    monkeypatch.setattr(Kernel, "product", careless)
    result = CheckResult()
    steps.run_cases("threads", steps.of_threads(kernels(), (1, 2, 5)), "", result)
    assert {x["threads"] for x in result.failures} == {"2 threads"}
    assert (result.rows[0].products, result.rows[0].failed) == (12, 4)
    assert "1 of" in result.failures[0]["wrong"] and "[5, 6]" in result.failures[0]["wrong"]


@pytest.mark.parametrize("fault", ["entry", "nan", "raises"])
def test_calls_that_are_wrong(calls_alone, doors, fault):
    gemm = case.gemm

    def wrong(*operands, **options):
        c = gemm(*operands, **options)
        if c.dtype == np.float64 and options.get("backend") == "numpy":
            if fault == "raises":
                raise RuntimeError("no such luck")
            c[np.isnan(c)] = 0
            c[2, 2] *= 1 if fault == "nan" else 1 + 1e-12
        return c

    doors.checks(gemm=wrong)
    found = falcon.check()
    assert not found.ok
    steps = {x["step"] for x in found.failures}
    assert {x["backend"] for x in found.failures} == {"backend numpy"}, str(found)
    assert "NaN and Inf" in steps
    assert ("backend numpy" in steps) is (fault != "nan")
    assert {x["type"] for x in found.failures} == {"float64"}
    if fault == "raises":
        assert found.failures[0]["wrong"] == "raised RuntimeError: no such luck"
    assert "WRONG:" in str(found) and "FAILED" in repr(found)


def test_a_large_product_that_is_wrong_in_a_row_that_is_not_compared(small, doors):
    gemm = case.gemm

    def wrong(*operands, **options):
        c = gemm(*operands, **options)
        c[7, 3] += 1  # every third row and column is compared
        return c

    doors.checks(gemm=wrong)
    doors.numbers(checked_size=519)
    result = CheckResult()
    steps.run_cases("large product", steps.large()[0], "", result)
    assert len(result.failures) == 2 and result.rows[0].worst < 1
    assert result.failures[0]["wrong"].startswith("Freivalds' test: wrong: ")
    assert "c[7]" in result.failures[0]["wrong"]


@pytest.mark.parametrize("modulus", steps.MODULI)
def test_products_modulo_p_that_are_wrong(doors, modulus):
    gemm = case.gemm

    def wrong(*operands, **options):
        c = gemm(*operands, **options)
        c[3, 4] = (c[3, 4] + 1) % options["modulus"]
        return c

    products = list(steps.whole_calls(["numpy"], (of("int64"),), modulus=modulus))
    assert all(x.run() == ("", 0.0) for x in products)
    doors.checks(gemm=wrong)
    for x in products:
        assert x.run()[0].startswith("1 of 13493 entries differ, entry [3, 4]: ")
        assert x.where()["modulus"] == f"modulo {modulus}"


def test_a_step_without_memory_is_left_out(calls_alone, doors):
    gemm = case.gemm

    def full(a, b, **options):
        if len(a) > 200:
            raise MemoryError
        return gemm(a, b, **options)

    doors.checks(gemm=full)
    found = falcon.check()
    (row,) = [x for x in found.rows if x.step == "large product"]
    assert (row.state, row.about) == ("-", "not enough memory")
    assert found.ok


# --- the command ----------------------------------------------------------------------------


def test_the_record(small, tmp_path, capsys):
    """Whatever the settings."""
    with falcon.config(reproducible=True, max_growth=1.0, check="verify"):
        assert main(["check", "-o", str(tmp_path / "record.json")]) == 0
    held = json.loads((tmp_path / "record.json").read_text(encoding="utf-8"))
    assert held["ok"] is True
    assert held["machine"]["falcon"] == falcon.__version__
    assert held["machine"]["libraries"]["numpy"] == np.__version__
    assert held["machine"]["rates in numbers"]["numpy float64"]["multiply"] > 0
    assert [x["step"] for x in held["rows"]][-1] == "large product"
    assert "products are right" in capsys.readouterr().out


def test_a_folder_that_does_not_exist_is_told_at_once(tmp_path, capsys):
    assert main(["check", "-o", str(tmp_path / "none" / "record.json")]) == 2
    assert "its folder does not exist" in capsys.readouterr().err


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_ctrl_c_says_what_was_done(tmp_path):
    code = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from falcon.__main__ import main
from falcon._check import case
case.matmul = lambda *operands, **options: os.kill(os.getpid(), signal.SIGINT)
sys.exit(main(["check", "-o", "record.json"]))
"""
    done = python("-c", code, status=130, where={"cwd": tmp_path})
    assert re.search(r"stopped: [1-9]\d* of \d+ steps are done", done.stderr)
    assert "NaN and Inf" in done.stdout and "packed B" not in done.stdout
    assert not (tmp_path / "record.json").exists()


LITTLE = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
import falcon
found = falcon.check()
print(found)
sys.exit(not found.ok)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits of the address space as on Linux")
def test_a_gibibyte_of_memory():
    done = python("-c", LITTLE, OPENBLAS_NUM_THREADS="2", FALCON_NUM_THREADS="2")
    assert "not enough memory" not in done.stdout


def test_without_the_compiled_extension(small, doors):
    """What the steps do where there are no kernels; .ci/without-compiler installs such a falcon."""
    reason = "the compiled extension is missing (a test); install a C compiler"
    doors.checks(kernels=list, why_missing=lambda: reason)
    doors.without("cpu", reason)
    found = falcon.check()
    assert found.ok, str(found)
    assert [x.step for x in found.rows][:2] == ["kernels", "backend cpu"]
    assert all(x.state == "-" and x.about == reason for x in found.rows[:2])
    large_row = found.rows[-1]
    assert large_row.products == 2 and found.products > 50
