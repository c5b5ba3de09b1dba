"""AMX and NEON's matrix instructions without the hardware: kernels that are compiled here.

They are put in the engine's table of kernels. "emulated" are the AMX kernels' template over tiles
in plain C, and "blocks" that of NEON's matrix instructions, for every machine; "trapped" the real
AMX kernels, whose tile instructions trap and are then emulated, for machines with AVX-512
otherwise.
"""

import ctypes
import subprocess
from contextlib import contextmanager

import pytest

from .support import SOURCES
from .test_c_driver import (
    BLOCKS,
    COMPILER,
    EMULATED,
    TRAPS,
    require_compiler,
    table,
)

# Types -> the instruction set in whose place their kernels are put.
_BYTES = "i8", "u8", "u8i8", "i8u8"
KERNELS = {"bf16": "amx_bf16", **dict.fromkeys(_BYTES, "amx_int8")}
# float32 in parts, by tiles: in test_arithmetic.py.
_SPLIT = {"f32x6": "amx_bf16", "f32x3": "amx_bf16"}
_NEON = {"bf16": "neon_bf16", **dict.fromkeys(_BYTES, "neon_i8mm")}
KINDS = {"emulated": KERNELS, "trapped": KERNELS, "blocks": _NEON}
_NAMES = {
    "emulated": "falcon_kernel_emulated_{}",
    "trapped": "falcon_kernel_{1}_{0}",
    "blocks": "falcon_kernel_blocks_{}",
}


def libraries(folder):
    """Compile the kernels; return the path of each kind that can run here."""
    require_compiler()
    flags = ["-std=gnu11", "-Wno-psabi", "-fPIC", "-I", SOURCES / "src"]
    parts = {"emulated": {EMULATED: ["-Og"]}, "blocks": {BLOCKS: ["-Og"]}}
    if why_not_trapped() is None:
        real = [x for x in table().ISAS if x.name in KERNELS.values()]
        parts["trapped"] = {SOURCES / x.sources[0]: ["-O3", *x.flags] for x in real}
        parts["trapped"][TRAPS] = ["-O2"]
    found = {}
    for kind, sources in parts.items():
        if (folder / f"{kind}.so").exists():  # by another worker of this run
            found[kind] = folder / f"{kind}.so"
            continue
        objects = [folder / f"{kind}-{source.stem}.o" for source in sources]
        for (source, more), made in zip(sources.items(), objects, strict=True):
            command = [COMPILER, *flags, *more, "-c", source, "-o", made]
            subprocess.run(command, check=True, timeout=300)
        found[kind] = folder / f"{kind}.so"
        command = [COMPILER, "-shared", *objects, "-lm", "-o", found[kind]]
        subprocess.run(command, check=True, timeout=300)
    return found


def why_not_trapped():
    """Return None if this CPU runs the AMX kernels except for their tile instructions."""
    from falcon._cpu import _core

    here = _core.supported_isas()
    if set(KERNELS.values()) & set(here):
        return "this machine has AMX itself"
    if not {"avx512_bf16", "avx512_vnni"} <= set(here):
        return "this machine lacks AVX512_BF16 or AVX512_VNNI, which AMX's kernels need too"
    return None


def put(path, kind="emulated"):
    """Use these kernels in this process from now on; return the library."""
    from falcon._cpu import _core

    loaded = ctypes.CDLL(str(path))
    for dtype, isa in KINDS[kind].items():
        kernel = ctypes.c_char.in_dll(loaded, _NAMES[kind].format(dtype, isa))
        _core.put_kernel(isa, dtype, ctypes.addressof(kernel))
    for dtype, isa in _SPLIT.items() if kind == "emulated" else ():
        kernel = ctypes.c_char.in_dll(loaded, f"falcon_kernel_emulated_{dtype[3:]}_f32")
        _core.put_kernel(isa, dtype, ctypes.addressof(kernel))
    return loaded


@contextmanager
def kernels(paths, kind):
    """Use these kernels within the context; yields the instruction set to request."""
    from falcon._cpu import _core

    if kind not in paths:
        pytest.skip(why_not_trapped())
    loaded = put(paths[kind], kind)
    if kind == "trapped":
        loaded.trap_tiles()
    try:
        yield KINDS[kind]["bf16"]  # the better one
    finally:
        if kind == "trapped":
            loaded.untrap_tiles()
        for dtype, isa in {**KINDS[kind], **_SPLIT}.items():
            _core.put_kernel(isa, dtype, 0)
