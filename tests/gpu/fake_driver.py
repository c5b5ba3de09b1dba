"""A stand-in for CUDA's driver: launches, and the maps of a Hopper GPU.

The kernel that reads maps runs behind shim_fused.h, in tests that take the fixture `fused`.
"""

import ctypes
import threading
import types

import numpy as np

# Whether no load of the tensor memory accelerator ends.
LOSES = 0


# By handle: name, what runs it, and what CuPy's stand-in launches.
KERNELS = {}
# Held while a kernel runs: fibers and shared memory are one for all threads.
RUNS = threading.Lock()
# What the next launches return, instead of doing anything.
STATUS = []


def load():
    return types.SimpleNamespace(
        cuTensorMapEncodeTiled=cuTensorMapEncodeTiled, cuLaunchKernel=cuLaunchKernel
    )


def cuLaunchKernel(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ,
                   sharedMemBytes, hStream, kernelParams, extra):  # fmt: skip
    """Run a kernel; neither the number of its arguments nor their sizes are known."""
    from .fake_cupy import STATE

    if STATUS:
        return STATUS.pop()
    name, kernel, call = KERNELS[f.value]
    assert (hStream.value or 0) == STATE.current, "a launch in another stream than the current one"
    assert sharedMemBytes <= getattr(call, "max_dynamic_shared_size_bytes", 48 * 2**10)
    STATE.launches.append(name)
    grid, block = (gridDimX, gridDimY, gridDimZ), (blockDimX, blockDimY, blockDimZ)
    triples = [(ctypes.c_uint * 3)(*x) for x in ((0, 0, 0), grid, block)]
    with RUNS:
        if sharedMemBytes:
            prepare(kernel, sharedMemBytes, STATE.truncates)
        return kernel(*triples, kernelParams, None, ctypes.c_size_t(0))


def cuTensorMapEncodeTiled(tensorMap, tensorDataType, tensorRank, globalAddress, globalDim,
                           globalStrides, boxDim, elementStrides, interleave, swizzle,
                           l2Promotion, oobFill):  # fmt: skip
    """Check what CUDA's documentation asks, and write what shim_fused.h reads."""
    from .fake_cupy import STATE

    sizes, strides, box = list(globalDim), list(globalStrides), list(boxDim)
    good = tensorMap.value % 64 == 0 and globalAddress.value % 16 == 0
    good &= (tensorDataType, tensorRank, interleave, swizzle, oobFill) == (6, 4, 0, 3, 0)
    good &= all(0 < x <= 2**32 for x in sizes) and all(0 < x <= 256 for x in box)
    good &= all(x % 16 == 0 and 0 < x < 2**40 for x in strides) and box[0] * 2 == 128
    good &= list(elementStrides) == [1] * 4 and l2Promotion in range(4)
    if not good:
        return 1  # CUDA_ERROR_INVALID_VALUE
    assert STATE.owner(globalAddress.value) == STATE.device
    words = np.array([globalAddress.value, *sizes, *strides, *box, 0, 0, 0, 0], np.uint64)
    ctypes.memmove(tensorMap.value, words.ctypes.data, 128)
    return 0


def prepare(kernel, shared_bytes, truncates):
    """Tell a kernel how much shared memory it has, and how tensor cores add up."""
    terms, bits = truncates or (0, 0)
    for name, value in (
        *(("shared_bytes", shared_bytes), ("terms", terms), ("bits", bits)),
        ("loses", LOSES),
    ):
        ctypes.c_int.in_dll(kernel.library, f"falcon_{name}").value = value
