"""The table that setup.py builds the CPU backend from.

setuptools knows no per-file flags, so every entry of `ISAS` becomes one static
library (compiled with its own flags from its own file); `BASELINE` and the
Cython extension `_core.pyx` are compiled with baseline flags and the macros of
the instruction sets that were built in.  Standard library only: setup.py
imports this file by path.
"""

from __future__ import annotations

import platform
from pathlib import Path
from typing import NamedTuple

X86 = ("x86_64", "amd64")
ARM64 = ("aarch64", "arm64")

#: -O3 unrolls the loops whose trip counts the template makes constant;
#: -ffp-contract=fast lets a*b + c become one instruction where there is one.
COMMON_FLAGS = ("-O3", "-std=gnu11", "-fvisibility=hidden", "-ffp-contract=fast", "-fno-math-errno")
OPENMP_FLAGS = ("-fopenmp",)
INCLUDE_DIR = "src"
AVX2 = ("-mavx2", "-mfma", "-mf16c")
AVX512 = ("-mavx512f", "-mavx512dq", "-mavx512bw", "-mavx512vl", "-mfma")


class Isa(NamedTuple):
    """One instruction set: the machines it is for (empty: all), its flags, its further files."""

    name: str
    machines: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    more: tuple[str, ...] = ()

    @property
    def sources(self) -> tuple[str, ...]:
        """Its C files."""
        return tuple(f"src/kernels/{name}.c" for name in (self.name, *self.more))

    @property
    def macro(self) -> str | None:
        """What says that it was built in; the portable one always is."""
        return f"FALCON_HAVE_{self.name.upper()}" if self.machines else None


ISAS = (
    Isa("generic"),
    Isa("neon", ARM64),
    Isa("neon_dot", ARM64, ("-march=armv8.2-a+dotprod",)),
    Isa("neon_i8mm", ARM64, ("-march=armv8.2-a+i8mm",)),
    Isa("neon_bf16", ARM64, ("-march=armv8.2-a+bf16",)),
    Isa("avx2", X86, AVX2),
    Isa("avx_vnni", X86, (*AVX2, "-mavxvnni")),
    Isa("avx512", X86, AVX512),
    Isa("avx512_vnni", X86, (*AVX512, "-mavx512vnni")),
    Isa("avx512_bf16", X86, (*AVX512, "-mavx512bf16")),
    Isa("amx_int8", X86, (*AVX512, "-mavx512vnni", "-mamx-tile", "-mamx-int8")),
    Isa("amx_bf16", X86, (*AVX512, "-mavx512bf16", "-mamx-tile", "-mamx-bf16"), ("amx_split",)),
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
    "src/engine/peak.c": 5,
    "src/engine/small.c": 7,
    "src/engine/driver.c": 8,
}

#: Compiled with baseline flags, and OPENMP_FLAGS where the compiler knows them.
BASELINE = tuple(FLOORS)

#: Changing any of these must rebuild everything.
HERE = Path(__file__).parent
HEADERS = tuple(x.relative_to(HERE).as_posix() for x in sorted(HERE.glob("src/*/*.h")))
HEADERS += ("src/falcon_cpu.h",)

CYTHON = "_core.pyx"
CYTHON_PARTS = ("_capi.pxd", "_given.pxi")


def isas_for(machine: str | None = None) -> tuple[Isa, ...]:
    """The instruction sets to build on `machine` (default: this one)."""
    machine = (machine or platform.machine()).lower()
    return tuple(i for i in ISAS if not i.machines or machine in i.machines)
