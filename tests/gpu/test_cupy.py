"""The stand-in offers what the real CuPy offers: names, signatures, constants. Needs no GPU."""

import importlib.util
import inspect
import re
from pathlib import Path

import pytest

from falcon._core.dtypes import BY_ARITHMETIC_ON_GPUS, CUDA

from . import fake_cupy
from .support import CUPYS

cupy = pytest.importorskip("cupy", reason="needs the extra gpu-check (CuPy)")

# What falcon._gpu.device calls, as CuPy documents it in the first line of a docstring.
DOCUMENTED = {
    "cuda.runtime.memsetAsync": ("ptr", "value", "size", "stream"),
    "cuda.runtime.memcpyAsync": ("dst", "src", "size", "kind", "stream"),
    "cuda.runtime.getDeviceProperties": ("device",),
    "cuda.runtime.driverGetVersion": (),
    "cuda.runtime.runtimeGetVersion": (),
    "cuda.runtime.deviceSynchronize": (),
    "cuda.alloc_pinned_memory": ("size",),
    "cuda.get_current_stream": ("device_id",),
    "cuda.get_elapsed_time": ("start_event", "end_event"),
    "cuda.Event.record": ("self", "stream"),
    "cuda.runtime.memGetInfo": (),
}
PYTHON = ("empty", "asarray", "asnumpy", "broadcast_to", "einsum")


def parameters(line):
    """Parameter names of a signature such as ``f(int x, *, y=None) -> z``."""
    inside = re.search(r"\((.*)\)", line)[1]
    parts = [x.split("=")[0].split()[-1] for x in inside.split(",") if x.strip() not in ("", "*")]
    return tuple(parts)


def found(name):
    thing = cupy
    for part in name.split("."):
        thing = getattr(thing, part)
    return thing


@pytest.mark.parametrize("name", DOCUMENTED)
def test_documented_signatures(name):
    first = found(name).__doc__.strip().splitlines()[0]
    assert parameters(first) == DOCUMENTED[name]


@pytest.mark.parametrize("name", PYTHON)
def test_python_signatures(name):
    real = list(inspect.signature(getattr(cupy, name)).parameters)
    fake = list(inspect.signature(getattr(fake_cupy, name)).parameters)
    assert real[: len(fake)] == fake


def test_names():
    stand_in = fake_cupy.modules()["cupy"]
    names = [x for x in vars(stand_in) if not x.startswith("_") and x != "cuda"]
    names += [f"cuda.{x}" for x in vars(stand_in.cuda)]
    names += [f"cuda.runtime.{x}" for x in vars(stand_in.cuda.runtime)]
    names += ["cuda.Stream.is_capturing", "cuda.Stream.from_external", "cuda.Event.synchronize"]
    names += ["cuda.MemoryPointer.device_id", "RawModule.get_function"]
    for name in names:
        assert found(name) is not None, name
    assert "code" in cupy.RawModule.__doc__.splitlines()[0]
    assert "options" in cupy.RawModule.__doc__.splitlines()[0]
    assert "grid, block, args" in cupy.RawKernel.__call__.__doc__
    assert "shared_mem" in cupy.RawKernel.__call__.__doc__
    for name in ("RawKernel.max_dynamic_shared_size_bytes", "RawKernel.kernel",
                 "cuda.function.Function.ptr"):  # fmt: skip
        assert found(name) is not None, name


def test_data_types():
    runtime = cupy.cuda.runtime
    assert (
        runtime.memcpyDeviceToDevice
        == fake_cupy.modules()["cupy"].cuda.runtime.memcpyDeviceToDevice
    )
    wanted = {
        "float32": runtime.CUDA_R_32F,
        "float64": runtime.CUDA_R_64F,
        "float16": runtime.CUDA_R_16F,
        "bfloat16": runtime.CUDA_R_16BF,
    }
    assert wanted == {row.name: row.cublas for row in CUDA}


def test_options_of_the_compiler():
    """The NVRTC tests compile with the options that CuPy adds."""
    text = Path(importlib.util.find_spec("cupy").origin).parent.joinpath("cuda", "compiler.py")
    added = re.findall(r"options \+= \('(-[^']+)',\)", text.read_text(encoding="utf-8"))
    assert set(CUPYS) <= set(added)
    assert "by default compiles with the C++17" in cupy.RawModule.__doc__


def test_cublas_constants():
    """From the text of the compiled module: importing it takes cuBLAS itself."""
    folder = Path(importlib.util.find_spec("cupy_backends").submodule_search_locations[0])
    (library,) = (folder / "cuda" / "libs").glob("cublas*.so")
    text = library.read_bytes()
    constants = (
        *{row.cublas_sums for row in (*BY_ARITHMETIC_ON_GPUS.values(), *CUDA) if row.cublas_sums},
        *("CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION", "CUBLAS_GEMM_DEFAULT"),
    )
    for constant in constants:
        assert constant.encode() + b"\0" in text
    # Loaded with it, under the name that falcon asks for: of cupy-cuda12x or cupy-cuda13x.
    assert re.search(rb"libcublas\.so\.1[23]\0", text)
