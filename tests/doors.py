"""Doors: the one place where tests reach into modules of falcon that are no interface.

A test asks for the fixture `doors`, and says what it needs: rates, an empty state, a clock, little
memory. What it takes to bring that about stands here, and is undone after the test. What falcon has
an option, a setting or an environment variable for needs no door.
"""

import os
import time
from importlib import import_module

import numpy as np

from falcon._backends import BACKENDS
from falcon._core.plan import Candidate, Method, Plan
from falcon._core.policy import BLAS, PACKED, host_policy
from falcon._core.problem import Problem
from falcon._front import calls, planner
from falcon._front.planner import weight
from falcon.decision import machine
from falcon.decision.search import Search, preferred, weighted
from falcon.decision.select import digest
from falcon.decision.ways import Way, named_row, ways

# What tests of these values and functions themselves are about.
__all__ = ["BLAS", "PACKED", "Candidate", "Doors", "Method", "Plan", "Problem", "decided", "digest",
           "forget_calls", "host_policy", "named_row", "preferred", "ways", "weight",
           "weighted"]  # fmt: skip

# Numbers that a test changes, so that little work or little time shows what they limit.
NUMBERS = {
    "kept_calls": "falcon._front.calls._MOST",
    "kept_plans": "falcon._front.planner._CACHED_PLANS",
    "rows_to_pack_for": "falcon._front.pack._USUAL_ROWS",
    "checked_size": "falcon._front.check.steps._LEAST",
    "copied_at_once": "falcon._cpu.residues._ELEMENTS",
    "disturbed": "falcon._core.fit._DISTURBED",
    "least_cpu": "falcon._core.fit._LEAST_CPU",
    "first_progress": "falcon._core.progress._FIRST",
    "next_progress": "falcon._core.progress._NEXT",
    "renewed_progress": "falcon._core.progress._RENEWED",
    "verified_work": "falcon.schemes.loaders._MOST_WORK",
    "drawn_numbers": "falcon.schemes.drawing._WRITTEN",
    "least_starting": "falcon.bench.peers._LEAST_STARTING",
    "coretypes": "falcon.bench.peers._CORETYPES",
    "walk": "falcon.discover.worker.WALK",
    "moves": "falcon.discover.improve.MOVES",
    "first_walk": "falcon.discover.walk.families.FIRST_WALK",
    "extended_walk": "falcon.discover.walk.families.EXTENDED_WALK",
    "walks": "falcon.discover.walk.families.WALKS",
    "symmetric": "falcon.discover.numerical.hops.SYMMETRIC",
    "integral_moves": "falcon.discover.numerical.integral.MOST_MOVES",
    "rough": "falcon.discover.numerical.reals.ROUGH",
    "fine": "falcon.discover.numerical.reals.FINE",
    "gpu_run": "falcon._gpu.rates._RUN",
    "gpu_warm_up": "falcon._gpu.rates._WARM_UP",
    "gpu_sizes": "falcon._gpu.rates._MEASURED_SIZE",
    "asked_again": "falcon._gpu.workspaces._AGAIN",
    "flags": "falcon._gpu.repaired._MOST",
    "resident": "falcon._gpu.geometry._REPAIR_RESIDENT",
    "torch_product": "falcon.torch.ops.LEAST_PRODUCT",
    "torch_rows": "falcon.torch.ops.LEAST_ROWS",
}


def forget_calls():
    """Drop the plans and calls that are kept."""
    calls._calls.clear()
    planner._plans.clear()


def decided(problem, options, backends, rates):
    """Return what the decision chooses on a machine of these rates, a function of a backend."""

    class OnMachine(Search):
        def rates(self, way):
            return rates(way.backend)

        def source(self, way):
            return "made up"

    return OnMachine(problem, options, [Way(x) for x in backends], backends).plan()


class Clock:
    """A clock that only timed calls and pauses move."""

    def __init__(self):
        self.now, self.slept = 0.0, []

    def move(self, seconds):
        self.now += seconds

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.move(seconds)


class Doors:
    """See the module."""

    def __init__(self, monkeypatch):
        self._patch = monkeypatch

    def _put(self, place, value):
        """Replace what stands at "module.name" or, as a pair, at a name of an object."""
        owner, name = place if type(place) is tuple else place.rsplit(".", 1)
        self._patch.setattr(import_module(owner) if type(owner) is str else owner, name, value)

    def numbers(self, **values):
        """Give `NUMBERS` other values."""
        for name, value in values.items():
            self._put(NUMBERS[name], value)

    # --- state ------------------------------------------------------------------------------

    def forget(self):
        """Let no call and no plan be kept; return the two tables."""
        for name in ("calls._calls", "planner._plans", "calls.forms"):
            self._put(f"falcon._front.{name}", {})
        self._put("falcon._front.contract.forms", calls.forms)
        return calls._calls, planner._plans

    def new_process(self):
        """Know no profile and no rates, as a process that starts."""
        for name in ("machine._profiles", "rates._rates"):
            self._put(f"falcon.decision.{name}", {})
        machine.replaced()

    def environment(self, **variables):
        """Set variables (None: to nothing), and let falcon read its settings again."""
        for name, value in variables.items():
            if value is None:
                self._patch.delenv(name, raising=False)
            else:
                self._patch.setenv(name, value)
        self._put("falcon._core.options._base", None)

    def nothing_registered(self):
        """Choices that `tune` has stored count, whatever schemes other tests register."""
        self._put("falcon.decision.select.generation", lambda: 0)

    # --- a machine --------------------------------------------------------------------------

    def rates(self, found):
        """Decide by these rates, or by a function of backend, problem, backends and operand."""
        known = found if callable(found) else lambda *_, **__: found
        self._put("falcon.decision.methods.rates", known)
        self.forget()

    def memory(self, kept=None, large=None, largest=None):
        """Bytes of the workspace that is kept, of a larger one, of one that was allowed.

        Returns the pool, if `kept` is given.
        """
        from falcon._cpu import pool

        made = None if kept is None else pool.Pool(kept)
        for place, value in (("pool.shared", made), ("blocking.large_bytes", large),
                             ("blocking.largest_bytes", largest)):  # fmt: skip
            if value is not None:
                self._put(f"falcon._cpu.{place}", lambda value=value: value)
        return made

    def no_memory(self, most):
        """Refuse arrays and workspaces of more bytes."""
        empty = np.empty

        def few(shape, *about, **more):
            if empty((0,), *about, **more).itemsize * np.prod(shape) > most:
                raise MemoryError(f"no room for {shape}")
            return empty(shape, *about, **more)

        self._put((np, "empty"), few)
        if BACKENDS["cpu"].why_unavailable() is None:
            pool = import_module("falcon._cpu.pool").Pool
            take = pool.take

            def refuse(held, nbytes):
                if nbytes > most:
                    raise MemoryError(f"a workspace of {nbytes} bytes")
                return take(held, nbytes)

            self._put((pool, "take"), refuse)

    def without(self, backend, reason="it is not here"):
        """Let a backend be unavailable, for that reason."""
        self._put((type(BACKENDS[backend]), "why_unavailable"), lambda _: reason)
        self.forget()

    def without_kernels(self, is_missing):
        """Have no kernels of falcon's for some types."""
        from falcon._cpu.extension import has_kernel

        known = lambda row: not is_missing(row) and has_kernel(row)  # noqa: E731
        self._put("falcon._cpu.backend.has_kernel", known)
        self.forget()

    def isa(self, name):
        """Decide as with the kernels of an instruction set."""
        self._put("falcon._cpu.backend.isa", lambda: name)

    def unmeasurable(self):
        """Let measuring a host backend fail."""
        for backend in BACKENDS.values():
            self._put((type(backend), "measure"), lambda *_, **__: 1 / 0)

    def measured_on_gpu(self, found):
        """Measure these rates on a GPU."""
        self._put("falcon._gpu.backend.measure", lambda *_: found)

    # --- time -------------------------------------------------------------------------------

    def clock(self):
        """Return a `Clock` that time.perf_counter, monotonic and sleep go by."""
        made = Clock()
        for name in ("perf_counter", "monotonic"):
            self._put((time, name), lambda: made.now)
        self._put((time, "sleep"), made.sleep)
        return made

    def no_pauses(self):
        """Do not rest between timings."""
        self._put((time, "sleep"), lambda _: None)

    def turns(self, found, of="falcon._front.tune"):
        """Time sides in turn by a function in place of `interleave`."""
        self._put(f"{of}.interleave", found)

    # --- products ---------------------------------------------------------------------------

    def watched(self, owner, *names, seen=lambda *operands, **_: operands):
        """Note what `seen` returns for each call of these functions; return the notes."""
        notes = []
        for name in names:
            inner = getattr(owner, name)

            def call(*operands, inner=inner, **options):
                notes.append(seen(*operands, **options))
                return inner(*operands, **options)

            self._put((owner, name), call)
        return notes

    def validated(self):
        """Note the functions whose calls are validated: those that are not recalled."""
        return self.watched(planner, "merged", seen=lambda name, *_: name)

    def multiplied(self, seen=lambda plan, count: plan):
        """Note `seen` of every plan that runs, and of how many products; no call is recalled."""
        notes = []
        note = lambda plan, _, count: notes.append(seen(plan, count))  # noqa: E731
        self._put("falcon._core.observe.observers", (note,))
        return notes

    def wrong(self, change):
        """Let `change` have every result of NumPy's backend, and of products modulo p."""
        for path in ("falcon._numpy.backend.NumpyBackend", "falcon._front.modular.Modular"):
            module, _, name = path.rpartition(".")
            owner = getattr(import_module(module), name)

            def wrong(self, plan, a, b, c, out, execute=owner.execute, **options):
                execute(self, plan, a, b, c, out, **options)
                change(out)

            self._put((owner, "execute"), wrong)

    def packs(self, always):
        """Let `falcon.pack` make panels of what it would choose by time, or never."""
        self._put("falcon._front.pack.weight", lambda plan: plan.problem.packed != always)

    def every_scheme_is_worked_out(self):
        """Let no bound exclude a scheme."""
        bounds = lambda *x, **_: [(0.0, at) for at in range(len(x[1]))]  # noqa: E731
        self._put("falcon.decision.limits.bounds", bounds)
