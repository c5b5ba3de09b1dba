"""Doors: the one place where tests reach into modules of falcon that are no interface.

A test asks for the fixture `doors`, and says what it needs: rates, an empty state, a clock, little
memory. What it takes to bring that about stands here, and is undone after the test. What falcon has
an option, a setting or an environment variable for needs no door.
"""

import re
import time
from functools import cache
from importlib import import_module

from falcon import plan
from falcon._backends import BACKENDS
from falcon._core.plan import Candidate, Method, Plan
from falcon._core.policy import BLAS, PACKED, host_policy
from falcon._core.problem import Problem
from falcon._core.residues import ResidueRunner
from falcon._front import calls, planner
from falcon._front.planner import compared_seconds_of
from falcon._numpy.runner import NumpyRunner
from falcon.decision import machine, rates
from falcon.decision.library import is_faster
from falcon.decision.methods import Way
from falcon.decision.search import Search, compared_seconds, preferred
from falcon.decision.select import digest
from falcon.decision.ways import library_ratio, named_row, ways

# What tests of these values and functions themselves are about.
__all__ = ["BLAS", "PACKED", "Candidate", "Doors", "Method", "Plan", "Problem",
           "compared_seconds", "compared_seconds_of", "decided", "digest", "forget_calls",
           "forget_devices", "host_policy", "is_faster", "named_row", "preferred",
           "ways"]  # fmt: skip

# Numbers that a test changes, so that little work or little time shows what they limit.
NUMBERS = {
    "kept_calls": "_front.calls._MOST", "kept_plans": "_front.planner._CACHED_PLANS",
    "rows_to_pack_for": "_front.pack._USUAL_ROWS", "checked_size": "_check.steps._LEAST",
    "copied_at_once": "_cpu.residues._ELEMENTS", "disturbed": "_tools.timing._DISTURBED",
    "least_cpu": "_tools.timing._LEAST_CPU", "least_parts": "_front.views._LEAST_PARTS",
    "weighted_panel": "_front.gram_products._PANEL",
    "shortest_part": "_front.views._SHORTEST_PART", "first_progress": "_tools.progress._FIRST",
    "next_progress": "_tools.progress._NEXT", "renewed_progress": "_tools.progress._RENEWED",
    "verified_work": "schemes.loaders.MOST_WORK", "drawn_numbers": "schemes.drawing._WRITTEN",
    "least_starting": "bench.peers._LEAST_STARTING", "coretypes": "bench.peers._CORETYPES",
    "walk": "discover.worker.WALK", "moves": "discover.improve.MOVES",
    "first_walk": "discover.walk.families.FIRST_WALK",
    "extended_walk": "discover.walk.families.EXTENDED_WALK",
    "walks": "discover.walk.families.WALKS", "symmetric": "discover.numerical.hops.SYMMETRIC",
    "integral_moves": "discover.numerical.integral.MOST_MOVES",
    "rough": "discover.numerical.reals.ROUGH", "fine": "discover.numerical.reals.FINE",
    "gpu_run": "_gpu.rates._RUN", "gpu_warm_up": "_gpu.rates._WARM_UP",
    "gpu_sizes": "_gpu.rates._MEASURED_SIZE", "asked_again": "_gpu.workspaces._AGAIN",
    "flags": "_gpu.repaired._MOST", "tile": "_gpu.geometry.LEAST_TILE",
    "least_triangle": "_core.problem._LEAST_TRIANGLE_ON_GPU",
    "resident": "_gpu.geometry._REPAIR_RESIDENT",
    "sampled_mean": "_cpu.norms._SAMPLED_MEAN",
    "sampled_spread": "_cpu.norms._SAMPLED_SPREAD",
    "torch_product": "torch.ops.LEAST_PRODUCT", "torch_rows": "torch.ops.LEAST_ROWS",
}  # fmt: skip


def forget_calls():
    """Drop the plans and calls that are kept."""
    calls._calls.clear()
    planner._plans.clear()


def forget_devices():
    """Know no profile and no rates of GPUs."""
    for known, device in ((rates._rates, lambda x: x[3]), (machine._profiles, lambda x: x)):
        for key in [x for x in known if device(x) is not None]:
            del known[key]


def decided(problem, options, backends, rates):
    """Return what the decision chooses on a machine of these rates, a function of a backend."""

    class OnMachine(Search):
        def rates(self, way):
            return rates(way.backend)

        def source(self, way):
            return "made up"

    ratio = library_ratio(problem, backends, rates)
    some = [Way(x, over=ratio if x.is_library else None) for x in backends]
    return OnMachine(problem, options, some, backends).plan()


class Clock:
    """A clock that only timed calls move, and pauses if they count."""

    def __init__(self, rests):
        self.now, self.slept, self._rests = 0.0, [], rests
        self.share = 1.0  # of a CPU that this process has

    def move(self, seconds):
        self.now += seconds

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += self._rests * seconds


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
            self._put(f"falcon.{NUMBERS[name]}", value)

    def no_costs(self):
        """Know no costs of classical products: rules of sizes say who multiplies."""
        self._put("falcon.decision.ways.library_ratio", lambda *_: None)

    @staticmethod
    def least_workspace(a, b, backend):
        """Return the least bytes that the classical algorithm takes."""
        try:
            return plan(a, b, scheme="classical", backend=backend, workspace_limit=1).workspace
        except ValueError as error:
            return int(re.search(r"needs at least (\d+)", str(error))[1])

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

    def rates(self, found):
        """Decide by these rates, or by a function of backend, problem, backends and operand."""
        known = found if callable(found) else lambda *_, **__: found
        for module in ("ways", "methods"):
            self._put(f"falcon.decision.{module}.rates", known)
        self.forget()

    def machine_rates(self, found):
        """Have these rates where none are measured, whatever is shipped."""
        self._put("falcon.decision.rates.on_threads", lambda *_: found)
        self.new_process()

    def memory(self, kept=None, large=None, largest=None):
        """Bytes of the workspace that is kept, of a larger one, of one that was allowed.

        Returns the pool, if `kept` is given.
        """
        from falcon._cpu import pool

        made = None if kept is None else pool.Pool(kept, pool._core.Workspace)
        for place, value in (("pool.shared", made), ("blocking.large_bytes", large),
                             ("blocking.largest_bytes", largest)):  # fmt: skip
            if value is not None:
                self._put(f"falcon._cpu.{place}", lambda value=value: value)
        return made

    def no_memory(self, most):
        """Refuse workspaces of more bytes."""
        numpy = import_module("falcon._numpy.runner")
        places = [(numpy, "multiply", lambda plan, *_: plan.workspace)]
        if BACKENDS["cpu"].why_unavailable() is None:
            pool = import_module("falcon._cpu.pool").Pool
            places.append((pool, "take", lambda _, nbytes: nbytes))
        for owner, name, needed in places:
            inner = getattr(owner, name)

            def refuse(*x, inner=inner, needed=needed):
                if needed(*x) > most:
                    raise MemoryError(f"a workspace of {needed(*x)} bytes")
                return inner(*x)

            self._put((owner, name), refuse)

    def without(self, backend, reason="it is missing"):
        """Let a backend be unavailable."""
        self._put((type(BACKENDS[backend]), "why_unavailable"), lambda _: reason)
        self.forget()

    def without_kernels(self, is_missing):
        """Have no kernels of falcon's for some types."""
        from falcon._cpu.extension import has_kernel

        self._put("falcon._cpu.backend.has_kernel", lambda x: not is_missing(x) and has_kernel(x))
        self.forget()

    def forced_isa(self, name):
        """Read this of FALCON_ISA, which is read once (None: it is not set)."""
        self._put("falcon._cpu.extension.forced_isa", lambda: name)
        self.forget()

    def isa(self, name):
        """Decide as with the kernels of an instruction set."""
        self._put("falcon._cpu.backend.isa", lambda: name)

    def unmeasurable(self):
        """Let measuring a host backend fail."""
        for backend in BACKENDS.values():
            self._put((type(backend), "measure"), lambda *_, **__: 1 / 0)

    def ships(self, found):
        """Ship these rates of a backend "made up", and no others."""
        rows = [
            import_module("falcon.decision.rates").Row(
                *("", "", "made up", "fast", "float32", 1, found)
            )
        ]
        for name, value in (("_rows_of", rows), ("shipped", rows), ("_is_shipped", True)):
            self._put(f"falcon.decision.rates.{name}", lambda *_, value=value: value)

    def another_cpu(self, family="of another kind"):
        """Be a machine whose kind of CPU is another, or not known."""
        self._put("falcon.decision.rates.cpu_family", lambda: family)
        self._put("falcon.decision.rates._nearest_here", cache(rates._nearest_here.__wrapped__))

    def no_home(self):
        """Have no folder for files that are kept."""
        self._put("falcon.decision.machine.cache_folder", lambda: None)

    def measured_on_gpu(self, found):
        """Measure these rates on a GPU."""
        self._put("falcon._gpu.backend.measure", lambda *_: found)

    def clock(self, rests=True):
        """Return a `Clock` that time.perf_counter, monotonic, process_time and sleep go by."""
        made = Clock(rests)
        for owner, name in ((time, "perf_counter"), (time, "monotonic"),
                            ("falcon._core.fit", "perf_counter")):  # fmt: skip
            self._put((owner, name), lambda: made.now)
        for owner in (time, "falcon._core.fit"):
            self._put((owner, "process_time"), lambda: made.share * made.now)
        self._put((time, "sleep"), made.sleep)
        return made

    def no_pauses(self):
        """Do not rest between timings."""
        self._put((time, "sleep"), lambda _: None)

    def turns(self, found, of="falcon._front.tune"):
        """Time sides in turn by a function in place of `interleave`."""
        self._put(f"{of}.interleave", found)

    def workers(self, made):
        """Let processes of peers be of another class."""
        for module in ("suite", "peers"):
            self._put(f"falcon.bench.{module}.Worker", made)

    def peers(self, table=None, peak=None, machine=None, rates=None, library=None):
        """Give a run these peers, peak, machine, rates of NumPy's kernels, and BLAS of NumPy."""
        places = {
            "bench.peers.TABLE": table,
            "bench.suite.TABLE": table,
            "bench.suite.peak_entry": peak and (lambda threads, dtypes: dict(peak)),
            "bench.compare.describe_machine": machine and (lambda: dict(machine)),
            "bench.gpu.describe_machine": machine and (lambda: dict(machine)),
            "bench.peers.coretype_rates": rates,
            "bench.adapters.numpy_blas": library and (lambda: library),
            "_numpy.threads.numpy_blas": library and (lambda: library),
        }
        for place, value in places.items():
            if value is not None:
                self._put(f"falcon.{place}", value)

    def watched(self, owner, *names, seen=None):
        """Note the name of each of these functions that is called, or what `seen` returns then."""
        notes = []
        for name in names:
            inner = getattr(owner, name)

            def call(*operands, _inner=inner, _name=name, **options):
                notes.append(_name if seen is None else seen(*operands, **options))
                return _inner(*operands, **options)

            self._put((owner, name), call)
        return notes

    def plain(self):
        """Note of products that may be measured with their panels whether that was all."""
        runner, notes = import_module("falcon._cpu.runner"), []

        def multiplied(*x, inner=runner.multiplied):
            found = inner(*x)
            notes.append(found[0] is not None)
            return found

        self._put((runner, "multiplied"), multiplied)
        return notes

    def measured_before(self):
        """Let all operands be measured before their panels are formed."""
        self._put("falcon._cpu.runner.plain_limits", lambda _: None)

    def entered(self, module):
        """Note that a module of the front looks at its operands, as no recalled call does."""
        return self.watched(import_module(f"falcon._front.{module}"), "adapt_operands")

    def validated(self):
        """Note the functions whose calls are validated: those that are not recalled."""
        return self.watched(planner, "merge_keywords", seen=lambda name, *_: name)

    def multiplied(self, seen=lambda plan, count: plan):
        """Note `seen`, if true, of every plan that runs, and of how many products; no recall."""
        notes = []
        note = lambda plan, _, count: notes.extend(filter(None, [seen(plan, count)]))  # noqa: E731
        self._put("falcon._core.observe.observers", (note,))
        return notes

    def keyed(self):
        """Return a function of a call: its key (None: it is not recalled), Problems, and result."""
        problems, keys = self.multiplied(lambda plan, _: plan.problem), []

        def note(a, b, out, arguments, c=None, ndim=None):
            key = calls.key_of(a, b, c, out, arguments)
            is_kept = key is not None and calls._is_apart(key[0], a, b, c, out)
            keys.append((key, id(getattr(b, "calls", None))) if is_kept else None)

        for module in ("gemm", "matmul"):
            self._put(f"falcon._front.{module}.recall", note)

        def of(call):
            problems.clear(), keys.clear()
            result = call()
            return keys[0] if keys else None, list(problems), result

        return of

    def wrong(self, change):
        """Let `change` have every result of NumPy's backend, and of products modulo p."""
        for owner in (NumpyRunner, ResidueRunner):

            def bind(self, *operands, right=owner.bind):
                run = right(self, *operands)

                def wrong(a, b, c, out, *mirror):
                    run(a, b, c, out, *mirror)
                    change(out)

                return wrong

            self._put((owner, "bind"), bind)

    def conversion(self, **functions):
        """Let `falcon.torch.convert_` call other functions, by the names that it has for them."""
        for name, function in functions.items():
            self._put(f"falcon.torch.convert.{name}", function)

    def no_batch_is_torchs(self):
        """Multiply every batch of tensors by falcon."""
        self._put("falcon.torch.ops._is_batch_for_torch", lambda *_: False)

    def forget_torchs_products(self):
        """Do not know which products are torch's."""
        self._put("falcon.torch.stock._known", {})

    def packs(self, always):
        """Let `falcon.pack` make panels of what it would choose by time, or never."""
        self._put(
            "falcon._front.pack.compared_seconds_of", lambda plan: plan.problem.packed != always
        )

    def every_scheme_is_worked_out(self):
        """Let no bound exclude a scheme."""
        bounds = lambda *x, **_: [(0.0, at) for at in range(len(x[1]))]  # noqa: E731
        self._put("falcon.decision.methods.bounds", bounds)
