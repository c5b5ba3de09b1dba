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


BYTES = ("i8", "u8", "u8i8", "i8u8")
BFLOAT16 = ("bf16", "f32bf16", "f64bf16")
ALL = ("f32", "f64", "f16", "bf16", *BYTES, "i16", "i32", "i64", "i64f64", "f64f32", "f32f64")


class Isa(NamedTuple):
    """One instruction set and its kernels."""

    name: str
    types: tuple[str, ...]  # that it has kernels for: `DType.engine`
    machines: tuple[str, ...] = ()  # that it is for; empty: all
    flags: tuple[str, ...] = ()
    more: tuple[str, ...] = ()  # further files

    @property
    def sources(self) -> tuple[str, ...]:
        """Its C files."""
        return tuple(f"src/kernels/{name}.c" for name in (self.name, *self.more))


TILES = "-mamx-tile"
#: A type runs on the last of those that run here and have a kernel for it.
ISAS = (
    Isa("generic", ALL),
    Isa("neon", ALL, ARM64),
    Isa("neon_dot", BYTES, ARM64, ("-march=armv8.2-a+dotprod",)),
    Isa("neon_i8mm", BYTES, ARM64, ("-march=armv8.2-a+i8mm",)),
    Isa("neon_bf16", BFLOAT16, ARM64, ("-march=armv8.2-a+bf16",)),
    Isa("avx2", ALL, X86, AVX2),
    Isa("avx_vnni", (*BYTES, "i16"), X86, (*AVX2, "-mavxvnni")),
    Isa("avx512", ALL, X86, AVX512),
    Isa("avx512_vnni", (*BYTES, "i16"), X86, (*AVX512, "-mavx512vnni")),
    Isa("avx512_bf16", BFLOAT16, X86, (*AVX512, "-mavx512bf16")),
    Isa("amx_int8", BYTES, X86, (*AVX512, "-mavx512vnni", TILES, "-mamx-int8")),
    Isa(
        *("amx_bf16", (*BFLOAT16, "f32x6", "f32x3"), X86),
        (*AVX512, "-mavx512bf16", TILES, "-mamx-bf16"),
        ("amx_split",),
    ),
)
#: Schemes whose sums of A and B are compiled: those that are chosen most where vectors have 64
#: bytes; kernels say how many of the programs they take (CODED). Others are interpreted.
CODED = ("strassen", "winograd", "3M", "3M strassen", "3M winograd", "2x4x4:26", "4x2x4:26",
         "4x4x2:26", "3x3x2:15", "3x4x6:54", "3x6x4:54", "4x3x6:54", "4x6x3:54", "6x3x4:54",
         "6x4x3:54")  # fmt: skip
CODES = "falcon_codes.h"
#: The operations of a scheme's programs; codegen's `Op` has these names, all but "store".
OPCODES = ("add", "sub", "scale", "store")
TABLES = "falcon_tables.h"


def tables(types: tuple[str, ...], built: tuple[Isa, ...]) -> str:
    """Return the text of the C header of the tables.

    `types`: the engine's names in `falcon/_core/dtypes.py`.
    `built`: the instruction sets whose kernels are linked.
    """
    isas = [x.name for x in ISAS]
    lines = ["/* Written by sources.py, from its tables and that of falcon/_core/dtypes.py. */"]
    for name, words in (("isa", isas), ("dtype", types), ("opcode", OPCODES)):
        prefix = "OP_" if name == "opcode" else ""
        members = ", ".join(f"FALCON_{prefix}{x.upper()}" for x in words)
        lines.append(f"enum falcon_{name} {{ {members}, FALCON_N_{name.upper()} }};")
        quoted = ", ".join(f'"{x}"' for x in words)
        lines.append(f"#define FALCON_{name.upper()}_NAMES {{ {quoted} }}")
    kernels = [(x.name, dtype) for x in built for dtype in x.types]
    entries = " ".join(f"X({x.upper()}, {y.upper()}, {x}, {y})" for x, y in kernels)
    lines.append(f"#define FALCON_KERNELS(X) {entries}")
    return "\n".join(lines) + "\n"


#: The other C files, on floors: a file may use the symbols of files on lower floors, kernels use
#: none. A test checks the object files.
FLOORS = {
    "src/machine/clock.c": 0,
    "src/machine/amx.c": 0,
    "src/machine/cpuid.c": 1,
    "src/kernels/registry.c": 2,
    "src/engine/board.c": 1,
    "src/engine/guests.c": 2,
    "src/engine/team.c": 3,
    "src/engine/lend.c": 4,
    "src/engine/scheme.c": 2,
    "src/engine/scratch.c": 2,
    "src/engine/strided.c": 2,
    "src/engine/direct.c": 4,
    "src/engine/problem.c": 5,
    "src/engine/layout.c": 6,
    "src/engine/blocking.c": 7,
    "src/engine/combine.c": 7,
    "src/engine/triangle.c": 6,
    "src/engine/tiles.c": 8,
    "src/engine/gemv.c": 6,
    "src/engine/norms.c": 6,
    "src/engine/plain.c": 7,
    "src/engine/peak.c": 6,
    "src/engine/modulo.c": 6,
    "src/engine/quantise.c": 6,
    "src/engine/small.c": 9,
    "src/engine/driver.c": 10,
    "src/engine/batch.c": 11,
}

#: Compiled with baseline flags, and OPENMP_FLAGS where the compiler knows them.
BASELINE = tuple(FLOORS)

HERE = Path(__file__).parent
HEADERS = tuple(x.relative_to(HERE).as_posix() for x in sorted(HERE.glob("src/**/*.h")))

CYTHON = "_core.pyx"
#: Changing any of these, CYTHON or BASELINE builds the extension again.
_PARTS = "given", "layout", "modulo", "norms", "quantise", "small"
DEPENDS = ("sources.py", "_capi.pxd", *(f"_{x}.pxi" for x in _PARTS))
DEPENDS += HEADERS
DEPENDS += tuple(name for isa in ISAS for name in isa.sources)


def isas_for(machine: str | None = None) -> tuple[Isa, ...]:
    """The instruction sets to build on `machine` (default: this one)."""
    machine = (machine or platform.machine()).lower()
    return tuple(i for i in ISAS if not i.machines or machine in i.machines)
