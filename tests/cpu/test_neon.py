"""The kernels for NEON, cross-compiled for aarch64 and executed by emulation.

On one thread: QEMU 7.2 aborts now and then where several threads start threads at once.

The C library's driver is the same as in test_c_driver.py; few cases, because every instruction is
emulated.
"""

import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from ..support import HANG, alone
from .support import SOURCES
from .test_c_driver import DRIVER, build, run

COMPILER = shutil.which("aarch64-linux-gnu-gcc")
EMULATOR = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")
LIBRARIES = Path("/usr/aarch64-linux-gnu")


@pytest.fixture(scope="module")
def program(built):
    if platform.machine() in ("aarch64", "arm64"):
        pytest.skip("this machine has NEON itself: test_kernels.py runs it")
    if not (SOURCES / "src").exists():
        pytest.skip("the C sources are not part of this installation")
    if COMPILER is None or EMULATOR is None:
        missing = "aarch64-linux-gnu-gcc" if COMPILER is None else "qemu-aarch64"
        pytest.skip(f"{missing} is not installed (Debian: gcc-aarch64-linux-gnu, qemu-user)")
    flags = ["-O2", "-ffp-contract=fast"]
    folder = built / "neon"
    with alone(folder):
        made = folder / DRIVER.stem
        return made if made.exists() else build(folder, COMPILER, flags, "aarch64")


@pytest.mark.parametrize("isa", ["neon", "neon_dot", "neon_i8mm", "neon_bf16"])
def test_kernels_under_emulation(program, isa):
    words = run([EMULATOR, "-L", str(LIBRARIES), str(program), "4", isa, "alone"])
    assert f"{isa}: " in words
    compared = {"neon_i8mm": ("i8", "u8"), "neon_bf16": ("bf16",)}.get(isa, ())
    assert all(f"blocks_{x}_ukr_8x12 has the bits of {isa}" in words for x in compared)


def test_the_neon_kernels_use_fused_multiply_add(program):
    """The kernels are fast only if a * b + c contracts to fmla, by element or vector."""
    tool = shutil.which("aarch64-linux-gnu-objdump")
    if tool is None:
        pytest.skip("aarch64-linux-gnu-objdump is not installed")
    done = subprocess.run(
        [tool, "-d", "--no-show-raw-insn", str(program.parent / "neon.o")],
        capture_output=True,
        text=True,
        check=True,
        timeout=HANG,
    )
    assert done.stdout.count("fmla\tv") > 100
