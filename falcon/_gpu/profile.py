"""The device profile: measured once per device with events, stored in falcon's cache folder."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from falcon._core.dtypes import FLOAT32, FLOAT64, DType
from falcon._core.options import cache_folder
from falcon._version import __version__
from falcon.codegen.cuda_plan import products
from falcon.schemes import get

from . import device, kernels
from .matrix import Matrix, Operand, dense

# Large enough that waves and launches hardly show: 137 Gflop, 1.1 Tflop for 16-bit elements.
_MEASURED_SIZE = {8: 4096, 4: 4096, 2: 8192}
_REPEATS = 5
# Elements of random data that a measured matrix repeats; zeros would run faster than real data.
_RANDOM_ELEMENTS = 2**20
# Additions of float32 per multiprocessor and clock; 128 on some architectures, never fewer.
_LANES = 64


@dataclass(frozen=True, slots=True)
class DeviceRates:
    """Speeds of a device for one dtype.

    Attributes
    ----------
    multiply : float
        cuBLAS, large square product, flop/s.
    bandwidth : float
        Combine A of Strassen on a large matrix, bytes read and written per second.
    launch : float
        Seconds of an empty kernel in a stream of kernels.
    add : float
        Additions per second, by clock and width.
    multiprocessors : int
    l2_bytes, memory_bytes : int
    """

    multiply: float
    bandwidth: float
    launch: float
    add: float
    multiprocessors: int
    l2_bytes: int
    memory_bytes: int


_lock = threading.Lock()
_known: dict[tuple[int, DType, bool], DeviceRates] = {}


def rates(index: int, dtype: DType, tf32: bool) -> DeviceRates:
    """Return the rates of device number `index`, from this process, the cache folder, or measured.

    Measuring takes a fraction of a second and waits for the device; no graph may be recording.
    """
    key = (index, dtype, tf32)
    if key not in _known:
        with _lock:
            if key not in _known:
                _known[key] = _load(*key) or _store(*key, _measure(*key))
    return _known[key]


def known() -> dict[str, DeviceRates]:
    """Return what this process has measured or loaded, for `falcon.show_config`."""
    return {
        f"{device.properties(index).name} (cuda:{index}) {dtype}{' TF32' if tf32 else ''}": found
        for (index, dtype, tf32), found in _known.items()
    }


def clear() -> None:
    """Forget what this process knows; files stay."""
    with _lock:
        _known.clear()


# --- files -----------------------------------------------------------------------------------


def path(index: int) -> Path | None:
    """Return the file of a device: one per device model, driver and version of falcon."""
    folder, found = cache_folder(), device.properties(index)
    if folder is None:
        return None
    text = f"{found.name}|{found.driver}|{__version__}"
    return folder / f"gpu-{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"


def _document(index: int) -> dict:
    """Read a device's file; empty where there is none, or it is not a profile."""
    file = path(index)
    with suppress(OSError, ValueError):
        document = json.loads(file.read_text(encoding="utf-8")) if file is not None else {}
        if isinstance(document, dict) and isinstance(document.get("rates"), dict):
            return document
    return {}


def _name(dtype: DType, tf32: bool) -> str:
    return f"{dtype} tf32" if tf32 else dtype.name


def _load(index: int, dtype: DType, tf32: bool) -> DeviceRates | None:
    stored = _document(index).get("rates", {}).get(_name(dtype, tf32))
    with suppress(TypeError, ValueError):
        found = DeviceRates(**stored)
        if min(float(x) for x in asdict(found).values()) > 0:
            return found
    return None


def _store(index: int, dtype: DType, tf32: bool, found: DeviceRates) -> DeviceRates:
    """Write the rates; a folder that cannot be written to is no error."""
    file = path(index)
    if file is None:
        return found
    about = device.properties(index)
    document = {
        "device": about.name,
        "driver": about.driver,
        "falcon": __version__,
        "rates": {**_document(index).get("rates", {}), _name(dtype, tf32): asdict(found)},
    }
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        fresh = file.with_suffix(f".{os.getpid()}.{threading.get_ident()}")
        fresh.write_text(json.dumps(document, indent=2), encoding="utf-8")
        os.replace(fresh, file)
    return found


# --- measurement -----------------------------------------------------------------------------


def _measure(index: int, dtype: DType, tf32: bool) -> DeviceRates:
    if device.is_capturing():
        raise RuntimeError(
            "falcon measures a GPU once per dtype, which a stream that is being captured cannot "
            "do: multiply once before the capture, or name a scheme"
        )
    about = device.properties(index)
    size = _MEASURED_SIZE[dtype.itemsize]
    slower = about.single_to_double if dtype is FLOAT64 else 1
    with device.on(index):
        a, b = (random_matrix(size, size, dtype, seed) for seed in (0, 1))
        scheme = get("strassen")
        sums = device.allocate(scheme.rank * size * size // 4 * 8)
        sums_dtype = dtype.accumulator
        out = dense(int(sums.data.ptr), (size, size), sums_dtype, sums)
        small = dense(int(sums.data.ptr), (1, 32), sums_dtype, sums)

        def product() -> None:
            operands = (Operand.of(x) for x in (a, b, out))
            device.multiply(size, size, size, *operands, sums=sums_dtype, tf32=tf32)

        def combine() -> None:
            half = (size // 2, size // 2)
            kernels.combine_in(scheme, "u", a, int(sums.data.ptr), half, (0, 0), half)

        def empty() -> None:
            for _ in range(100):
                kernels.copy(None, small)

        moved = size * size * dtype.itemsize * (1 + len(products(scheme).places) / 4)
        return DeviceRates(
            multiply=2.0 * size**3 / fastest(product),
            bandwidth=moved / fastest(combine),
            launch=fastest(empty) / 100,
            add=about.multiprocessors * _LANES * about.clock / max(slower, 1),
            multiprocessors=about.multiprocessors,
            l2_bytes=about.l2_bytes,
            memory_bytes=about.memory_bytes,
        )


def fastest(call: Callable[[], None]) -> float:
    """Return the least seconds of some runs, by events, after one untimed run."""
    call()
    times = []
    for _ in range(_REPEATS):
        start = device.event()
        call()
        times.append(device.seconds_between(start, device.event()))
    return max(min(times), 1e-9)


def random_matrix(rows: int, columns: int, dtype: DType, seed: int) -> Matrix:
    """Fill a matrix on the device with a repeated piece of normal random data."""
    piece = np.random.default_rng(seed).standard_normal(
        min(_RANDOM_ELEMENTS, rows * columns), FLOAT32.numpy
    )
    source = device.upload(piece)
    memory = device.allocate(rows * columns * dtype.itemsize)
    target = dense(int(memory.data.ptr), (rows, columns), dtype, memory)
    flat = dense(target.pointer, (1, rows * columns), dtype, memory)
    whole, rest = divmod(rows * columns, piece.size)
    spread = Matrix(int(source.data.ptr), (whole, piece.size), (0, 1), FLOAT32, source)
    kernels.copy(spread, dense(target.pointer, (whole, piece.size), dtype, memory))
    if rest:
        tail = Matrix(flat.address(0, whole * piece.size), (1, rest), (rest, 1), dtype, memory)
        kernels.copy(dense(spread.pointer, (1, rest), FLOAT32, source), tail)
    return target
