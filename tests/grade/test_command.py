"""``python -m falcon grade``: broken kernels are named, functions graded, records written."""

import ctypes
import json
import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

import falcon
from falcon.__main__ import main
from falcon._backends import available_backends
from falcon._core.dtypes import ENGINE_NAMES
from falcon._cpu import each
from falcon._cpu.each import Kernel, kernels, why_different
from falcon._grade import command

from ..cpu.test_c_driver import COMPILER, table
from ..support import HANG, python

PACKAGE = Path(falcon.__file__).parent
HAS_CORE = any(x.name == "cpu" for x in available_backends())
needs_core = pytest.mark.skipif(not HAS_CORE, reason="needs the compiled extension")
SMALL = "--size", "64"


def test_this_machine(tmp_path, capsys):
    """Whatever the settings."""
    files = tmp_path / "record.json", tmp_path / "page.html"
    with falcon.config(backend="numpy", scheme="classical", check="verify"):
        assert main(["grade", *SMALL, "-o", str(files[0]), "--html", str(files[1])]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^backend numpy +\d\d products .* ok$", out, re.M)
    assert re.search(r"^NumPy +64 x 64 .* A: IEEE float32$", out, re.M)
    assert re.search(r"^\| float32, 64 \| NumPy \|.* falcon \| max_growth=1 \|", out, re.M)
    held = json.loads(files[0].read_text("utf-8"))
    assert held["ok"] is True and held["failures"] == []
    assert held["machine"]["falcon"] == falcon.__version__
    assert held["machine"]["rates in numbers"]["numpy float64"]["multiply"] > 0
    assert {"NumPy", "falcon"} <= {x["of"] for x in held["grades"]}
    assert "<svg" in files[1].read_text("utf-8")


@needs_core
def test_every_kernel_of_every_instruction_set():
    """All that the engine names, and every one is multiplied by."""
    from falcon._cpu import _core

    known = {
        (info["name"], info["isa"])
        for isa in _core.supported_isas()
        for engine in set(_core.DTYPES) - {"f32x6", "f32x3", "f32bf16", "f64bf16"}  # not everywhere
        for info in [_core.kernel_info(engine, isa)]
        if info["isa"] == isa
    }
    assert {(x.name, x.isa) for x in kernels()} >= known
    assert {str(x.operand) for x in kernels() if x.isa == "generic"} >= {
        *("float32", "float64", "float16", "bfloat16", "complex64", "complex128"),
        *("int8", "int16", "int32", "int64", "uint8", "int64 by float64", "uint8 x int8"),
    }
    for name, products, _ in command.tests():
        if name.startswith("kernels"):
            said = {x.split(", ")[2] for x, _ in products if f", {name.split()[1]}," in x}
            assert said == {str(x.operand) for x in kernels() if x.isa == name.split()[1]}


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
def test_a_broken_kernel_is_named(tmp_path, capsys):
    from falcon._cpu import _core

    library = compiled(tmp_path)
    library.broken.restype = ctypes.c_size_t
    _core.put_kernel("generic", "f32", library.broken())
    try:
        status = main(["grade", *SMALL, "-o", str(tmp_path / "record.json")])
    finally:
        _core.put_kernel("generic", "f32", 0)
    out, err = capsys.readouterr()
    assert status == 1 and "please report" in err and "record.json" in err
    assert re.search(r"^kernels generic .* FAILED$", out, re.M)
    assert "kernels generic: generic_f32_ukr_4x8, generic, float32, 35 x 33 @ 33 x " in out
    assert re.search(r"entries differ, entry \[34, 0\]: -?\d+\.0, not -?\d+\.0", out)
    held = json.loads((tmp_path / "record.json").read_text())
    assert held["ok"] is False
    named = {x.split(",")[0] for x in held["failures"] if x.startswith("kernels")}
    assert named == {"kernels generic: generic_f32_ukr_4x8"}


@needs_core
@pytest.mark.parametrize("fault", ["entry", "threads", "bits", "raises"])
def test_kernels_that_are_wrong(fault, monkeypatch):
    product = Kernel.product

    def careless(self, *operands, threads, **how):
        c = product(self, *operands, threads=threads, **how)
        if fault == "raises":
            raise RuntimeError("no such luck")
        if fault == "bits":
            return c.astype(np.float16).astype(c.dtype)
        if fault == "entry" or threads == 2:
            c[5, 6] += 1
        return c

    monkeypatch.setattr(Kernel, "product", careless)
    (x,) = (x for x in kernels() if x.isa == "generic" and str(x.operand) == "float32")
    threaded = [why for _, why in x.threaded([1, 2])]
    assert [bool(y) for y in threaded][:2] == [fault in ("entry", "raises")] * 2
    assert [bool(y) for y in threaded][2:] == [fault != "bits"] * 2
    wrong = [f"{said}: {why}" for said, why in command._by_kernel(x) if why]
    assert (len(wrong) > 100) == (fault in ("entry", "raises"))
    assert len(wrong) == {"threads": 0, "bits": 1}.get(fault, len(wrong)), wrong[:3]
    if fault == "bits":
        assert f"{x.name}, generic, float32: operands: 11 of 24 bits" in wrong[0]
    if fault == "raises":
        assert "raises RuntimeError: no such luck" in wrong[0]


def test_what_differs_is_told():
    x, y = np.array([[1.0, 2.0], [5.0, 3.0]]), np.array([[1.0, 2.0], [5.0, 4.0]])
    assert why_different(x, x.copy()) == ""
    assert why_different(x, y) == "1 of 4 entries differ, entry [1, 1]: 3.0, not 4.0"


def test_functions(tmp_path, capsys):
    (tmp_path / "mine.py").write_text("def zero(a, b):\n    return 0 * (a @ b)\n")
    done = python("-m", "falcon", "grade", "mine:zero", "numpy:dot", *SMALL, status=1,
                  where={"cwd": tmp_path})  # fmt: skip
    assert "mine:zero, float32: F, wrong" in done.stdout
    assert "numpy:dot, float32: A, IEEE float32" in done.stdout
    assert "kernels" not in done.stdout
    assert done.stderr.endswith(" wrong\n")  # falcon's own products alone are to be reported
    for words, said in (
        (["numpy:none"], "'numpy:none': module 'numpy' has no attribute 'none'; expected MODULE"),
        (["nothing"], "expected MODULE:FUNCTION"),
        (["-o", str(tmp_path / "none" / "x.json")], "its folder does not exist"),
    ):
        assert main(["grade", *words]) == 2
        assert said in capsys.readouterr().err


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_ctrl_c_leaves_what_was_done(tmp_path):
    code = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from falcon.__main__ import main
from falcon._grade import command
command.grade = lambda *operands, **options: os.kill(os.getpid(), signal.SIGINT)
command._by_backend = lambda name: iter([("a product", "")])
command._by_kernel = lambda kernel: iter([("a product", "")])
sys.exit(main(["grade", "-o", "record.json"]))
"""
    done = python("-c", code, status=130, where={"cwd": tmp_path})
    assert "backend numpy" in done.stdout and "interrupted" in done.stderr
    assert not (tmp_path / "record.json").exists()


LITTLE = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
import falcon, numpy
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert falcon.grade(numpy.matmul, size=1920).letter == "A"
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="limits of POSIX")
def test_half_a_gibibyte_of_memory():
    done = python("-c", LITTLE, OPENBLAS_NUM_THREADS="2", FALCON_NUM_THREADS="2")
    assert int(done.stdout) < 512


def test_without_the_compiled_extension(monkeypatch, doors):
    """What is tested where there are no kernels; .ci/without-compiler installs such a falcon."""
    reason = "the compiled extension is missing (a test); install a C compiler"
    monkeypatch.setattr(command, "kernels", list)
    monkeypatch.setattr(command, "why_missing", lambda: reason)
    doors.without("cpu", reason)
    found = {name: ([*products], about) for name, products, about in command.tests()}
    first, second, *_ = found
    assert first.endswith(" threads") and second == "backend cpu"
    assert found[first] == found[second] == ([], reason)
    assert len(found["backend numpy"][0]) > 10 and not any(x for _, x in found["backend numpy"][0])


def test_other_calls(doors):
    """Complex numbers, a packed B, modulo p, beyond the caches: each is told if it is wrong."""

    def told():
        (products,) = (x for name, x, _ in command.tests() if name == "other calls")
        return dict(products)

    with falcon.config(backend="numpy"):
        assert len(told()) == 14 and not any(told().values())

        def change(out):
            out[3, 4] += 50

        doors.wrong(change)
        doors.forget()
        assert all(told().values())


needs_affinity = pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity")


@needs_core
@needs_affinity
def test_every_cpu_by_itself(capsys, monkeypatch):
    """One CPU errs: it is named; all of them: the kernel is reported."""
    cpus = sorted(os.sched_getaffinity(0))
    some = [x for x in kernels() if str(x.operand) in ("float32", "int16")]
    monkeypatch.setattr(each, "kernels", lambda: some)
    brief = ["grade", "--cores", "--seconds", "0.01"]
    assert main(brief) == 0
    out = capsys.readouterr().out
    for cpu in cpus:
        assert re.search(rf"^CPU {cpu} +{len(some)} products .* ok$", out, re.M)
    product, seen = Kernel.product, set()

    def sick(self, *given, **how):
        c = product(self, *given, **how)
        here = os.sched_getaffinity(0)
        seen.update(here)
        if here <= bad and self.isa == some[0].isa and c.dtype == np.float32:
            c[7, 9] += 1
        return c

    monkeypatch.setattr(Kernel, "product", sick)
    for bad in ({cpus[-1]}, {*cpus}):
        assert main(brief) == 1
        out, err = capsys.readouterr()
        said = rf"CPU {cpus[-1]}: \S+, {some[0].isa}, float32\n +1 of \d+ entries .* \[7, 9\]"
        assert re.search(said, out)
        assert seen == {*cpus} == os.sched_getaffinity(0)
        if len(bad) < len(cpus):
            assert f"1 wrong: do not compute on CPU {cpus[-1]}; other CPUs are right" in err
            assert not re.search(rf"CPU {cpus[0]}:", out)
        else:
            assert "please report" in err
    for given in (["--seconds", "0"], ["numpy:matmul"]):
        assert main(["grade", "--cores", *given]) == 2
