"""The table that setup.py builds the CPU backend from.

setuptools knows no per-file flags, so every entry of `ISAS` becomes one static
library (compiled with its own flags from its own file); `BASELINE` and the
Cython extension `_core.pyx` are compiled with baseline flags and the macros of
the instruction sets that were built in.  Standard library only: setup.py
imports this file by path.
"""

from __future__ import annotations

import platform
from typing import NamedTuple

X86 = ("x86_64", "amd64")
ARM64 = ("aarch64", "arm64")

#: -O3 unrolls the loops whose trip counts the template makes constant;
#: -ffp-contract=fast lets a*b + c become one instruction where there is one.
COMMON_FLAGS = ("-O3", "-std=gnu11", "-fvisibility=hidden", "-ffp-contract=fast", "-fno-math-errno")
OPENMP_FLAGS = ("-fopenmp",)
INCLUDE_DIR = "src"
AVX2_FLAGS = ("-mavx2", "-mfma", "-mf16c")
AVX512_FLAGS = ("-mavx512f", "-mavx512dq", "-mavx512bw", "-mavx512vl", "-mfma")


class Isa(NamedTuple):
    """One instruction set: its file, flags, macro and the machines it is for (empty: all)."""

    name: str
    sources: tuple[str, ...]
    flags: tuple[str, ...]
    macro: str | None
    machines: tuple[str, ...]


ISAS = (
    Isa("generic", ("src/kernels/generic.c",), (), None, ()),
    Isa("neon", ("src/kernels/neon.c",), (), "FALCON_HAVE_NEON", ARM64),
    Isa(
        "neon_dot",
        ("src/kernels/neon_dot.c",),
        ("-march=armv8.2-a+dotprod",),
        "FALCON_HAVE_NEON_DOT",
        ARM64,
    ),
    Isa(
        "neon_i8mm",
        ("src/kernels/neon_i8mm.c",),
        ("-march=armv8.2-a+i8mm",),
        "FALCON_HAVE_NEON_I8MM",
        ARM64,
    ),
    Isa(
        "neon_bf16",
        ("src/kernels/neon_bf16.c",),
        ("-march=armv8.2-a+bf16",),
        "FALCON_HAVE_NEON_BF16",
        ARM64,
    ),
    Isa("sve", ("src/kernels/sve.c",), ("-march=armv8.2-a+sve",), "FALCON_HAVE_SVE", ARM64),
    Isa("avx2", ("src/kernels/avx2.c",), AVX2_FLAGS, "FALCON_HAVE_AVX2", X86),
    Isa(
        "avx_vnni",
        ("src/kernels/avx_vnni.c",),
        (*AVX2_FLAGS, "-mavxvnni"),
        "FALCON_HAVE_AVX_VNNI",
        X86,
    ),
    Isa("avx512", ("src/kernels/avx512.c",), AVX512_FLAGS, "FALCON_HAVE_AVX512", X86),
    Isa(
        "avx512_vnni",
        ("src/kernels/avx512_vnni.c",),
        (*AVX512_FLAGS, "-mavx512vnni"),
        "FALCON_HAVE_AVX512_VNNI",
        X86,
    ),
    Isa(
        "avx512_bf16",
        ("src/kernels/avx512_bf16.c",),
        (*AVX512_FLAGS, "-mavx512bf16"),
        "FALCON_HAVE_AVX512_BF16",
        X86,
    ),
    Isa(
        "amx_int8",
        ("src/kernels/amx_int8.c",),
        (*AVX512_FLAGS, "-mavx512vnni", "-mamx-tile", "-mamx-int8"),
        "FALCON_HAVE_AMX_INT8",
        X86,
    ),
    Isa(
        "amx_bf16",
        ("src/kernels/amx_bf16.c", "src/kernels/amx_split.c"),
        (*AVX512_FLAGS, "-mavx512bf16", "-mamx-tile", "-mamx-bf16"),
        "FALCON_HAVE_AMX_BF16",
        X86,
    ),
)

#: The other C files, on floors: a file may use the symbols of files on lower floors, kernels use
#: none. A test checks the object files.
FLOORS = {
    "src/machine/clock.c": 0,
    "src/machine/amx.c": 0,
    "src/machine/cpuid.c": 1,
    "src/kernels/registry.c": 2,
    "src/engine/board.c": 1,
    "src/engine/team.c": 2,
    "src/engine/lend.c": 3,
    "src/engine/scheme.c": 2,
    "src/engine/scratch.c": 2,
    "src/engine/strided.c": 2,
    "src/engine/problem.c": 3,
    "src/engine/layout.c": 4,
    "src/engine/blocking.c": 5,
    "src/engine/combine.c": 5,
    "src/engine/triangle.c": 5,
    "src/engine/tiles.c": 6,
    "src/engine/gemv.c": 5,
    "src/engine/norms.c": 5,
    "src/engine/small.c": 7,
    "src/engine/driver.c": 8,
    "src/machine/peak.c": 8,
}

#: Compiled with baseline flags; need OPENMP_FLAGS.
BASELINE = tuple(FLOORS)

#: Changing any of these must rebuild everything.
HEADERS = (
    "src/falcon_cpu.h",
    "src/engine/engine.h",
    "src/engine/board.h",
    "src/engine/team.h",
    "src/kernels/kernel.h",
    "src/kernels/vec_x86.h",
    "src/kernels/vec_gcc.h",
    "src/kernels/vec_types.h",
    "src/kernels/kernel_impl.h",
    "src/kernels/vector_impl.h",
    "src/kernels/sve_impl.h",
    "src/kernels/block_impl.h",
    "src/kernels/tile_impl.h",
    "src/kernels/tile_amx.h",
    "src/kernels/split_impl.h",
    "src/kernels/norm_impl.h",
    "src/kernels/pack_impl.h",
    "src/kernels/parts_impl.h",
    "src/kernels/combine_impl.h",
    "src/kernels/c_impl.h",
    "src/kernels/operand_impl.h",
    "src/machine/machine.h",
)

CYTHON = "_core.pyx"


def isas_for(machine: str | None = None) -> tuple[Isa, ...]:
    """The instruction sets to build on `machine` (default: this one)."""
    machine = (machine or platform.machine()).lower()
    return tuple(i for i in ISAS if not i.machines or machine in i.machines)


def macros_for(machine: str | None = None) -> tuple[str, ...]:
    """Macros of `BASELINE` and the extension, where the compiler knows all flags."""
    return tuple(i.macro for i in isas_for(machine) if i.macro)
