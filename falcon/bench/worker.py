"""A peer library in a process of its own: ``python -m falcon.bench.worker LIBRARY``.

The environment that chooses a library's kernels (OPENBLAS_CORETYPE, MKL_*, OMP_*) must be set
before it is loaded, so every peer runs in a fresh process. The first line of its input is the
scheme of a file that FALCON_SCHEME names, or empty. Requests and replies are lines of JSON: the
name of a method of `Server` ("do") with its arguments, and what it returns.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np

import falcon
from falcon._core.dtypes import dtype_of
from falcon._tools.timing import Timer
from falcon.schemes.records import from_record

from .adapters import LIBRARIES, Job
from .errors import product_dtype, relative_error
from .operands import mapped
from .records import FALCON, plan_entry
from .system import process_bytes, reset_peak
from .workloads import Shape, operands

_DESCRIBED = Shape(512, 512, 512)


class Server:
    """Answers requests about one peer, whose operands all peers share; its output is its own."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.job: Job | None = None
        self.timer: Timer | None = None
        self.out: np.ndarray | None = None
        self.start = process_bytes("VmRSS")

    def prepare(self, path: str) -> dict[str, Any]:
        """Map the operands, multiply once; return the error, the memory it took, falcon's plan."""
        self.job = self.timer = self.out = None  # frees the last operands
        a, b, index, exact = mapped(path)
        self.out = np.empty((*a.shape[:-1], b.shape[-1]), product_dtype(a.dtype))
        self.job = LIBRARIES[self.name].job(a, b, self.out)
        self.timer = Timer(self.job.run)
        reply: dict[str, Any] = {}
        if self.name == FALCON:
            if a.ndim == 2:
                reply["plan"] = plan_entry(falcon.plan(a, b, self.out.dtype))
            falcon.release_workspace()
        reset_peak()
        self.job.run()
        reply["extra_bytes"] = None
        if self.start is not None:
            held = self.start + a.nbytes + b.nbytes + self.out.nbytes
            reply["extra_bytes"] = max(0, (process_bytes("VmHWM") or 0) - held)
        self.job.fetch()
        reply["error"] = relative_error(self.out[index], exact)
        return reply

    def time(self, repeats: int) -> float:
        """Return the median of the seconds of some calls."""
        assert self.timer is not None
        return self.timer(repeats)

    def spent(self) -> tuple[float, float]:
        """Return the seconds of CPUs that timings have used, and how long they took."""
        assert self.timer is not None
        return self.timer.spent()

    def describe(self, dtypes: list[str]) -> dict[str, dict[str, Any]]:
        """Multiply once in each type; return by type what the library tells of itself."""
        library, told = LIBRARIES[self.name], {}
        for dtype in dtypes:
            a, b = operands(_DESCRIBED, dtype_of(dtype).numpy, seed=0)
            out = np.empty((_DESCRIBED.M, _DESCRIBED.N), product_dtype(a.dtype))
            library.job(a, b, out).run()
            told[dtype] = library.describe(dtype_of(dtype))
        return told


def main() -> int:
    """Serve requests from standard input until it closes."""
    server = Server(sys.argv[1])
    if scheme := json.loads(sys.stdin.readline()):
        falcon.schemes.register(from_record(json.loads(scheme)))
    for line in sys.stdin:
        request = json.loads(line)
        try:
            reply = {"done": getattr(server, request.pop("do"))(**request)}
        except Exception as error:  # reported to the parent, which names the peer
            reply = {"failed": f"{type(error).__name__}: {error}"}
        print(json.dumps(reply), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
