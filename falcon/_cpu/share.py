"""OpenBLAS's jobs run on falcon's threads, so that two pools do not compete for the same CPUs.

After a product, an OpenBLAS's own workers spin for 0.1 s on the CPUs that falcon's helpers need.
OpenBLAS hands the jobs of a call to a callback where it is given one (from 0.3.28; `lend.c`); its
own workers then sleep. LU and what builds on it use them all the same, beside falcon's threads: so
they are started anew, once, with a spin of 0.1 ms. Nothing happens at import, nor before falcon's
kernels run with several threads.

The threads of torch's OpenMP spin as well. A product runs on them meanwhile (`meet`).
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from threadpoolctl import LibController, ThreadpoolController

from falcon._core.options import settings
from falcon._tools import threads
from falcon._tools.locks import ForkLock

from . import _core

# Seconds between two looks at the settings, and at what is loaded.
_EVERY = 0.2
# OpenBLAS's workers spin for 2 to this power cycles.
_SPIN, _VARIABLE = 18, "OPENBLAS_THREAD_TIMEOUT"
# Modules that load a copy of OpenBLAS.
_LOADERS = ("numpy", "scipy.linalg", "scipy.sparse.linalg")

# When `look` is to be called again.
next_look = 0.0
_lock = ForkLock()
_libraries: dict[str, _Library] = {}
_loaded: tuple[bool, ...] = ()


class _Thread(threading.local):
    products, refused = 0, 0  # how many it made, and for which number of threads there is no OpenMP


_thread = _Thread()


@dataclass
class _Library:
    """A copy of OpenBLAS; `why_not`: why it cannot share, "" if it can."""

    controller: LibController
    set_callback: Any = None
    callback: int = 0
    why_not: str = ""
    is_on: bool = False
    is_short: bool = False  # its own workers spin for 0.1 ms only

    @classmethod
    def of(cls, controller: LibController) -> _Library:
        """Find the functions of a copy, by the prefix and suffix of its symbols."""
        made, dynlib = cls(controller), controller.dynlib
        names = [x for x in controller.check_symbols if hasattr(dynlib, x)]
        name = next((x for x in names if "_get_num_threads" in x), "")
        setter = name.replace("_get_num_threads", "_set_threads_callback_function")
        if controller.info().get("threading_layer") != "pthreads":
            made.why_not = "it has no threads of its own"
        elif sys.platform != "linux":
            made.why_not = "falcon does so on Linux only"
        elif not name or not hasattr(dynlib, setter):
            made.why_not = "it is older than 0.3.28"
        else:
            about = dynlib[name.replace("_get_num_threads", "_get_config")]
            about.restype = ctypes.c_char_p
            found = dict(x.split("=") for x in about().decode().split() if "=" in x)
            most = int(found.get("MAX_THREADS", 0))
            if controller.get_num_threads() > most // 2:
                made.why_not = f"it has more than half of the {most} threads it was built for"
            else:
                made.callback = _core.lend_callback(most, controller.get_num_threads())
                made.set_callback = dynlib[setter]
                made.set_callback.argtypes, made.set_callback.restype = [ctypes.c_void_p], None
                made.is_short = not hasattr(dynlib, "blas_thread_init") or _VARIABLE in os.environ
        if not made.why_not and not made.callback:
            made.why_not = "falcon has not as many threads of its own here"
        return made

    def update(self, wanted: bool) -> None:
        """Switch sharing on or off; shorten the spin when nobody is in OpenBLAS."""
        if self.why_not:
            return
        if wanted != self.is_on:
            self.set_callback(self.callback if wanted else None)
            self.is_on = wanted
        if wanted and not self.is_short and _all_others_sleep():
            self.is_short = True
            _start_anew(self.controller.dynlib)

    def __str__(self) -> str:
        shares = "shares falcon's threads" if self.is_on else "has threads of its own"
        why = f" ({self.why_not})" if self.why_not else ""
        return f"OpenBLAS {self.controller.version} {shares}{why}"


def glance() -> None:
    """Look, now and then."""
    if perf_counter() > next_look:
        look()


def look() -> None:
    """Let the loaded copies of OpenBLAS share falcon's threads, or not, as the settings say."""
    global next_look, _loaded
    lock = _lock.lock  # another one in a child that is forked meanwhile
    if not lock.acquire(blocking=False):
        return
    try:
        next_look = perf_counter() + _EVERY
        loaded = tuple(x in sys.modules for x in _LOADERS)
        if loaded != _loaded:
            _loaded = loaded
            for x in ThreadpoolController().lib_controllers:
                if x.internal_api == "openblas" and x.filepath not in _libraries:
                    _libraries[x.filepath] = _Library.of(x)
        wanted = settings().share_threads
        for library in _libraries.values():
            library.update(wanted)
        if not wanted and _core.guests():
            _core.meet(0)
        threads.are_shared = all(x.is_on for x in _libraries.values()) and bool(_libraries)
    finally:
        lock.release()


def meet(count: int, parallel: Callable[[], int]) -> None:
    """Let calls of this thread run on those of an OpenMP while they spin (`guests.c`).

    `count`: of its threads for this one. `parallel` returns the address of its GOMP_parallel, or 0.
    Not at a thread's first product: it may have begun no region, and not begin one.
    """
    known = _core.guests()
    if not settings().share_threads:
        if known:
            _core.meet(0)
    elif known != count > 1 and _thread.refused != count:
        _thread.products += 1
        if _thread.products > 1 and _core.meet(parallel()) != count:
            _core.meet(0)
            _thread.refused = count


threads.meet = meet


def states() -> dict[str, str]:
    """Return, by file name, whether the copies of OpenBLAS that were found share threads."""
    return {Path(path).name: str(x) for path, x in _libraries.items()}


def _all_others_sleep() -> bool:
    """Whether all other threads sleep, so that none is in OpenBLAS; they cannot enter it either.

    A thread that computes runs. One that sleeps waits for the interpreter's lock, which this one
    holds until `_start_anew` is done, or is none of Python's.
    """
    if not getattr(sys, "_is_gil_enabled", lambda: True)() and threading.active_count() > 1:
        return False
    this_thread = threading.get_native_id()
    try:
        for task in Path("/proc/self/task").iterdir():
            state = (task / "stat").read_bytes().rpartition(b")")[2].split()[0]
            if state != b"S" and int(task.name) != this_thread:
                return False
    except (OSError, IndexError):  # a thread ended
        return False
    return True


def _start_anew(dynlib: Any) -> None:
    """Start OpenBLAS's own workers again, with a short spin, without releasing the GIL."""
    library = ctypes.PyDLL(None, handle=dynlib._handle)
    os.putenv(_VARIABLE, str(_SPIN))
    try:
        library.openblas_read_env()
        library.blas_thread_shutdown_()
        library.blas_thread_init()
    finally:
        os.unsetenv(_VARIABLE)
