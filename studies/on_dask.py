"""falcon.dask beside dask.array.matmul on processes of this machine: ``studies/on_dask.py M N K``.

The sides run in turns on one cluster; the workers' peak memory is reset for each product. With
--memory operands are read from Zarr, by every product, as dask.array.matmul does too, and the
result is written to it; without, all three stay in memory.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from math import inf
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster, WorkerPlugin, futures_of, wait

import falcon
from falcon._core.dtypes import dtype_of
from falcon._core.options import thread_count
from falcon._numpy.threads import numpy_blas
from falcon._tools.checks import parse_bytes
from falcon.bench.command import add_measurement
from falcon.bench.compare import Comparison, Prepared, Say, Side, SideError
from falcon.bench.records import FALCON
from falcon.bench.run import run
from falcon.bench.system import process_bytes, reset_peak
from falcon.bench.workloads import Case, Shape

# Within `falcon.dask.placed`.
PLACED = f"{FALCON}, placed"
# A side that takes longer than so many times falcon's time, and this long, is stopped.
MOST_TIMES, LEAST_SECONDS = 10.0, 120.0
CHUNK = 4096


class OnDask(Comparison):
    """falcon.dask, and Dask's own product of the same arrays; with --memory each runs once."""

    calls = 1

    def __init__(self, options: argparse.Namespace) -> None:
        cases = [Case("dask", Shape(*options.sizes), name) for name in options.dtype]
        super().__init__(options, {"scheme": options.scheme}, cases)
        self.options = options
        if options.threads is None:  # of each task, as falcon.dask counts them
            self.threads = max(1, thread_count() // options.workers)
        self.settings["threads"] = self.threads
        if options.memory:
            self.rounds = self.most = 1

    def identity(self, machine: dict[str, Any]) -> dict[str, Any]:
        """Return also how the cluster is made."""
        names = ("memory", "workers", "chunk")
        return super().identity(machine) | {name: getattr(self.options, name) for name in names}

    @contextmanager
    def sides(self, case: Case, say: Say) -> Iterator[Prepared]:
        """Yield sides on a new cluster, whose workers have imported what they need."""
        options = self.options
        logging.getLogger("distributed").setLevel(logging.ERROR)
        dtype = dtype_of(case.dtype).numpy
        chunk = options.chunk or chunk_of(options.memory, dtype)
        settings = {**self.settings, "reread": bool(options.memory)}
        ours = partial(falcon.dask.matmul, **settings)
        multiply: dict[str, Callable[[Any, Any], Any]] = {FALCON: ours}
        if options.workers > 1 and not options.memory:
            multiply[PLACED] = ours
        multiply["dask.array.matmul"] = da.matmul
        limit = f", {options.memory / 2**30:.3g} GiB each" if options.memory else ""
        note = (
            f"chunks of {chunk}, {options.workers} workers{limit}, {self.threads} BLAS threads each"
        )
        with (
            TemporaryDirectory() if options.memory else nullcontext() as made,
            LocalCluster(n_workers=options.workers, memory_limit=options.memory or "auto",
                         threads_per_worker=1, dashboard_address=":0", silence_logs=50) as cluster,
            Client(cluster) as client,
        ):  # fmt: skip
            client.wait_for_workers(options.workers)
            client.register_plugin(NumpyThreads(self.threads))
            small = [da.ones((64, 64), chunks=32, dtype=dtype)] * 2
            for call in multiply.values():
                call(*small).compute()  # imports
            folder = None if made is None else Path(made)
            if folder is not None:
                client.run(import_module, "zarr")
                for name, x in zip("xy", random_operands(case, chunk), strict=True):
                    with dask.config.set(scheduler="synchronous"):  # chunk by chunk, here
                        stored(x, folder / name).compute()
            rest = sum(memory_of(client, "VmRSS"))
            sides = [Product(name, call, client, partial(operands_of, case, chunk, folder), folder,
                              rest) for name, call in multiply.items()]  # fmt: skip
            for x in sides:
                x.first = sides[0]
            yield Prepared([Side(x.name, x, 0.0, about=x.about) for x in sides], note=note)


class NumpyThreads(WorkerPlugin):
    """Gives NumPy's BLAS the threads of falcon's products; Distributed starts workers with one."""

    def __init__(self, threads: int) -> None:
        self.threads = threads

    def setup(self, worker: Any) -> None:
        """Run on each worker, and again if it restarts."""
        blas = numpy_blas()
        if blas is not None:
            blas.set(self.threads)


def chunk_of(memory: int | None, dtype: np.dtype) -> int:
    """Return the lines of a chunk: a sixteenth of a worker's memory, a multiple of 256.

    A task holds four: two that it reads, a copy while reading, and one of C; Python takes 150 MiB.
    """
    side = CHUNK if memory is None else int((memory / 16 / dtype.itemsize) ** 0.5)
    return max(256, side // 256 * 256)


def random_operands(case: Case, chunk: int) -> list[Any]:
    """Return operands that tasks make."""
    shape, dtype = case.shape, dtype_of(case.dtype)
    random = da.random.default_rng(case.seed)
    make = partial(random.integers, -9, 10) if dtype.is_exact else random.standard_normal
    sizes = (shape.M, shape.K), (shape.K, shape.N)
    return [make(size=x, chunks=chunk).astype(dtype.numpy) for x in sizes]


def operands_of(case: Case, chunk: int, folder: Path | None) -> list[Any]:
    """Return x and y, read from files or made anew in the memory of the workers."""
    if folder is not None:
        return [da.from_zarr(str(folder / name)) for name in "xy"]
    made = [x.persist() for x in random_operands(case, chunk)]
    wait(made)
    return made


def stored(x: Any, path: Path) -> Any:
    """Return what computes the chunks of x and writes them to a Zarr file."""
    from zarr import create_array

    target = create_array(str(path), shape=x.shape, dtype=x.dtype, chunks=x.chunksize,
                          compressors=None, overwrite=True)  # fmt: skip
    return x.store(target, lock=False, compute=False)


@dataclass
class Product:
    """A side: its product, timed on operands that are made anew, and what it took."""

    name: str
    multiply: Callable[[Any, Any], Any]
    client: Any
    operands: Callable[[], list[Any]]
    folder: Path | None
    rest: int  # bytes of all workers at rest
    first: Product = field(init=False)  # that of the first side
    seconds: float = inf
    held: int = 0  # bytes of operands and result in memory
    # Of each product: the bytes that were sent, and the peak of each worker.
    sent: list[int] = field(default_factory=list)
    peaks: list[list[int]] = field(default_factory=list)
    # Of the first product.
    tasks: int = 0
    check: Any = None

    def __call__(self, calls: int) -> float:
        """Multiply once; return the seconds. Chunks of operands lie in one place each."""
        x, y = self.operands()
        self.client.run(reset_peak)
        before, start = self._moved(), perf_counter()
        product = self.multiply(x, y)
        if self.folder is None:
            with falcon.dask.placed(x, y, product) if self.name == PLACED else nullcontext():
                c = self._computed(product.persist())
            self.held = x.nbytes + y.nbytes + c.nbytes
        else:
            self._computed(self.client.persist(stored(product, self.folder / "c")))
            c = da.from_zarr(str(self.folder / "c"))
        self.seconds = perf_counter() - start
        self.sent.append(self._moved() - before)
        self.peaks.append(memory_of(self.client, "VmHWM"))
        if self.check is None:
            given = dict(x.__dask_graph__()).keys() | dict(y.__dask_graph__()).keys()
            self.tasks = len(dict(product.__dask_graph__()).keys() - given)
            self.check = falcon.dask.verify(x, y, c)
        return self.seconds

    def about(self, _: float) -> dict[str, Any]:
        """Return the fields of a side; bytes sent differ from time to time, as tasks' places do."""
        is_ours = self.name in (FALCON, PLACED)
        together = max(map(sum, self.peaks))
        facts = {
            "peak GiB": max(map(max, self.peaks)) / 2**30,
            "of all": together / 2**30,
            "beyond": max(0, together - self.rest - self.held) / 2**30,
            "moved GiB": mean(self.sent) / 2**30,
            "tasks": self.tasks,
            "Freivalds": "passed" if self.check else self.check.why,
        }
        version = falcon.__version__ if is_ours else dask.__version__
        return {"library": "falcon" if is_ours else "Dask", "version": version, "error": None,
                "correct": bool(self.check) or not self.check.why.startswith("wrong"),
                "facts": facts}  # fmt: skip

    def _computed(self, x: Any) -> Any:
        """Wait until all tasks of x are done; return it."""
        most = None
        if self.first is not self:
            most = max(LEAST_SECONDS, MOST_TIMES * self.first.seconds)
        try:
            done = wait(futures_of(x), timeout=most).done
        except TimeoutError:
            raise SideError(self.name, f"stopped after {most:.0f} s") from None
        for error in (x.exception() for x in done if x.status != "finished"):
            raise SideError(self.name, f"{type(error).__name__}: {error}".splitlines()[0])
        return x

    def _moved(self) -> int:
        """Return the bytes that workers have sent to others."""
        return sum(self.client.run(sent_by).values())


def sent_by(dask_worker: Any) -> int:
    return int(dask_worker.transfer_outgoing_bytes_total)


def memory_of(client: Any, field: str) -> list[int]:
    """Return a size of each worker's process; 0 where it is not known."""
    return [size or 0 for size in client.run(process_bytes, field).values()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", nargs=3, type=int, metavar=("M", "N", "K"))
    parser.add_argument("--dtype", type=lambda x: x.split(","), default=["float32"],
                        help="several with commas (default float32)")  # fmt: skip
    parser.add_argument("--memory", type=parse_bytes, metavar="BYTES", help="limit of each worker; "
                        "operands and result are then Zarr files in TMPDIR")  # fmt: skip
    parser.add_argument("--workers", type=int, default=2, help="processes (default 2)")
    parser.add_argument("--chunk", type=int, help="lines of a chunk (default 4096, or a sixteenth "
                        "of --memory)")  # fmt: skip
    parser.add_argument("--scheme", default="auto")
    parser.add_argument("--threads", type=int, help="of each task")
    add_measurement(parser)
    options = parser.parse_args()
    return run(OnDask(options), options)


if __name__ == "__main__":
    sys.exit(main())
