"""What baking coefficients into C gains over interpreting programs: ``falcon bench --baking``.

The CPU engine runs its combination programs by an interpreter over strips in the first-level cache.
Here the same programs are emitted as C, compiled, and run in its place, in interleaved pairs.
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from falcon._core.dtypes import FLOAT32, DType
from falcon._core.options import thread_count
from falcon._core.text import format_table
from falcon.codegen import c_emit
from falcon.schemes import Scheme, get

from . import _core
from .backend import isa
from .programs import engine_form
from .sources import ISAS

SCHEMES = ("strassen", "winograd", "3x3x3:23", "strassen@strassen", "3x4x5:48", "5x5x5:93")
_FLAGS = ("-O2", "-std=gnu11", "-ffp-contract=fast", "-shared", "-fPIC")
_WORKSPACE = 256 * 2**20
_REST_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Gain:
    """Milliseconds of both combines, interpreted and baked, and the whole call's speed-up."""

    scheme: str
    interpreted: float
    baked: float
    speedup: float


def compiled(scheme: Scheme, dtype: DType, folder: Path) -> tuple[ctypes.CDLL, int, int]:
    """Compile Combine A and Combine B of a scheme; return the library and their addresses.

    Raises
    ------
    OSError, subprocess.CalledProcessError
        There is no C compiler ``cc``, or it fails.
    """
    name = isa()
    source, library = folder / "combine.c", folder / f"combine-{scheme.rank}-{id(scheme)}.so"
    source.write_text(c_emit.source(scheme, "x", dtype, name), encoding="utf-8")
    flags = next(x.flags for x in ISAS if x.name == name)
    command = ["cc", *_FLAGS, *flags, str(source), "-o", str(library)]
    subprocess.run(command, check=True, capture_output=True)
    loaded = ctypes.CDLL(str(library))
    addresses = []
    for factor in "uv":
        function = getattr(loaded, c_emit.symbol(factor, "x", dtype, name))
        addresses.append(ctypes.cast(function, ctypes.c_void_p).value or 0)
    return loaded, addresses[0], addresses[1]


def measure(M: int, N: int, K: int, rounds: int, tick: Callable[[], object]) -> list[Gain]:
    """Compare the two for every scheme of `SCHEMES` in float32; `tick` follows each."""
    random = np.random.default_rng(1)
    a, b = (random.standard_normal(x).astype(FLOAT32.numpy) for x in ((M, K), (K, N)))
    out = np.empty((M, N), FLOAT32.numpy)
    gains = []
    with tempfile.TemporaryDirectory() as folder:
        for name in SCHEMES:
            scheme = get(name)
            # Objects of our own: that of `engine_scheme` must stay interpreted.
            sides: list[Any] = [_core.Scheme(*engine_form(scheme)) for _ in range(2)]
            library = compiled(scheme, FLOAT32, Path(folder))
            sides[1].set_generated(FLOAT32.engine, isa(), *library[1:])
            gains.append(_compare(name, sides, (a, b, out), rounds))
            tick()
    return gains


def _compare(
    name: str,
    sides: list[Any],
    arrays: tuple[np.ndarray, np.ndarray, np.ndarray],
    rounds: int,
) -> Gain:
    a, b, out = arrays
    threads = thread_count()
    (M, N), K = out.shape, a.shape[1]
    call = {"threads": threads, "isa": isa(), "limit": _WORKSPACE}
    tiling, nbytes = _core.plan(M, N, K, FLOAT32.engine, scheme=sides[0], **call)
    workspace = _core.Workspace(nbytes)
    runs: list[list[dict[str, float]]] = [[], []]
    for _ in range(rounds + 1):
        for side, engine in enumerate(sides):
            time.sleep(_REST_SECONDS)
            runs[side].append(
                _core.gemm(
                    a,
                    b,
                    out,
                    threads=threads,
                    isa=isa(),
                    scheme=engine,
                    blocking=tiling,
                    workspace=workspace,
                    profile=True,
                )
            )
    interpreted, baked = (x[1:] for x in runs)  # the first round touches the memory

    def combines(runs: list[dict[str, float]]) -> float:
        return 1e3 * median((x["combine_a"] + x["combine_b"]) / x["threads"] for x in runs)

    speedup = median(x["total"] / y["total"] for x, y in zip(interpreted, baked, strict=True))
    return Gain(name, combines(interpreted), combines(baked), speedup)


def format_gains(gains: list[Gain]) -> str:
    """Return the table."""
    rows = [("scheme", "combines interpreted, ms", "baked, ms", "whole call, speed-up", "")]
    rows += [
        (x.scheme, f"{x.interpreted:.2f}", f"{x.baked:.2f}", f"{x.speedup:.3f}", "") for x in gains
    ]
    return format_table(rows)
