"""What falcon passes to cuBLAS by ctypes, against NVIDIA's header. Needs no GPU."""

import importlib.util
import re
from ctypes import c_int, c_int64, c_size_t, c_void_p
from pathlib import Path

import pytest

from falcon._gpu import cublas

from . import fake_cublas, fake_cupy


def _header():
    spec = importlib.util.find_spec("nvidia")
    folders = [] if spec is None else map(Path, spec.submodule_search_locations)
    found = [x for folder in folders for x in folder.glob("cu*/include/cublas_api.h")]
    return found[0] if found else None


HEADER = _header()
if HEADER is None:
    pytest.skip("needs the extra gpu-check (cuBLAS's header)", allow_module_level=True)
TEXT = re.sub(r"/\*.*?\*/", " ", HEADER.read_text(errors="replace"), flags=re.DOTALL)
_ENUMS = ("cublasOperation_t", "cublasMath_t", "cudaDataType",
          "cublasEmulationStrategy_t", "cudaEmulationMantissaControl", "int",
          "cublasComputeType_t", "cublasGemmAlgo_t", "libraryPropertyType")  # fmt: skip


def declared(name):
    """Return the type of a function's result, and those of its parameters."""
    ((result, inside),) = re.findall(rf"([\w *]+?)\s+CUBLASWINAPI {name}\(([^)]*)\)", TEXT)
    return result, [" ".join(x.split()) for x in inside.split(",")]


def as_ctypes(parameter):
    kind, _, _ = parameter.rpartition(" ")
    if "*" in parameter or kind in ("cublasHandle_t", "cudaStream_t"):
        return c_void_p
    if kind in ("int64_t", "long long int"):
        return c_int64
    if kind == "size_t":
        return c_size_t
    assert kind in _ENUMS, parameter
    return c_int


@pytest.mark.parametrize("name", cublas._ARGUMENTS)
def test_arguments(name):
    result, parameters = declared(name)
    assert result == "cublasStatus_t"
    assert tuple(map(as_ctypes, parameters)) == cublas._ARGUMENTS[name]


def test_the_text_of_a_status():
    assert declared("cublasGetStatusString") == ("const char*", ["cublasStatus_t status"])


def test_the_order_of_a_products_arguments():
    """The names of the header's parameters, and those of the stand-in that multiplies by them."""
    _, parameters = declared(cublas._GEMM)
    names = [re.split(r"[ *]", x)[-1] for x in parameters]
    code = fake_cublas.cublasGemmStridedBatchedEx_64.__code__
    assert names == list(code.co_varnames[: code.co_argcount])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CUBLAS_OP_N", cublas._OPERATIONS[False]),
        ("CUBLAS_OP_T", cublas._OPERATIONS[True]),
        ("CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION", cublas._MATH_MODE),
        *(
            (name, value)
            for name, value in vars(fake_cupy.modules()["cupy_backends.cuda.libs.cublas"]).items()
            if name.startswith("CUBLAS_")
        ),
    ],
)
def test_constants(name, value):
    """The stand-in's too: on a GPU they are CuPy's."""
    assert re.search(rf"\b{name}\s*=\s*(-?\d+)", TEXT)[1] == str(value)
