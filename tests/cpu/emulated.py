"""AMX and NEON's matrix instructions without the hardware: kernels that are compiled here.

They are put in the engine's table of kernels. "emulated" are the AMX kernels' template over tiles
in plain C, and "blocks" that of NEON's matrix instructions, for every machine; "trapped" the real
AMX kernels, whose tile instructions trap and are then emulated, for machines with AVX-512
otherwise. These run in processes of their own (`run_trapped`), which Linux gives no tiles.
"""

import ctypes
import os
import platform
import subprocess
import sys
from contextlib import contextmanager

import pytest

from ..support import HANG
from .support import ROOT, SOURCES
from .test_c_driver import (
    BLOCKS,
    COMPILER,
    EMULATED,
    TRAPS,
    require_compiler,
    table,
    write_headers,
)

# Types -> the instruction set in whose place their kernels are put.
_BYTES = "i8", "u8", "u8i8", "i8u8"
_BF16 = "bf16", "f32bf16", "f64bf16"
KERNELS = {**dict.fromkeys(_BF16, "amx_bf16"), **dict.fromkeys(_BYTES, "amx_int8")}
# float32 in parts, by tiles: in test_arithmetic.py.
_SPLIT = {"f32x6": "amx_bf16", "f32x3": "amx_bf16"}
_NEON = {**dict.fromkeys(_BF16, "neon_bf16"), **dict.fromkeys(_BYTES, "neon_i8mm")}
KINDS = {"emulated": KERNELS, "trapped": KERNELS, "blocks": _NEON}
# The libraries' folder, in a process whose tile instructions trap.
TRAPPED = os.environ.get("FALCON_TESTS_TRAPPED")
USED = ("trapped",) if TRAPPED else ("emulated", "blocks")
# Runs pytest where Linux refuses tile registers, because a thread's signal stack is too small for
# them; made before NumPy is imported, whose BLAS may ask for them too.
_GRANTED = 77
_REFUSED = f"""
import ctypes, sys
class Stack(ctypes.Structure):
    _fields_ = ("at", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t)
memory = ctypes.create_string_buffer(2048)
ctypes.CDLL(None).sigaltstack(ctypes.byref(Stack(ctypes.addressof(memory), 0, 2048)), None)
from falcon._cpu import _core
if {{"amx_bf16", "amx_int8"}} & {{*_core.supported_isas()}}:
    print("AMX's instructions do not trap: this Linux grants tiles to a small signal stack")
    sys.exit({_GRANTED})
import pytest
sys.exit(pytest.main(sys.argv[1:]))
"""
_NAMES = {
    "emulated": "falcon_kernel_emulated_{}",
    "trapped": "falcon_kernel_{1}_{0}",
    "blocks": "falcon_kernel_blocks_{}",
}


def libraries(folder):
    """Compile the kernels; return the path of each kind."""
    require_compiler()
    flags = ["-std=gnu11", "-Wno-psabi", "-fPIC", "-I", SOURCES / "src", "-I", folder]
    write_headers(folder, table().isas_for())
    parts = {"emulated": {EMULATED: ["-Og"]}, "blocks": {BLOCKS: ["-Og"]}}
    real = [x for x in table().isas_for() if x.name in KERNELS.values()]
    if real and platform.system() == "Linux":
        parts["trapped"] = {SOURCES / c: ["-O1", *x.flags] for x in real for c in x.sources}
        parts["trapped"][TRAPS] = ["-O2"]
    found = {}
    for kind, sources in parts.items():
        if (folder / f"{kind}.so").exists():  # by another worker of this run
            found[kind] = folder / f"{kind}.so"
            continue
        objects = [folder / f"{kind}-{source.stem}.o" for source in sources]
        for (source, more), made in zip(sources.items(), objects, strict=True):
            command = [COMPILER, *flags, *more, "-c", source, "-o", made]
            subprocess.run(command, check=True, timeout=HANG)
        found[kind] = folder / f"{kind}.so"
        command = [COMPILER, "-shared", *objects, "-lm", "-o", found[kind]]
        subprocess.run(command, check=True, timeout=HANG)
    return found


def run_trapped(folder, *arguments):
    """Run pytest where tile instructions trap; it must succeed."""
    from falcon._cpu import _core

    if not {"avx512_bf16", "avx512_vnni"} <= set(_core.supported_isas()):
        pytest.skip("this machine lacks AVX512_BF16 or AVX512_VNNI, which AMX's kernels need too")
    given = {**os.environ, "FALCON_TESTS_TRAPPED": str(folder), "PYTHONPATH": str(ROOT)}
    given.pop("PYTEST_ADDOPTS", None)  # such as the name of a report
    options = ["-sv", "-p", "no:faulthandler", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-u", "-c", _REFUSED, *options, *arguments],
        env=given, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        timeout=HANG,
    )  # fmt: skip
    if done.returncode == _GRANTED:
        pytest.skip(done.stdout)
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout[-4000:]}"


def put(path, kind="emulated"):
    """Use these kernels in this process from now on; return the library."""
    from falcon._cpu import _core

    loaded = ctypes.CDLL(str(path))
    for dtype, isa in KINDS[kind].items():
        kernel = ctypes.c_char.in_dll(loaded, _NAMES[kind].format(dtype, isa))
        _core.put_kernel(isa, dtype, ctypes.addressof(kernel))
    for dtype, isa in _SPLIT.items() if KINDS[kind] is KERNELS else ():
        name = f"amx_bf16_{dtype}" if kind == "trapped" else f"emulated_{dtype[3:]}_f32"
        kernel = ctypes.c_char.in_dll(loaded, f"falcon_kernel_{name}")
        _core.put_kernel(isa, dtype, ctypes.addressof(kernel))
    return loaded


@contextmanager
def kernels(paths, kind):
    """Use these kernels within the context; yields the instruction set to request."""
    from falcon._cpu import _core

    loaded = put(paths[kind], kind)
    if kind == "trapped":
        loaded.trap_tiles()
    try:
        yield KINDS[kind]["bf16"]  # the better one
    finally:
        for dtype, isa in {**KINDS[kind], **_SPLIT}.items():
            _core.put_kernel(isa, dtype, 0)
