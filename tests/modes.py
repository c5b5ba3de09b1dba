"""Modes of a thread's floating-point unit, as libraries of intervals and of audio leave them."""

import ctypes
import platform
import sys
from contextlib import contextmanager

import pytest

X86 = platform.machine() in ("x86_64", "AMD64")
# fesetround's numbers of all but "nearest".
DIRECTED = {"down": 0x400, "up": 0x800, "to zero": 0xC00}
if not X86:
    DIRECTED = {"up": 0x400000, "down": 0x800000, "to zero": 0xC00000}


@contextmanager
def kept():
    """Put back this thread's modes in the end; yields C's library and its fenv_t."""
    if sys.platform == "win32":
        pytest.skip("Windows has another interface")
    libc, modes = ctypes.CDLL(None), (ctypes.c_uint32 * 16)()
    assert libc.fegetenv(modes) == 0
    held = type(modes)(*modes)
    try:
        yield libc, modes
    finally:
        libc.fesetenv(held)


@contextmanager
def rounding(name):
    """Round in a direction."""
    with kept() as (libc, _):
        assert libc.fesetround(DIRECTED[name]) == 0
        yield


@contextmanager
def flushing():
    """Take subnormal numbers for 0."""
    if sys.platform != "linux":
        pytest.skip("the layout of fenv_t is that of Linux")
    with kept() as (libc, modes):
        modes[7 if X86 else 0] |= 0x8040 if X86 else 1 << 24  # MXCSR: DAZ, FTZ; FPCR: FZ
        assert libc.fesetenv(modes) == 0
        yield
