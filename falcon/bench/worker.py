"""A peer library in a process of its own: ``python -m falcon.bench.worker ADAPTER``.

The environment that chooses a library's kernels (OPENBLAS_CORETYPE, MKL_*, OMP_*) must be set
before it is loaded, so every peer runs in a fresh process. Requests and replies are lines of
JSON::

    {"do": "prepare", "path":}     map the operands, multiply once
        -> {"seconds":, "error":, "extra_bytes":, "plan":}
    {"do": "time", "repeats": 1}   -> {"seconds":} of the fastest of some calls
    {"do": "describe", "dtypes":}  -> `adapters.about`, after a product of each type

The operands are in memory that all peers share; each peer has its own output.
"""

from __future__ import annotations

import ctypes
import json
import re
import sys
from contextlib import suppress
from typing import Any

import numpy as np

import falcon
from falcon._core.dtypes import of
from falcon._core.timing import timed

from .adapters import ADAPTERS, Job, about, load
from .errors import product_dtype, relative_error
from .operands import mapped
from .records import plan_entry
from .workloads import Shape, operands

_DESCRIBED = Shape(512, 512, 512)


class Server:
    """Answers requests about one peer."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.job: Job | None = None
        self.out: np.ndarray | None = None
        self.memory = Memory()

    def prepare(self, path: str) -> dict[str, Any]:
        """Map the operands, multiply once; return the time, the error and the memory it took."""
        self.job = self.out = None  # frees the last operands
        if self.name.startswith("falcon"):
            falcon.release_workspace()
        self.memory.between_jobs()
        a, b, index, exact = mapped(path)
        self.out = np.empty((a.shape[0], b.shape[1]), product_dtype(a.dtype))
        self.out.fill(0)  # touches its memory, unlike np.zeros
        self.job = ADAPTERS[self.name](a, b, self.out)
        # Map all pages of the operands, so that they are not counted as memory of the call.
        for x in (a, b):
            x.ravel(order="K")[::1024].sum()
        reply: dict[str, Any] = {}
        if self.name in ("falcon", "falcon packed"):
            reply["plan"] = plan_entry(
                falcon.plan(a, b, self.out.dtype)
            )  # measures the machine, the first time
            falcon.release_workspace()
        self.memory.before_call()
        reply["seconds"] = timed(self.job.run)
        reply["extra_bytes"] = self.memory.extra()
        self.job.fetch()
        reply["error"] = relative_error(self.out[index], exact)
        return reply

    def time(self, repeats: int) -> dict[str, Any]:
        """Return the fastest of some calls."""
        assert self.job is not None
        return {"seconds": min(timed(self.job.run) for _ in range(repeats))}

    def describe(self, dtypes: list[str]) -> dict[str, Any]:
        """Multiply once per type; return what the library tells of itself."""
        for dtype in dtypes:
            a, b = operands(_DESCRIBED, of(dtype).numpy, seed=0)
            out = np.empty((_DESCRIBED.M, _DESCRIBED.N), product_dtype(a.dtype))
            ADAPTERS[self.name](a, b, out).run()
        return about(self.name, dtypes)


class Memory:
    """The peak memory of a library's call, beyond the operands; Linux only.

    This is the growth during the call plus what the library keeps from earlier calls, without what
    the process used before the first one.
    """

    def __init__(self) -> None:
        self._start = _status("VmRSS")
        self._kept = self._before = 0

    def between_jobs(self) -> None:
        """Measure while there are no operands."""
        with suppress(OSError, AttributeError, TypeError):
            ctypes.CDLL(None).malloc_trim(0)  # returns freed memory to the system
        self._kept = max(0, (_status("VmRSS") or 0) - (self._start or 0))

    def before_call(self) -> None:
        """Measure while operands and result are there, and reset the peak size."""
        self._before = _status("VmRSS") or 0
        try:
            with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
                file.write("5")
        except OSError:
            self._start = None

    def extra(self) -> int | None:
        """Return the bytes; None if the system does not tell them."""
        peak = _status("VmHWM")
        if peak is None or self._start is None:
            return None
        return max(0, peak - self._before) + self._kept


def _status(field: str) -> int | None:
    with suppress(OSError), open("/proc/self/status", encoding="ascii", errors="replace") as file:
        found = re.search(rf"^{field}:\s*(\d+) kB", file.read(), re.MULTILINE)
        return int(found[1]) * 1024 if found else None
    return None


def main() -> int:
    """Serve requests from standard input until it closes."""
    name = sys.argv[1]
    try:
        load(name)
    except ImportError as error:
        print(json.dumps({"absent": str(error)}), flush=True)
        return 0
    print(json.dumps({"ready": name}), flush=True)
    server = Server(name)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            reply = getattr(server, request.pop("do"))(**request)
        except Exception as error:  # reported to the parent, which names the peer
            reply = {"failed": f"{type(error).__name__}: {error}"}
        print(json.dumps(reply), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
