"""CUDA source text: generated definitions, followed by a `.cu` file of `kernels/`.

A `Unit` is one kernel. `assemble` makes one translation unit of the common part and some units.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from falcon._core.dtypes import FLOAT32, DType
from falcon._core.scaling import PARTS_OF_OCTAVE, SCALED_FROM
from falcon.codegen import cuda_emit
from falcon.codegen.cuda_plan import ACCESS_BYTES, THREADS, Fit
from falcon.schemes import Scheme

from . import geometry

# What the kernels share with their launches and with the host's scaling.
_SHARED = {
    **{name: getattr(geometry, name) for name in geometry.SHARED},
    "ACCESS_BYTES": ACCESS_BYTES,
    "SCALED_FROM": SCALED_FROM,
    "OCTAVE_BITS": PARTS_OF_OCTAVE.bit_length() - 1,
}


@dataclass(frozen=True)
class Unit:
    """A kernel."""

    name: str  # of the function, which has C linkage
    source: str  # without the common part
    fits: tuple[Fit, ...] = ()  # of a combine kernel: of H, or of A and B


def combine_in(scheme: Scheme, operand: DType, centred: bool = False) -> Unit:
    """Combine A and B; `centred`: means are subtracted from A."""
    kind = str(operand).replace(" ", "_") + "_centred" * centred
    name = f"falcon_combine_{_key(scheme)}_{kind}"
    source, fits = "", []
    for factor in cuda_emit.FACTORS:
        head, fit = cuda_emit.combine_in(scheme, factor, operand, f"{name}_{factor}", centred)
        source += _with(head, "combine_in")
        fits.append(fit)
    macros: dict[str, object] = {"NAME": name}
    macros |= {"OF_A": f"{name}_u_sums", "OF_B": f"{name}_v_sums"}
    macros |= {"T": operand.cuda, "O": operand.multiplied.cuda, "THREADS": THREADS}
    macros["BLOCKS"] = min(x.blocks for x in fits)
    return Unit(name, source + _with(_macros(macros), "combine"), tuple(fits))


def combine_out(scheme: Scheme, sums: DType, dtype: DType) -> Unit:
    """Combine H into a C of another or the same dtype."""
    name = f"falcon_combine_h_{_key(scheme)}_{sums}_{dtype}"
    head, fit = cuda_emit.combine_out(scheme, sums, dtype, name)
    return Unit(name, _with(head, "combine_out"), (fit,))


def repair(dtype: DType, out_dtype: DType) -> Unit:
    """Multiply regions with a flag classically."""
    return _plain("repair", dtype, out_dtype, dtype.accumulator)


def wider(dtype: DType, out_dtype: DType) -> DType:
    """Return the type in which elements of `dtype` are scaled before conversion to `out_dtype`."""
    return max(dtype.accumulator, out_dtype.accumulator, key=lambda row: row.itemsize)


def copy(dtype: DType, out_dtype: DType) -> Unit:
    """Copy with conversion and a scale."""
    types = dtype.part or dtype, out_dtype.part or out_dtype
    parts: dict[str, Any] = {"READ": 1 + dtype.is_complex, "WRITTEN": 1 + out_dtype.is_complex}
    return _plain("copy", *types, wider(*types), **parts)


def mirror(dtype: DType) -> Unit:
    """Copy one triangle of a symmetric result to the other."""
    return _plain("mirror", dtype, dtype, dtype.accumulator)


def norms(dtype: DType, of_parts: bool, centred: bool = False) -> Unit:
    """Add up the squared norms of lines, in parts; for products by parts further facts."""
    what = {"OF_PARTS": int(of_parts), "CENTRED": int(centred)}
    return _plain("norms", dtype, dtype.accumulator, dtype.accumulator, **what)


def units(dtype: DType) -> Unit:
    """Find powers of two along K that even out the rows of B."""
    return _plain("units", dtype, dtype.accumulator, dtype.accumulator)


def means() -> Unit:
    """Find the means that are subtracted from A for products by parts."""
    return _plain("means", FLOAT32, FLOAT32, FLOAT32)


def powers(sums: DType) -> Unit:
    """Find powers of two, written as `sums`, that even out norms of lines that are added up."""
    return _plain("powers", sums, sums, sums)


def fused(a_along: bool, b_along: bool) -> Unit:
    """Multiply two float16 parts; whether elements along K are neighbours, of A and of B."""
    name = f"falcon_fused_{a_along:d}{b_along:d}"
    macros = _macros({"NAME": name, "A_ALONG": int(a_along), "B_ALONG": int(b_along)})
    return Unit(name, _with(macros + cuda_emit.wgmma(geometry.FUSED_TILE), "fused"))


def empty() -> Unit:
    """Do nothing, to measure what a launch costs."""
    return Unit("falcon_empty", 'extern "C" __global__ void falcon_empty() {}\n')


def assemble(units: Iterable[Unit]) -> str:
    """Return one translation unit."""
    return "\n".join([_macros(_SHARED), _template("common", "cuh"), *(x.source for x in units)])


def _plain(template: str, dtype: DType, out_dtype: DType, sums: DType, **macros: object) -> Unit:
    name = "_".join(map(str, ("falcon", template, dtype, out_dtype, *macros.values())))
    macros |= {"NAME": name, "A": dtype.cuda, "T": out_dtype.cuda, "S": sums.cuda}
    return Unit(name, _with(_macros(macros), template))


def _macros(values: Mapping[str, object]) -> str:
    return "".join(f"#define FALCON_{key} {value}\n" for key, value in values.items())


def _with(head: str, template: str) -> str:
    """Return a file of `kernels/` behind its macros, which end with it."""
    names = re.findall(r"^#define (\w+)", head, re.MULTILINE)
    return head + _template(template) + "".join(f"#undef {name}\n" for name in names)


def _key(scheme: Scheme) -> str:
    """Return a scheme's name as a C identifier, for profilers; it need not be unique."""
    return re.sub(r"\W", "_", scheme.name) or "unnamed"


@cache
def _template(name: str, suffix: str = "cu") -> str:
    file = Path(__file__).parent / "kernels" / f"{name}.{suffix}"
    return file.read_text(encoding="utf-8")
