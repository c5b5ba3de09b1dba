"""CUDA source text: generated definitions, followed by a `.cu` file of `kernels/`.

A `Unit` is one kernel. `assemble` makes one translation unit of the common part and some units.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from falcon._core.dtypes import FLOAT32, FLOAT64, DType
from falcon.codegen import cuda_emit
from falcon.codegen.cuda_plan import Fit
from falcon.schemes import Scheme, get


@dataclass(frozen=True)
class Unit:
    """A kernel: its name and source (without the common part).

    Attributes
    ----------
    name : str
        Of the function, which has C linkage.
    source : str
    fit : Fit or None
        Vectors and registers of a combine kernel.
    """

    name: str
    source: str
    fit: Fit | None = None


def combine_in(scheme: Scheme, factor: str, operand: DType) -> Unit:
    """Combine A ("u") or B ("v")."""
    kind = str(operand).replace(" ", "_")
    name = f"falcon_combine_{'a' if factor == 'u' else 'b'}_{_key(scheme)}_{kind}"
    head, fit = cuda_emit.combine_in(scheme, factor, operand, name)
    return Unit(name, head + _template("combine_in"), fit)


def combine_out(scheme: Scheme, sums: DType, dtype: DType) -> Unit:
    """Combine H into a C of another or the same dtype."""
    name = f"falcon_combine_h_{_key(scheme)}_{sums}_{dtype}"
    head, fit = cuda_emit.combine_out(scheme, sums, dtype, name)
    return Unit(name, head + _template("combine_out"), fit)


def repair(dtype: DType, out_dtype: DType) -> Unit:
    """Redo marked regions classically."""
    return _plain("repair", dtype, out_dtype, dtype.accumulator)


def wider(dtype: DType, out_dtype: DType) -> DType:
    """Return the type in which elements of `dtype` are scaled before conversion to `out_dtype`."""
    return max(dtype.accumulator, out_dtype.accumulator, key=lambda row: row.itemsize)


def copy(dtype: DType, out_dtype: DType) -> Unit:
    """Copy with conversion and a scale."""
    return _plain("copy", dtype, out_dtype, wider(dtype, out_dtype))


def norms(dtype: DType) -> Unit:
    """Add up the squared norms of lines, in parts."""
    return _plain("norms", dtype, dtype.accumulator, dtype.accumulator)


def scales() -> Unit:
    """Powers of two that even out the norms of lines that a scheme adds up."""
    return _plain("scales", FLOAT64, FLOAT64, FLOAT64)


def empty() -> Unit:
    """Do nothing, to measure what a launch costs."""
    return Unit("falcon_empty", 'extern "C" __global__ void falcon_empty() {}\n')


@cache
def digest() -> str:
    """Return a digest of the kernels: rates that were measured with others are not valid."""
    strassen = get("strassen")
    units = [*(combine_in(strassen, x, FLOAT32) for x in "uv"), repair(FLOAT32, FLOAT32)]
    units += [combine_out(strassen, FLOAT32, FLOAT32), copy(FLOAT32, FLOAT32)]
    return hashlib.sha256(assemble(units).encode()).hexdigest()[:12]


def assemble(units: Iterable[Unit]) -> str:
    """Return one translation unit."""
    return "\n".join([_template("common", "cuh"), *(unit.source for unit in units)])


def _plain(template: str, dtype: DType, out_dtype: DType, sums: DType) -> Unit:
    name = f"falcon_{template}_{dtype}_{out_dtype}"
    macros = {
        "NAME": name,
        "A": dtype.cuda,
        "T": out_dtype.cuda,
        "S": sums.cuda,
    }
    head = "".join(f"#define FALCON_{key} {value}\n" for key, value in macros.items())
    return Unit(name, head + _template(template))


def _key(scheme: Scheme) -> str:
    """Return a scheme's name as a C identifier, for profilers; it need not be unique."""
    return re.sub(r"\W", "_", scheme.name) or "unnamed"


@cache
def _template(name: str, suffix: str = "cu") -> str:
    file = Path(__file__).parent / "kernels" / f"{name}.{suffix}"
    return file.read_text(encoding="utf-8")
