"""NVRTC compiles every generated source without a warning, within the registers that were planned.

Needs no GPU: the packages of the extra "gpu-check". CI runs the whole catalogue, in processes,
because each scheme takes NVRTC seconds.
"""

import re
import struct
from collections import Counter

import pytest

import falcon
from falcon._core.dtypes import (
    BFLOAT16,
    BY_ARITHMETIC_ON_GPUS,
    CUDA,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    ON_GPUS,
)
from falcon._gpu import sources
from falcon.codegen.cuda_plan import THREADS

pytest.importorskip("cuda.bindings.nvrtc", reason="needs the extra gpu-check (NVRTC)")

from cuda.bindings import nvrtc

from .support import CUPYS, typed_kernels_of

ARCHITECTURES = ("sm_80", "sm_90a")
# Bytes per thread that may be spilled, stores and loads together.
MOST_SPILLED = 16
# Small, chained, without shared sums, two levels.
SOME = ("strassen", "2x4x2:14", "3x4x4:38", "strassen@strassen")
OTHERS = [name for name in falcon.schemes.names() if name not in SOME]
PLAIN = [sources.copy(dtype, out) for dtype in ON_GPUS for out in ON_GPUS
          if out.is_complex or not dtype.is_complex]  # fmt: skip
PLAIN += [sources.norms(dtype, False) for dtype in CUDA]
PLAIN += [sources.norms(FLOAT32, True, x) for x in (False, True)] + [sources.means()]
PLAIN += [sources.powers(dtype) for dtype in (FLOAT32, FLOAT64)]


def checked(result):
    status, *values = result
    assert status == nvrtc.nvrtcResult.NVRTC_SUCCESS, status
    return values[0] if values else None


def compiled(text, architecture):
    """Return status, log and machine code; the log holds the report of the assembler."""
    program = checked(nvrtc.nvrtcCreateProgram(text.encode(), b"falcon.cu", 0, None, None))
    options = [x.encode() for x in ("--std=c++17", *CUPYS, "--ptxas-options=-v")]
    options.append(f"--gpu-architecture={architecture}".encode())
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    log = b" " * checked(nvrtc.nvrtcGetProgramLogSize(program))
    checked(nvrtc.nvrtcGetProgramLog(program, log))
    code = b""
    if status == nvrtc.nvrtcResult.NVRTC_SUCCESS:
        code = b" " * checked(nvrtc.nvrtcGetCUBINSize(program))
        checked(nvrtc.nvrtcGetCUBIN(program, code))
    checked(nvrtc.nvrtcDestroyProgram(program))
    return status, log.decode(errors="replace"), code


def accesses(code):
    """Count the accesses to global memory of every kernel, by ("load" or "store", bytes).

    Instructions have 128 bits, whose lowest 12 are the opcode and whose bits 73 to 75 the size.
    """
    (table,) = struct.unpack_from("<Q", code, 0x28)
    entry, count, names = struct.unpack_from("<HHH", code, 0x3A)
    sections = [struct.unpack_from("<II16xQQ", code, table + at * entry) for at in range(count)]
    found = {}
    for name, _, offset, size in sections:
        start = sections[names][2] + name
        title = code[start : code.index(b"\0", start)].decode()
        if title.startswith(".text."):
            kernel = found[title.removeprefix(".text.")] = Counter()
            for low, high in struct.iter_unpack("<QQ", code[offset : offset + size]):
                kind = {0x981: "load", 0x986: "store"}.get(low & 0xFFF)
                if kind:
                    kernel[kind, (1, 1, 2, 2, 4, 8, 16)[high >> 9 & 7]] += 1
    return found


def check_combines(name, dtypes, architecture):
    """Also: vectors, of powers too, are read and written by one instruction each."""
    scheme = falcon.schemes.get(name)
    kernels = typed_kernels_of(scheme, dtypes)
    moved = {}
    for unit, read, written in kernels:
        moved[unit.name] = max(
            x.width * (x.program.n_inputs * read.itemsize + x.program.n_outputs * written.itemsize)
            for x in unit.fits
        )
    found = accesses(check([unit for unit, *_ in kernels], architecture, moved))
    for unit, read, written in kernels:
        counts, wanted = found[unit.name], Counter()
        for x in unit.fits:
            wanted["load", x.width * read.itemsize] += x.program.n_inputs
            wanted["store", x.width * written.itemsize] += x.program.n_outputs
        # Powers, at least once for a line of blocks; in Combine H for each block.
        factors = (scheme.m, scheme.n) if len(unit.fits) > 1 else (scheme.m * scheme.n,)
        for x, blocks in zip(unit.fits, factors, strict=True):
            nbytes = x.width * read.accumulator.itemsize
            wanted["load", min(nbytes, 16)] += -(-nbytes // 16) * blocks
        assert counts >= wanted, (unit.name, counts)


def check(some, architecture, moved=None):
    """Compile; `moved`: bytes that a thread of each kernel reads and writes, a tenth may spill."""
    status, log, code = compiled(sources.assemble(some), architecture)
    assert status == nvrtc.nvrtcResult.NVRTC_SUCCESS, log
    assert "warning" not in log, log
    reports = dict(
        re.findall(r"entry function '(\w+)'(.*?)(?=Compiling entry function|\Z)", log, re.S)
    )
    assert set(reports) == {unit.name for unit in some}
    for unit in some:
        report = reports[unit.name]
        spilled = re.findall(r"(\d+) bytes spill (?:stores|loads)", report)
        assert spilled
        most = max(MOST_SPILLED, (moved or {}).get(unit.name, 0) // 10)
        assert sum(map(int, spilled)) <= most, f"{unit.name} spills: {report}"
        used = int(re.search(r"Used (\d+) registers", report)[1])
        most = max((x.registers for x in unit.fits), default=65536 // 256 - 1)
        assert used <= most, f"{unit.name} takes {used} registers, {most} were planned"
        assert "smem" not in report, f"{unit.name} takes shared memory"
    return code


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", SOME)
def test_compiles(name, architecture):
    check_combines(name, CUDA, architecture)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", ["classical", *SOME])
def test_kernels_that_write_parts(name, architecture):
    """A vector of every part is written by one instruction."""
    classical = falcon.schemes.classical(1, 1, 1)
    scheme = classical if name == "classical" else falcon.schemes.get(name)
    rows = [x for x in BY_ARITHMETIC_ON_GPUS.values() if x.splits > 1]
    units = {sources.combine_in(scheme, row, x): row.splits for row in rows for x in (False, True)}
    moved = {
        unit.name: max(x.width * (4 * x.program.n_inputs + 2 * parts * x.program.n_outputs)
                       for x in unit.fits)
        for unit, parts in units.items()
    }  # fmt: skip
    found = accesses(check(list(units), architecture, moved))
    for unit, parts in units.items():
        for x in unit.fits:
            stores = found[unit.name]["store", 2 * x.width]
            assert stores >= parts * x.program.n_outputs, (unit.name, found[unit.name])


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_plain_kernels_compile(architecture):
    check(PLAIN, architecture)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_kernels_with_shared_memory(architecture):
    units = [sources.units(FLOAT32), sources.units(FLOAT64)]
    units += [sources.mirror(dtype) for dtype in CUDA]
    units += [sources.repair(dtype, out) for dtype in CUDA for out in CUDA]
    for unit in units:
        status, log, _ = compiled(sources.assemble([unit]), architecture)
        assert status == nvrtc.nvrtcResult.NVRTC_SUCCESS, log
        assert "warning" not in log, log
        assert re.findall(r"(\d+) bytes spill", log) == ["0", "0"]


@pytest.mark.parametrize("b_along", [False, True])
@pytest.mark.parametrize("a_along", [False, True])
def test_the_kernel_of_tensor_cores(a_along, b_along):
    """Nothing is spilled, and no product waits for the one before ("serialized")."""
    unit = sources.fused(a_along, b_along)
    status, log, _ = compiled(sources.assemble([unit]), "sm_90a")
    assert status == nvrtc.nvrtcResult.NVRTC_SUCCESS, log
    assert "warning" not in log and "serialized" not in log and "injected" not in log, log
    assert re.findall(r"(\d+) bytes spill", log) == ["0", "0"]
    assert int(re.search(r"Used (\d+) registers", log)[1]) * 384 <= 65536


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_whole_catalogue(name):
    """Each scheme for one architecture and one of the 16-bit types, which have the same plans.

    All four combinations take turns along the catalogue; `SOME` go through all of them.
    """
    number = OTHERS.index(name)
    architecture, half = ARCHITECTURES[number % 2], (FLOAT16, BFLOAT16)[number // 2 % 2]
    check_combines(name, [FLOAT32, FLOAT64, half], architecture)


def test_the_check_sees_warnings_and_errors():
    unit = sources.copy(FLOAT32, FLOAT32)
    text = sources.assemble([unit]) + "\n__device__ int f() { int x; return 1; }"
    status, log, _ = compiled(text, "sm_80")
    assert status == nvrtc.nvrtcResult.NVRTC_SUCCESS
    assert "warning" in log
    assert compiled("nonsense", "sm_80")[0] != nvrtc.nvrtcResult.NVRTC_SUCCESS
    assert THREADS == 128
