"""A stand-in for the part of CuPy that `falcon._gpu.device` uses, on the CPU.

Kernels are compiled by a C++ compiler behind shim.h and run thread by thread; cuBLAS is in
fake_cublas.py. Errors that crash or corrupt memory on a GPU raise here: a pointer of another
device, an access outside of an allocation (guard zones), memory read before it was written (it is
NaN), arguments of a wrong size, an operation that a stream under capture does not allow.
`test_cupy.py` compares names and signatures with the real CuPy.
"""

import ctypes
import functools
import hashlib
import os
import shutil
import subprocess
import threading
import time
import types
from pathlib import Path

import numpy as np

from . import fake_driver

HERE = Path(__file__).parent
COMPILER = shutil.which("g++") or shutil.which("c++") or shutil.which("clang++")
# The compiler takes most of these tests' time, the kernels hardly any.
FLAGS = ["-std=c++17", "-O0", "-fPIC", "-shared", "-fno-strict-aliasing", "-ffp-contract=off", "-w"]
GUARD = 512
DEVICES = 2
HANDLE = 2**40 + 1
_FILLED, _LARGE = 2**24, 2**27  # bytes at either end of an allocation, from so many on


class State:
    """What a GPU's driver would know."""

    def __init__(self):
        self.device = 0
        self.allocations = []  # (address, bytes, device, memory)
        self.capturing = False
        self.launches = []  # names, in order
        self.products = []  # (sizes, batch, beta, compute type)
        self.handles = 0  # of cuBLAS, that were made
        self.current = 7  # stream
        self.stream = self.workspace = None  # of the handle
        self.timed = set()  # streams in which events were recorded
        self.allocated = 0
        self.room = None  # bytes that can be allocated at a time
        self.freed = 0  # what had been allocated when the pool was last emptied
        self.fills, self.waits = [], []  # bytes; (device, stream that waits, that of the event)
        # How tensor cores add up products of 16 bits: terms at a time, bits beyond float32; or not.
        self.truncates = None
        self.pinned = []  # memory of the host
        self.name, self.capability = b"Stand-in", (9, 0)

    def allocate(self, nbytes):
        if self.room is not None and nbytes > self.room:
            raise MemoryError("out of memory allocating")
        memory = np.zeros(nbytes + 2 * GUARD + 256, np.uint8)
        # Floats of it are NaN; pages inside of what is so large for cuBLAS alone are not touched.
        some = _FILLED if nbytes > _LARGE else len(memory)
        memory[:some] = memory[-some:] = 0xFF
        address = (memory.ctypes.data + GUARD + 255) // 256 * 256
        self.allocations.append((address, nbytes, self.device, memory))
        self.allocated += nbytes
        return address, memory

    def owner(self, pointer):
        if any(ctypes.addressof(x) <= pointer < ctypes.addressof(x) + len(x) for x in self.pinned):
            return self.device  # every device can reach it
        for address, nbytes, device, _ in self.allocations:
            if address - GUARD <= pointer < address + nbytes + GUARD:
                return device
        raise AssertionError(f"pointer {pointer:#x} is in no allocation")

    def check(self):
        """Whatever was written outside of an allocation has changed a guard zone."""
        for address, nbytes, _, memory in self.allocations:
            start = address - memory.ctypes.data
            for zone in (memory[:start], memory[start + nbytes :]):
                assert (zone == 0xFF).all(), "a kernel wrote outside of its memory"


STATE = State()


class MemoryPointer:
    def __init__(self, ptr, device_id):
        self.ptr, self.device_id = ptr, device_id


class ndarray:
    def __init__(self, host, device, keep):
        self._host, self._keep = host, keep
        self.device = types.SimpleNamespace(id=device)
        self.data = MemoryPointer(host.ctypes.data if host.size else 0, device)
        self.shape, self.strides, self.dtype = host.shape, host.strides, host.dtype

    nbytes = property(lambda self: self._host.nbytes)
    ndim = property(lambda self: self._host.ndim)
    T = property(lambda self: self._like(self._host.T))

    def _like(self, host):
        return ndarray(host, self.device.id, self._keep)

    def __getitem__(self, key):
        return self._like(self._host[key])

    def __setitem__(self, key, value):
        self._host[key] = value._host

    def __imul__(self, other):
        self._host *= getattr(other, "_host", other)
        return self

    def conj(self):
        return asarray(self._host.conj())

    def swapaxes(self, axis1, axis2):
        return self._like(self._host.swapaxes(axis1, axis2))

    def transpose(self, *axes):
        return self._like(self._host.transpose(*axes))

    def view(self, dtype):
        return self._like(self._host.view(dtype))

    def astype(self, dtype, *, copy=True):
        return self if not copy and dtype == self.dtype else asarray(self._host, dtype)

    def reshape(self, *shape):
        host = self._host.reshape(*shape)
        shared = host.size == 0 or np.shares_memory(host, self._host)
        return self._like(host) if shared else asarray(host)

    def __reduce__(self):
        return asarray, (self._host,)

    def __dlpack_device__(self):
        return 2, self.device.id

    def __array__(self, *_, **__):
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")


ndarray.__module__ = "cupy"


def empty(shape, dtype=float, order="C"):
    dtype = np.dtype(dtype)
    address, memory = STATE.allocate(int(np.prod(shape)) * dtype.itemsize)
    start = address - memory.ctypes.data
    flat = memory[start : start + int(np.prod(shape)) * dtype.itemsize].view(dtype)
    return ndarray(flat.reshape(shape, order=order), STATE.device, memory)


def asarray(a, dtype=None, order=None, *, copy=None, blocking=False):
    assert not STATE.capturing, "a copy from the host cannot be captured"
    made = empty(a.shape, dtype or a.dtype)
    made._host[...] = a
    return made


def asnumpy(a, stream=None, order="C", out=None, *, blocking=True):
    return a._host.copy()


def alloc_pinned_memory(size):
    assert not STATE.capturing, "memory of the host cannot be allocated during capture"
    kind = type("PinnedMemoryPointer", (ctypes.c_char * size,), {"ptr": property(ctypes.addressof)})
    STATE.pinned.append(kind.from_buffer_copy(b"\xff" * size))
    return STATE.pinned[-1]


def broadcast_to(array, shape):
    return array._like(np.broadcast_to(array._host, shape))


def einsum(*operands, **kwargs):
    return asarray(np.einsum(operands[0], *(x._host for x in operands[1:])))


class RawModule:
    def __init__(self, code=None, *, path=None, options=(), backend="nvrtc", **_):
        assert not STATE.capturing, "a module cannot be loaded during capture"
        self.code = code

    def get_function(self, name):
        kernel = compiled(self.code, name)

        def call(grid, block, args, *, shared_mem=0):
            STATE.launches.append(name)
            allowed = getattr(call, "max_dynamic_shared_size_bytes", 48 * 2**10)
            assert shared_mem <= min(allowed, 227 * 2**10)
            for x in args:  # addresses are the only integers of that size
                if isinstance(x, int) and x > 2**40:
                    assert STATE.owner(x) == STATE.device, "a pointer of another device"
            with fake_driver.RUNS:
                if shared_mem:
                    fake_driver.prepare(kernel, shared_mem, STATE.truncates)
                launch(kernel, grid, block, args)

        fake_driver.KERNELS[id(call)] = name, kernel, call
        call.kernel = types.SimpleNamespace(ptr=id(call))
        return call


def launch(kernel, grid, block, args, first=0):
    values = [_value(x) for x in args]
    pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(x) for x in values))
    sizes = (ctypes.c_size_t * len(values))(*(ctypes.sizeof(x) for x in values))
    triples = [(ctypes.c_uint * 3)(*x) for x in ((first, 0, 0), grid, block)]
    status = kernel(*triples, pointers, sizes, ctypes.c_size_t(len(values)))
    assert status == 0, f"argument {status - 1} has the wrong size, or (-2) their number is wrong"


def _value(x):
    """As CuPy passes arguments: Python integers with 64 bits, NumPy scalars as they are."""
    if isinstance(x, np.generic) or (isinstance(x, np.ndarray) and x.size == 1):
        return (ctypes.c_char * x.itemsize).from_buffer_copy(x.tobytes())
    assert type(x) is int, f"{x!r} cannot be passed to a kernel"
    return ctypes.c_int64(x)


# Where compiled kernels are kept: the fixture `built`.
FOLDER = None


@functools.cache
def compiled(source, name):
    """The launcher of a kernel."""
    waits, is_fused = "__syncthreads" in source, "namespace fused" in source
    files = ["shim.h", *["shim_fibers.h"] * waits, *["shim_fused.h"] * is_fused, "shim_end.h"]
    *before, behind = (HERE.joinpath(x).read_text() for x in files)
    text = "\n".join([*before, source, behind, f"FALCON_LAUNCH({name})\n"])
    path = FOLDER / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.so"
    if not path.exists():
        fresh = path.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
        command = [
            COMPILER,
            *FLAGS,
            *["-O2", "-DFALCON_FIBERS"] * waits,
            "-x",
            "c++",
            "-o",
            str(fresh),
            "-",
        ]
        done = subprocess.run(command, input=text, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        fresh.replace(path)
    library = ctypes.CDLL(str(path))
    entry = getattr(library, f"launch_{name}")
    entry.library = library
    return entry


# --- cupy.cuda -------------------------------------------------------------------------------


class Device:
    def __init__(self, device=None):
        self.id = STATE.device if device is None else device

    def __enter__(self):
        self._before, STATE.device = STATE.device, self.id
        return self

    def __exit__(self, *_):
        STATE.device = self._before


class Stream:
    def __init__(self):
        self.ptr = STATE.current

    @classmethod
    def from_external(cls, obj):
        made = cls()
        made.ptr = obj.__cuda_stream__()[1]
        return made

    def is_capturing(self):
        return STATE.capturing

    def wait_event(self, event):
        STATE.waits.append((STATE.device, self.ptr, event.stream))

    def __enter__(self):
        self._before = [*getattr(self, "_before", []), STATE.current]
        STATE.current = self.ptr
        return self

    def __exit__(self, *_):
        STATE.current = self._before.pop()


class Event:
    def __init__(self, block=False, disable_timing=False, interprocess=False):
        pass

    def record(self, stream=None):
        self.at, self.stream = time.perf_counter(), stream.ptr
        STATE.timed.add(stream.ptr)

    def synchronize(self):
        assert not STATE.capturing, "waiting is not allowed during capture"


def memset_async(ptr, value, size, stream):
    assert STATE.owner(ptr) == STATE.owner(ptr + size - 1) == STATE.device
    STATE.fills.append(size)
    ctypes.memset(ptr, value, size)


def memcpy_async(dst, src, size, kind, stream):
    assert {STATE.owner(dst), STATE.owner(src)} == {STATE.device}
    assert kind == 3
    ctypes.memmove(dst, src, size)


def properties(device):
    return {"name": STATE.name, "major": STATE.capability[0],
            "minor": STATE.capability[1], "multiProcessorCount": 8,
            "l2CacheSize": 2**20, "totalGlobalMem": 2**38}  # fmt: skip


def modules():
    """Return what to put into sys.modules."""
    cupy = types.ModuleType("cupy")
    cupy.__version__ = "14.2.0"
    for thing in (ndarray, empty, asarray, asnumpy, broadcast_to, einsum, RawModule):
        setattr(cupy, thing.__name__, thing)
    runtime = types.SimpleNamespace(
        getDeviceCount=lambda: DEVICES,
        getDevice=lambda: STATE.device,
        setDevice=lambda device: setattr(STATE, "device", device),
        getDeviceProperties=properties,
        driverGetVersion=lambda: 13000,
        runtimeGetVersion=lambda: 13000,
        memsetAsync=memset_async,
        deviceSynchronize=lambda: None,
        memGetInfo=lambda: (2**38 if STATE.room is None else STATE.room, 2**38),
        memcpyAsync=memcpy_async,
        memcpyDeviceToDevice=3,
    )
    pool = types.SimpleNamespace(free_all_blocks=lambda: setattr(STATE, "freed", STATE.allocated))
    cupy.get_default_memory_pool = lambda: pool
    cupy.cuda = types.SimpleNamespace(
        runtime=runtime,
        Device=Device,
        Stream=Stream,
        Event=Event,
        alloc_pinned_memory=alloc_pinned_memory,
        set_allocator=None,
        set_pinned_memory_allocator=None,
        get_current_stream=lambda device_id=-1: Stream(),
        get_elapsed_time=lambda start, end: (end.at - start.at) * 1e3,
    )
    cublas = types.ModuleType("cupy_backends.cuda.libs.cublas")
    cublas.CUBLAS_COMPUTE_32F, cublas.CUBLAS_COMPUTE_32F_FAST_TF32 = 68, 77
    cublas.CUBLAS_COMPUTE_64F = 70
    cublas.CUBLAS_GEMM_DEFAULT = -1
    packages = ("cupy_backends", "cupy_backends.cuda", "cupy_backends.cuda.libs")
    found = {name: types.ModuleType(name) for name in packages}
    found["cupy_backends.cuda.libs"].cublas = cublas
    return {"cupy": cupy, "cupy_backends.cuda.libs.cublas": cublas, **found}
