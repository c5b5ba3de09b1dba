"""`bench` by itself: falcon's choice, its classical path and NumPy, in this process."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import numpy as np

import falcon
from falcon._backends import LIBRARY
from falcon._core.dtypes import DType, dtype_of
from falcon._numpy.threads import limited
from falcon._tools.timing import PAUSE, variation

from . import compare
from .adapters import LIBRARIES
from .compare import Comparison, Prepared, Say, Side, own_classical
from .errors import Sample
from .records import CLASSICAL, FALCON, NUMPY, PACKED, panel_bytes, plan_entry
from .workloads import Case, operands


class BesideNumpy(Comparison):
    """Falcon's choice, its classical path and np.matmul; packed, if B is a layer's weights."""

    budget = 300.0

    def __init__(self, options: argparse.Namespace, settings: dict[str, Any]) -> None:
        if settings["modulus"] is not None:
            options.dtype = "int64"
        cases = compare.cases(options, "cpu")
        if cases[0].workload == "cpu":
            print(f"no shape given: {len(cases)} shapes of language models; one shape, such as "
                  "2048,2048,2048, takes seconds", file=sys.stderr)  # fmt: skip
        cases = compare.that_fit(cases, options.max_gib or 4.0, 3)
        super().__init__(options, settings, cases)

    @contextmanager
    def session(self, document: dict[str, Any], say: Say, seconds: float) -> Iterator[None]:
        """Add a session, and how much equal products of this machine differ."""
        with super().session(document, say, seconds):
            say("how much this machine varies")
            x, out = np.ones((384, 384), np.float32), np.empty((384, 384), np.float32)
            least = min(2.0, self.case_seconds / 5)
            with limited(self.threads):
                varies = variation(partial(np.matmul, x, x, out=out), least)
            document["sessions"][-1]["varies"] = round(varies, 3)
            yield

    @contextmanager
    def sides(self, case: Case, say: Say) -> Iterator[Prepared]:
        """Yield sides that share operands, each with an output of its own, and as many threads."""
        p = self.settings["modulus"]
        with limited(self.threads):  # NumPy's BLAS, which --threads does not reach otherwise
            yield Prepared(self._plain(case) if p is None else self._modulo(case, p))

    def _plain(self, case: Case) -> list[Side]:
        """Return the sides of a product of floats, or of integers that wrap."""
        shape, row = case.shape, dtype_of(case.dtype)
        a, b = operands(shape, row.numpy, case.seed)
        sample = Sample(a, b)

        def side(name: str, library: str, call: Any, **fields: Any) -> Side:
            out = np.empty((*a.shape[:-1], shape.N), row.numpy)

            def about(_: float) -> dict[str, Any]:
                return {**self._described(library, row), **fields, "error": sample.error(out)}

            return Side.of(name, partial(call, out=out), _rest(), about=about)

        def ours(name: str, right: Any, **how: Any) -> Side:
            if shape.batch:
                return side(name, "falcon", partial(falcon.matmul, a, right, **how))
            plan = plan_entry(falcon.plan(a, right, **how))
            call = partial(falcon.gemm, a, right, **how)
            return side(name, "falcon", call, plan=plan, extra_bytes=panel_bytes(right))

        sides = [ours(FALCON, b, **self.settings)]
        if shape.label and not shape.batch:
            packed = falcon.pack(b, rows=shape.M, **self.settings)
            sides.append(ours(PACKED, packed, threads=self.settings["threads"]))
        sides.append(ours(CLASSICAL, b, **own_classical(self.settings, [case.dtype])))
        sides.append(side(NUMPY, "numpy", partial(np.matmul, a, b)))
        return sides

    def _described(self, library: str, row: DType) -> dict[str, Any]:
        """Return what a library tells of itself, of falcon with the threads that are asked for."""
        asked = {"threads": self.threads} if library == "falcon" else {}
        return LIBRARIES[library].describe(row) | asked

    def _modulo(self, case: Case, p: int) -> list[Side]:
        """Return sides of a product modulo p, and float64's product by "auto"."""
        shape, random = case.shape, np.random.default_rng(case.seed)
        a, b = (random.integers(0, p, x) for x in ((shape.M, shape.K), (shape.K, shape.N)))
        u, v = a.astype(np.float64), b.astype(np.float64)
        out, sums = np.empty((shape.M, shape.N), np.int64), np.empty((shape.M, shape.N))
        plan = plan_entry(falcon.plan(a, b, **self.settings))

        def side(name: str, described: str, call: Callable[[], Any], **fields: Any) -> Side:
            about = self._described(described, dtype_of("int64")) | fields
            if "error" not in about:
                about["error"] = 0.0 if falcon.verify(a, b, call(), modulus=p) else float("inf")
            return Side.of(name, call, _rest(), about=lambda _: about)

        how = {"threads": self.settings["threads"]}
        double = {"plan": plan_entry(falcon.plan(u, v, **how)), "error": 0.0}
        sides = [
            side(FALCON, "falcon", partial(falcon.gemm, a, b, out=out, **self.settings), plan=plan),
            side("numpy int64", "numpy", lambda: np.matmul(a, b) % p),
            side("falcon float64", "falcon", partial(falcon.gemm, u, v, out=sums, **how), **double),
        ]
        with suppress(ImportError):
            import flint  # type: ignore[import-not-found]

            flint.ctx.threads = self.threads
            x, y = (flint.nmod_mat(*z.shape, z.ravel().tolist(), p) for z in (a, b))
            about = {"library": "python-flint", "version": flint.__version__, "kernel": "nmod_mat",
                     "threads": self.threads}  # fmt: skip
            sides.append(side("python-flint", "numpy", lambda: x * y, error=0.0, **about))
        return sides


def _rest() -> float:
    """Return the seconds until no threads of a side disturb the next one; "auto" may call NumPy."""
    return LIBRARY.rest + PAUSE
