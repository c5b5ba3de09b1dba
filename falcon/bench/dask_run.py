"""``bench --dask``: falcon.dask beside dask.array.matmul on a LocalCluster, in or out of memory.

The sides run in turns on one cluster; the workers' peak memory is reset for each product. With
--memory operands are read from Zarr, by every product, as dask.array.matmul does too, and the
result is written to it; without, all three stay in memory.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from statistics import mean, median
from time import perf_counter
from typing import Any

import numpy as np

import falcon
from falcon._core.checks import parse_bytes
from falcon._core.dtypes import of
from falcon._core.text import format_table

from . import asked

# A side that takes longer than so many times falcon's time, and this long, is stopped.
_MOST_TIMES, _LEAST_SECONDS = 10.0, 120.0
_CHUNK = 4096
_PEER = "dask.array.matmul"


@dataclass
class Found:
    """What was measured of a side."""

    side: str
    times: list[float] = field(default_factory=list)
    seconds: float | None = None  # the median
    failed: str = ""
    tasks: int = 0
    sent: list[int] = field(default_factory=list)
    moved: float = 0  # the mean of bytes sent: where tasks run differs from time to time
    peak: int = 0  # of the worker that took most
    peaks: int = 0  # of all workers together
    held: int = 0  # of operands and result, unless they are in files
    beyond: int = 0  # of `peaks`, besides these and workers at rest
    predicted_moved: float | None = None
    check: str = ""


def add_dask(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``bench --dask``."""
    group = parser.add_argument_group("with --dask")
    group.add_argument("--memory", type=parse_bytes, metavar="BYTES", help="limit of each worker, "
                       "such as 2GiB; operands and result are then Zarr files")  # fmt: skip
    group.add_argument("--workers", type=int, default=2, help="processes (default 2)")
    group.add_argument("--worker-threads", type=int, default=1, help="tasks that a worker runs at "
                       "once (default 1)")  # fmt: skip
    group.add_argument("--chunk", type=int, help=f"lines of a chunk (default {_CHUNK}, or a "
                       "sixteenth of --memory)")  # fmt: skip
    group.add_argument("--folder", type=Path, help="where Zarr files are written (default: the "
                       "folder for temporary files)")  # fmt: skip
    group.add_argument("--no-peer", action="store_true", help="without dask.array.matmul")


def run(options: argparse.Namespace, falcon_options: dict[str, Any]) -> int:
    """Measure the sides and print them; 1 if a result of falcon is wrong."""
    try:
        falcon.dask  # noqa: B018
    except ImportError as error:
        raise ValueError(f"--dask needs pip install 'falcon-gemm[dask]' ({error})") from None
    shapes = asked.given_shapes(options)
    if len(shapes) != 1 or min(options.workers, options.worker_threads) < 1:
        raise ValueError("--dask takes one shape M N K, and at least one worker and thread")
    shape, dtype = shapes[0], of((asked.dtypes(options) or ["float32"])[0]).numpy
    chunk = options.chunk or _chunk(options.memory, dtype)
    with _data(options, (shape.M, shape.N, shape.K), dtype, chunk) as data:
        known = {k: v for k, v in falcon_options.items() if v is not None}
        found = _in_turns(options, {**known, "reread": data.folder is not None}, data)
    if options.json:
        print(json.dumps([asdict(x) for x in found], indent=2))
    else:
        limit = f", {options.memory / 2**30:.3g} GiB each" if options.memory else ""
        print(f"{shape.M} x {shape.N} x {shape.K} {dtype}, chunks of {chunk}, {options.workers} "
              f"workers x {options.worker_threads}{limit}\n")  # fmt: skip
        print(_table(found, shape.flops))
    return int(any(x.check.startswith("wrong") for x in found))


def _chunk(memory: int | None, dtype: np.dtype) -> int:
    """Return the lines of a chunk: a sixteenth of a worker's memory, a multiple of 256.

    A task holds four: two that it reads, a copy while reading, and one of C; Python takes 150 MiB.
    """
    side = _CHUNK if memory is None else int((memory / 16 / dtype.itemsize) ** 0.5)
    return max(256, side // 256 * 256)


class _Data:
    """Operands, made anew in memory for each cluster, or read from Zarr; where results go."""

    def __init__(self, sizes: tuple[int, int, int], dtype: np.dtype, chunk: int) -> None:
        self.sizes, self.dtype, self.chunk = sizes, dtype, chunk
        self.folder: Path | None = None

    def random(self) -> tuple[Any, Any]:
        """Return operands that tasks make."""
        import dask.array as da

        M, N, K = self.sizes
        random = da.random.default_rng(M + N + K)
        if of(self.dtype).is_exact:
            made = [random.integers(-9, 10, x, chunks=self.chunk) for x in ((M, K), (K, N))]
        else:
            made = [random.standard_normal(x, chunks=self.chunk) for x in ((M, K), (K, N))]
        return made[0].astype(self.dtype), made[1].astype(self.dtype)

    def operands(self) -> tuple[Any, Any]:
        """Return x and y, for the cluster of the current client."""
        import dask.array as da
        from distributed import wait

        if self.folder is not None:
            x, y = (da.from_zarr(str(self.folder / name)) for name in "xy")
            return x, y
        x, y = (v.persist() for v in self.random())
        wait([x, y])
        return x, y

    def store(self, c: Any, name: str) -> Any:
        """Return an array whose tasks compute chunks of c, and write them where they go."""
        if self.folder is None:
            return c
        from zarr import create_array

        target = create_array(str(self.folder / name), shape=c.shape, dtype=c.dtype,
                              chunks=c.chunksize, compressors=None, overwrite=True)  # fmt: skip
        return c.map_blocks(_written, target, dtype=bool, chunks=((1,) * c.numblocks[0],
                            (1,) * c.numblocks[1]), meta=np.empty((0, 0), bool))  # fmt: skip

    def stored(self, made: Any, name: str) -> Any:
        """Return c itself."""
        import dask.array as da

        return made if self.folder is None else da.from_zarr(str(self.folder / name))


def _written(block: np.ndarray, target: Any, block_info: Any = None) -> np.ndarray:
    where = tuple(slice(*ends) for ends in block_info[0]["array-location"])
    target[where] = block
    return np.ones((1, 1), bool)


@contextmanager
def _data(
    options: argparse.Namespace, sizes: tuple[int, int, int], dtype: np.dtype, chunk: int
) -> Iterator[_Data]:
    """Make the operands; Zarr files are written chunk by chunk in this process."""
    data = _Data(sizes, dtype, chunk)
    if not options.memory:
        yield data
        return
    import dask

    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        data.folder = Path(folder)
        for name, x in zip("xy", data.random(), strict=True):
            written = data.store(x, name)
            with dask.config.set(scheduler="synchronous"):
                written.compute()
        yield data


def _sides(options: argparse.Namespace) -> list[str]:
    """Return what is compared."""
    sides = ["falcon.dask"]
    if options.workers > 1 and not options.memory:
        sides.append("falcon.dask, placed")
    return sides if options.no_peer else [*sides, _PEER]


def _call(found: Found, x: Any, y: Any, falcon_options: dict[str, Any]) -> Any:
    import dask.array as da

    if found.side == _PEER:
        return da.matmul(x, y)
    return falcon.dask.matmul(x, y, **falcon_options)


def _in_turns(
    options: argparse.Namespace, falcon_options: dict[str, Any], data: _Data
) -> list[Found]:
    """Run all sides on one cluster, in turns; with --memory once."""
    import dask.array as da
    from distributed import Client, LocalCluster

    logging.getLogger("distributed").setLevel(logging.ERROR)
    found = [Found(side) for side in _sides(options)]
    limit = options.memory or "auto"
    cluster = LocalCluster(n_workers=options.workers, memory_limit=limit,
                           threads_per_worker=options.worker_threads, dashboard_address=":0",
                           silence_logs=50)  # fmt: skip
    with cluster, Client(cluster) as client:
        client.wait_for_workers(options.workers)
        M, N, K = (64 * -(-size // data.chunk) for size in data.sizes)  # as many small chunks
        small = [da.ones(x, chunks=64, dtype=data.dtype) for x in ((M, K), (K, N))]
        for x in found:
            _call(x, small[0], small[1], falcon_options).compute()  # imports
        if data.folder is not None:
            client.run(import_module, "zarr")
        rest = sum(client.run(_memory, "VmRSS").values())
        for _ in range(1 if options.memory else options.rounds):
            for x in found:
                if not x.failed:
                    first = found[0].times[:1]
                    most = max(_LEAST_SECONDS, _MOST_TIMES * first[0]) if first else None
                    _measure(client, x, falcon_options, data, most)
                    x.beyond = max(0, x.peaks - rest - x.held)
    return found


def _measure(
    client: Any, found: Found, falcon_options: dict[str, Any], data: _Data, most: float | None
) -> None:
    """Run a side on operands that are made anew, so that their chunks lie in one place each."""
    x, y = data.operands()
    client.run(_reset_peak)
    before, start = sum(client.run(_moved).values()), perf_counter()
    c = _call(found, x, y, falcon_options)
    is_placed = found.side.endswith("placed")
    with falcon.dask.placed(x, y, c) if is_placed else nullcontext() as moved:
        made, found.failed = _computed(data.store(c, "c"), found.side, most)
    found.predicted_moved = moved
    if found.failed:
        return
    found.times.append(perf_counter() - start)
    found.seconds = median(found.times)
    found.sent.append(sum(client.run(_moved).values()) - before)
    found.moved = mean(found.sent)
    peaks = client.run(_memory, "VmHWM").values()
    found.peak, found.peaks = max(found.peak, *peaks), max(found.peaks, sum(peaks))
    found.held = 0 if data.folder else x.nbytes + y.nbytes + c.nbytes
    if len(found.times) == 1:
        given = dict(x.__dask_graph__()).keys() | dict(y.__dask_graph__()).keys()
        found.tasks = len(dict(c.__dask_graph__()).keys() - given)
        told = falcon.dask.verify(x, y, data.stored(made, "c"))
        found.check = "passed" if told else told.why


def _computed(x: Any, name: str, most: float | None) -> tuple[Any, str]:
    """Compute all chunks, with a progress bar; return the array, and why it was not computed."""
    from distributed import as_completed, futures_of

    made = x.persist()
    futures = futures_of(made)
    with asked.progress(len(futures), "chunk") as bar:
        bar.set_description(name)
        try:
            for future in as_completed(futures, timeout=most):
                if future.status != "finished":
                    error = future.exception()
                    return None, f"{type(error).__name__}: {error}".splitlines()[0]
                bar.update()
        except TimeoutError:
            return None, f"stopped after {most:.0f} s"
    return made, ""


def _moved(dask_worker: Any) -> int:
    """Return the bytes that a worker has sent to others."""
    return int(dask_worker.transfer_outgoing_bytes_total)


def _reset_peak() -> None:
    if sys.platform == "linux":
        Path("/proc/self/clear_refs").write_text("5")


def _memory(which: str) -> int:
    """Return the resident set, or the largest since `_reset_peak`; 0 where it is not known."""
    if sys.platform != "linux":
        return 0
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(x for x in lines if x.startswith(which)).split()[1]) * 1024


def _table(found: list[Found], flops: float) -> str:
    rows: list[tuple[str, ...]] = [("", "s", "GFLOP/s", "of falcon's time", "peak GiB", "of all",
                                    "beyond", "moved GiB", "predicted", "tasks",
                                    "Freivalds")]  # fmt: skip
    for x in found:
        if x.seconds is None:
            rows.append((x.side, *["-"] * 9, x.failed))
            continue
        sent = "-" if x.predicted_moved is None else f"{x.predicted_moved / 2**30:.2f}"
        rows.append((x.side, f"{x.seconds:.3g}", f"{flops / x.seconds / 1e9:.0f}",
                     f"{x.seconds / (found[0].seconds or np.nan):.2f}", f"{x.peak / 2**30:.2f}",
                     f"{x.peaks / 2**30:.2f}", f"{x.beyond / 2**30:.2f}",
                     f"{x.moved / 2**30:.2f}", sent, str(x.tasks), x.check))  # fmt: skip
    return format_table(rows)
