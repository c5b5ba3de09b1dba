"""The table of element types, against NumPy, ml_dtypes, the engine's and CUDA's names."""

import copy
import pickle
import sys
from dataclasses import asdict, replace
from importlib import import_module

import numpy as np
import pytest

from falcon._core import dtypes
from falcon._core.dtypes import (
    BFLOAT16,
    BY_ARITHMETIC,
    BY_FLOAT,
    ENGINE,
    FLOAT16,
    FLOAT32,
    LONGDOUBLE,
    PAIRS,
    RUNGS,
    TABLE,
    both,
    dtype_of,
)

NUMPY = [x for x in TABLE if x.module == "numpy"]
# What NumPy's matmul multiplies as numbers, by type character.
MULTIPLIED = "efdgFDGbhilqBHILQ"
# cudaDataType_t, as CUDA's library_types.h numbers them.
CUDA = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 14, "complex64": 4, "complex128": 5}

every = pytest.mark.parametrize("row", TABLE, ids=str)
of_numpy = pytest.mark.parametrize("row", NUMPY, ids=str)


@every
def test_rows_agree_with_numpy(row):
    if row.module != "numpy":
        pytest.importorskip(row.module)
    assert (row.numpy.name, row.numpy.itemsize) == (row.name, row.itemsize)
    assert row.numpy.isnative
    if row.is_exact:
        least = import_module(row.module).iinfo(row.numpy).min
        assert row.is_unsigned == (least == 0)
        assert row.unit_roundoff == 0.0
    else:
        assert row.is_complex == (row.numpy.kind == "c")
        assert row.unit_roundoff == float(row.finfo.eps) / 2
        assert 0 < np.longdouble(row.finfo.smallest_subnormal) < 1 < np.longdouble(row.finfo.max)
        assert not row.is_unsigned


def test_the_table_is_what_numpy_multiplies_and_bfloat16():
    assert {np.dtype(x) for x in MULTIPLIED} == {x.numpy for x in NUMPY}
    assert [x for x in TABLE if x.module != "numpy"] == [BFLOAT16]
    assert len({x.name for x in TABLE}) == len(TABLE)


@of_numpy
def test_a_row_is_found_by_whatever_names_it(row):
    assert dtype_of(row.numpy) is dtype_of(row.name) is dtypes.find(row.numpy) is row
    swapped = row.numpy.newbyteorder()
    assert dtype_of(swapped) is dtype_of(swapped) is row
    assert dtype_of(row.numpy.str) is row


def test_aliases_are_one_row():
    for char in MULTIPLIED:
        assert dtype_of(np.dtype(char)).numpy == np.dtype(char)
    assert dtype_of("longdouble") is LONGDOUBLE


def test_bfloat16_is_that_of_ml_dtypes():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    assert dtype_of("bfloat16") is dtype_of(np.dtype(ml_dtypes.bfloat16)) is BFLOAT16
    assert BFLOAT16.numpy == np.dtype(ml_dtypes.bfloat16)
    assert dtypes.find(np.dtype(ml_dtypes.float8_e4m3)) is None


def test_bfloat16_without_ml_dtypes(monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    row = replace(BFLOAT16)  # which has not imported it yet
    with pytest.raises(TypeError, match="bfloat16 needs the package ml_dtypes: pip install"):
        row.numpy  # noqa: B018


@pytest.mark.parametrize("other", ["bool", "O", "M8[s]", "m8[s]", "S3", "U3", [("x", "f4")]])
def test_what_is_not_multiplied_has_no_row(other):
    assert dtypes.find(np.dtype(other)) is None
    with pytest.raises(TypeError, match="expected integers, floats or complex numbers"):
        dtype_of(np.dtype(other))
    with pytest.raises(TypeError, match="float63"):
        dtype_of("float63")


@every
def test_sums(row):
    """Sixteen bits are summed in float32, everything else in itself; results are as operands."""
    assert row.accumulator is (FLOAT32 if row in (FLOAT16, BFLOAT16) else row)
    assert row.accumulator.accumulator is row.accumulator
    assert row.accumulator.unit_roundoff <= row.unit_roundoff
    assert row.result is row


@every
def test_names_of_libraries(row):
    assert row.has_blas == (row.module == "numpy" and row.numpy.char in "fdFD")
    if row.has_blas:
        assert row.blas == {"f": "s", "d": "d", "F": "c", "D": "z"}[row.numpy.char]


def test_torch_itself():
    torch = pytest.importorskip("torch")
    for row in TABLE:
        if row.numpy.char not in "gG":  # long double
            assert dtypes.find_torch(str(getattr(torch, row.name))) is row
    assert dtypes.find_torch("torch.bool") is None


@every
def test_names_in_cuda(row):
    assert row.cublas == CUDA.get(row.name)
    assert (row.cuda is None) == (row.cublas is None or row.is_complex)
    if row.cuda is not None:
        assert row.accumulator.cuda in ("float", "double")
        bits = 8 * row.accumulator.itemsize
        assert row.accumulator.cublas_sums == f"CUBLAS_COMPUTE_{bits}F"


def rungs():
    return [x for some in RUNGS.values() for x in some]


@pytest.mark.parametrize("row", rungs(), ids=str)
def test_rungs_round_to_another_type(row):
    assert copy.deepcopy(row) is pickle.loads(pickle.dumps(row)) is row
    assert row.left is row.right is row.result
    assert row.rounded.is_complex == row.is_complex
    assert row.measured is row.rounded is not row.left
    assert row.unit_roundoff == row.summed.unit_roundoff
    assert row not in TABLE


def test_names_of_the_engine():
    core = pytest.importorskip("falcon._cpu._core")
    rows = *ENGINE, *PAIRS, *BY_ARITHMETIC.values(), *BY_FLOAT.values(), *rungs()
    assert {x.engine for x in rows} == set(core.DTYPES)


@pytest.mark.parametrize("row", PAIRS, ids=str)
def test_pairs_stand_for_two_types(row):
    assert both(row.left, row.right) is row
    assert row.name == f"{row.left} x {row.right}"
    assert row.itemsize == row.left.itemsize == row.right.itemsize
    assert row.result is row.accumulator is row.wide[0]
    assert copy.deepcopy(row) is pickle.loads(pickle.dumps(row)) is row
    assert row not in TABLE
    with pytest.raises(TypeError):  # no dtype of arrays
        dtype_of(row.name)


@every
def test_types_that_stand_for_themselves(row):
    assert row.left is row.right is both(row, row) is row
    assert both(row, LONGDOUBLE) in (None, row)


@every
def test_rows_are_unique_objects(row):
    assert copy.deepcopy(row) is copy.copy(row) is pickle.loads(pickle.dumps(row)) is row
    assert len({*TABLE, row}) == len(TABLE)
    assert str(row) == row.name
    assert asdict(row)["name"] == row.name  # ends: no row holds itself
    with pytest.raises(AttributeError):
        row.name = "other"
