"""The choice, on made-up machines: the fastest within the limits, with reasons, the same every
time.
"""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from falcon import Scheme, schemes
from falcon._backends import BACKENDS, available_backends
from falcon._core.dtypes import dtype_of
from falcon._core.model import seconds
from falcon._core.options import Options
from falcon._core.rates import Rates
from falcon.decision.candidates import scheme_candidates

from ..doors import Candidate, Method, Problem, decided, host_policy, is_faster, ways

FLOAT, INT = dtype_of("float32"), dtype_of("int32")
# Multiplying is expensive, the rest is cheap: LCMAs win early.
DEAR_PRODUCTS = Rates(multiply=1e9, add=1e12, bandwidth=1e12)
CHEAP_PRODUCTS = Rates(multiply=1e14, add=1e9, bandwidth=1e9)
BIG = Problem(2048, 2048, 2048, FLOAT)


class Made:
    """A backend that plans everything and runs nothing."""

    is_library = False

    def __init__(self, name="made up", *, fused=False, refuses=None, keeps=lambda scheme: True):
        self.name, self.fused, self.refuses, self.keeps = name, fused, refuses, keeps
        self.asked = []
        self.workspace = 1000

    def policy(self, problem):
        return host_policy(problem, has_kernels=problem.operand.has_blas)

    def why_classical_only(self, problem, *_):
        return self.refuses

    def predicted(self, problem, method, rates):
        return Candidate(method, seconds(problem, method, rates))

    def candidates(self, problem, found, limit, *_):
        whole = (problem.M, problem.N, problem.K)
        options = []
        for scheme in found:
            if scheme is None:
                options.append(Method(self.name, None, whole, problem.buffer_bytes, self.fused))
                continue
            self.asked.append(scheme.name)
            if self.keeps(scheme) and (limit is None or self.workspace <= limit):
                options.append(Method(self.name, scheme, whole, self.workspace, self.fused))
        return options


class Machine:
    """Rates per backend, and a count of the measurements."""

    def __init__(self, rates=DEAR_PRODUCTS, **of_backend):
        self.rates, self.of_backend, self.measured = rates, of_backend, []

    def __call__(self, backend, dtype, *_):
        self.measured.append((backend.name, dtype))
        return self.of_backend.get(backend.name, self.rates)


def request(scheme="auto", max_growth=8.0, limit=None, threads=1):
    return Options(scheme=scheme, max_growth=max_growth, workspace_limit=limit)


def choose(problem=BIG, asked=None, backends=None, machine=None):
    backends, machine = backends or [Made()], machine or Machine()
    return decided(problem, asked or request(), backends, lambda x: machine(x, problem))


@pytest.fixture
def cpu(engine):
    return BACKENDS["cpu"]


# --- the fastest ----------------------------------------------------------------------------


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize(
    "rates",
    [
        DEAR_PRODUCTS,
        CHEAP_PRODUCTS,
        Rates(7e10, 5e9, 1.3e9),
    ],
)
@pytest.mark.parametrize("shape", [(2048, 2048, 2048), (4096, 1024, 700), (520, 9000, 3000)])
def test_nothing_considered_is_faster(rates, shape, fused):
    problem, backend = Problem(*shape, FLOAT), Made(fused=fused)
    plan = choose(problem, backends=[backend], machine=Machine(rates))
    # The classical algorithm stays unless a scheme is predicted to gain more than 3 %.
    best = sum(x for _, x in plan.seconds) / (1.03 if plan.scheme is None else 1)
    assert plan.candidates[0].method is plan.method
    assert plan.seconds == seconds(problem, plan.method, rates)
    # Schemes that save additions at the cost of growth are no candidates.
    for name in (x for x in schemes.names() if not x.endswith("-adds")):
        for image in schemes.symmetries(schemes.get(name)):
            parts = (image.m, image.n, image.k)
            blocks = [size // part for size, part in zip(shape, parts, strict=True)]
            if min(blocks) < 64 or image.rms_growth > 8:
                continue
            method = Method(backend.name, image, shape, 0, fused)
            time = sum(x for _, x in seconds(problem, method, rates))
            # Within 3 % the least growth wins.
            assert time * 1.03 >= best * (1 - 1e-9)


def test_extremes():
    plan = choose(machine=Machine(DEAR_PRODUCTS))
    # Nothing but products counts: the fewest are the fastest.
    suited, _ = scheme_candidates().suited_to(BIG, host_policy(BIG), 8.0)
    bounds = [x.counts.m * x.counts.k * x.counts.n / x.counts.rank for x in suited]
    assert plan.scheme.speedup_bound >= max(bounds) * (1 - 0.01)
    (classical,) = (x for x in plan.candidates if x.method.scheme is None)
    gain = classical.total / plan.candidates[0].total
    assert gain == pytest.approx(plan.scheme.speedup_bound, rel=0.02)
    assert plan.why == f"predicted {gain:.3f} x as fast as classical"
    plan = choose(machine=Machine(CHEAP_PRODUCTS))
    assert plan.scheme is None
    assert plan.why == "no scheme is predicted to be faster"
    assert all(x.refused.startswith("combine") for x in plan.candidates[1:])


def test_ties_go_to_less_growth():
    """With memory free and additions free, schemes of a format and rank take the same time."""
    machine = Machine(Rates(1e9, 1e30, 1e30))
    one_level = Problem(1080, 1080, 1080, FLOAT)  # too small for more
    for problem, most in ((one_level, 8.0), (BIG, 2.7)):
        plan = choose(problem, request(max_growth=most), machine=machine)
        first, *others = plan.candidates
        alike = [x for x in others if x.allowed and x.total == first.total]
        levels = [x for x in alike if x.method.levels == first.method.levels]
        assert plan.growth == min(x.method.growth for x in (first, *levels))
        for x in levels:
            assert x.refused == "as fast, but no more accurate"
        assert levels or problem is BIG, "no tie: nothing was tested"


def test_every_candidate_but_the_chosen_has_a_reason():
    plan = choose(asked=request(max_growth=3.0))
    assert plan.candidates[0].refused == ""
    assert all(x.refused for x in plan.candidates[1:])
    labels = [x.method.label for x in plan.candidates]
    assert len(labels) == len(set(labels))
    assert "classical" in labels
    suited, _ = scheme_candidates().suited_to(BIG, host_policy(BIG))
    assert {x.scheme.name for x in suited if x.outer is None} <= set(labels)
    table = plan.explain()
    assert "chosen" in table
    assert "more" in table


def test_few_schemes_are_worked_out():
    """Only those that may win, because it means compiling their sums."""
    backend = Made()
    choose(backends=[backend])
    assert 0 < len(backend.asked) <= 24
    backend = Made()
    choose(backends=[backend], machine=Machine(CHEAP_PRODUCTS))
    assert backend.asked == []


def test_backends_that_cannot_keep_a_scheme():
    """The best that the backend can do is found, however far down the list."""
    backend = Made(keeps=lambda scheme: scheme.name == "strassen")
    plan = choose(asked=request(limit=5000), backends=[backend])
    assert plan.scheme.name == "strassen"
    reasons = {
        x.refused for x in plan.candidates if x.method.label not in ("strassen", "classical")
    }
    assert reasons == {"cannot keep workspace_limit 5000"}


def test_chunks_that_make_a_scheme_slow_or_small():
    machine = Machine(Rates(1e10, 1e12, 1e9))
    first, second = (x.method.label for x in choose(machine=machine).candidates[:2])

    class Chunked(Made):
        def candidates(self, *asked):
            options = super().candidates(*asked)
            small, slow = {"chunks": (100, 100, 100)}, {"again": (1, 30, 1)}
            changes = {first: small, second: slow}
            return [dataclasses.replace(x, **changes.get(x.label, {})) for x in options]

    plan = choose(backends=[Chunked()], machine=machine)
    assert plan.method.label not in (first, second)
    reasons = {x.method.label: x.refused for x in plan.candidates}
    assert reasons[first] == "blocks would be smaller than 64"
    assert "ms slower, combine B by" in reasons[second]


def test_the_first_backend_is_used_unless_it_exceeds_the_limit():
    first, second = Made("first"), Modest()
    assert choose(backends=[first, second]).backend is first
    limited = dataclasses.replace(BIG, buffered=True)
    plan = choose(limited, request(limit=1), [first, second])
    assert (plan.backend, plan.scheme) == (second, None)


def test_a_backend_without_lcmas():
    plain, able = Made("plain", refuses="made so"), Made("able")
    plan = choose(backends=[plain, able])
    assert (plan.backend, plan.scheme, plan.why) == (plain, None, "made so")
    assert plain.asked == []


# --- limits ---------------------------------------------------------------------------------


@pytest.mark.parametrize("max_growth", [1.0, 1.8, 2.0, 2.6, 3.0, 4.0, 8.0])
def test_max_growth(max_growth):
    plan = choose(asked=request(max_growth=max_growth))
    assert plan.growth <= max_growth
    assert (plan.why == "no scheme is within max_growth 1.00") == (max_growth == 1.0)
    for x in plan.candidates:
        assert (x.method.growth > max_growth) == x.refused.startswith("growth ")
        if x.method.growth > max_growth:
            assert x.refused == f"growth {x.method.growth:.2f} > max_growth {max_growth:.2f}"


def test_growth_does_not_matter_for_integers():
    plan = choose(Problem(2048, 2048, 2048, INT), request(max_growth=1.0))
    assert plan.scheme is not None
    assert plan.growth == 1.0
    assert not plan.error_bound(np.ones(2048), np.ones(2048)).any()


@pytest.mark.parametrize("limit", [0, 2**20, 2**26, 2**40])
def test_workspace_limit(limit):
    """With the real backend, which cuts problems into chunks."""
    plan = choose(asked=request(limit=limit), backends=[BACKENDS["numpy"]])
    assert plan.workspace <= limit
    for x in plan.candidates:
        assert x.refused or x.method.workspace <= limit
        if limit == 0 and x.method.scheme is not None:
            assert x.refused == "cannot keep workspace_limit 0"


def test_a_limit_below_what_even_classical_needs():
    problem = dataclasses.replace(BIG, buffered=True)
    for asked in (request(limit=5), request("classical", limit=5)):
        with pytest.raises(
            ValueError, match="workspace_limit is 5 bytes; classical multiplication"
        ):
            choose(problem, asked)


class Modest(Made):
    is_library = True

    def __init__(self):
        super().__init__("modest")

    def candidates(self, *asked):
        return [dataclasses.replace(x, workspace=1) for x in super().candidates(*asked)]


# --- nothing to decide ----------------------------------------------------------------------

SMALL = "a dimension is below {}: too small for any LCMA"


@pytest.mark.parametrize(
    ("problem", "asked", "refuses", "why"),
    [
        (Problem(255, 4096, 4096, FLOAT), {}, None, SMALL.format(256)),
        (Problem(4096, 4096, 1, FLOAT), {}, None, SMALL.format(256)),
        (Problem(95, 4096, 4096, INT), {}, None, SMALL.format(96)),
        (Problem(0, 0, 0, INT), {}, None, SMALL.format(96)),
        (BIG, {"scheme": "classical"}, None, "requested"),
        (BIG, {}, "it is made so", "it is made so"),
    ],
)
def test_nothing_is_measured_where_nothing_is_to_be_decided(problem, asked, refuses, why):
    machine = Machine()
    plan = choose(problem, request(**asked), [Made(refuses=refuses)], machine)
    assert (plan.scheme, plan.why) == (None, why)
    assert machine.measured == []


@pytest.mark.parametrize(
    ("problem", "in_place", "chosen"),
    [
        (Problem(2, 1024, 1024, FLOAT), True, "cpu"),
        (Problem(16, 4096, 4096, FLOAT), True, "cpu"),
        (Problem(16, 4096, 4096, FLOAT), False, "numpy"),
        (Problem(1, 4096, 4096, FLOAT), True, "numpy"),
        (Problem(16, 4096, 4096, FLOAT, b_direct=False), True, "numpy"),
        # More rows multiply while B is read.
        (Problem(17, 4096, 4096, FLOAT), True, "cpu"),
        (Problem(17, 4096, 4096, FLOAT), False, "numpy"),
        (Problem(63, 1024, 4096, FLOAT), True, "cpu"),
        (Problem(64, 1024, 4096, FLOAT), True, "numpy"),
        (Problem(33, 4096, 1024, dtype_of("float64")), True, "cpu"),
        (Problem(32, 4096, 4096, dtype_of("float64")), True, "numpy"),
        (Problem(17, 2048, 2047, FLOAT), True, "numpy"),
        (Problem(17, 1023, 8192, FLOAT), True, "numpy"),
    ],
)
def test_few_rows_read_b_in_place(cpu, monkeypatch, problem, in_place, chosen):
    """Copying B, as a BLAS does, would cost more than the product."""
    from falcon._cpu import blocking

    sizes = problem.M, problem.N, problem.K
    about = {"in_place": False, "is_tiny": False, "is_direct": True, "chunks": sizes}
    layout = SimpleNamespace(b_in_place=in_place, nbytes=0, **about)
    monkeypatch.setattr(blocking, "_layout", lambda *x, **how: layout)
    (method,) = cpu.candidates(problem, (None,), None)
    assert method.b_in_place == (chosen == "cpu")
    plan = choose(problem, backends=[cpu], machine=Machine())
    assert ("copy of B" in plan.why) == (chosen == "cpu")


@pytest.mark.parametrize(("rows", "own"), [(8, False), (64, False), (65, True), (4096, True)])
def test_complex_products_of_few_rows_are_a_librarys(cpu, rows, own):
    problem = Problem(rows, 4096, 4096, dtype_of("complex64"))
    assert is_faster(problem, cpu) == (own and cpu.kernels() != "generic")


@pytest.mark.parametrize(
    ("sizes", "own"),
    [
        ((100, 100, 100), False),
        ((128, 128, 128), True),  # in place
        ((400, 400, 400), True),
        ((7, 700, 700), True),
        ((700, 7, 700), False),
        ((300, 300, 1100), False),
        ((512, 512, 1100), True),
        ((64, 200, 200), True),
        ((4000, 4000, 63), False),
        ((4000, 4000, 64), True),
        ((4000, 63, 4000), False),
        ((4000, 64, 4000), True),
        ((7, 900, 900), False),
        ((4, 4096, 4096), True),  # few rows
    ],
)
def test_small_products_and_short_k_are_a_librarys(cpu, doors, sizes, own):
    """Where costs are not known: falcon's kernels run wherever they are not slower."""
    doors.no_costs()
    problem, own = Problem(*sizes, FLOAT), own and cpu.kernels() != "generic"
    assert is_faster(problem, cpu) == own and not is_faster(problem, BACKENDS["numpy"])
    found = ways(problem, request(), available_backends())
    assert [x.backend.name for x in found] == (["cpu", "numpy"] if own else ["numpy", "cpu"])
    doors.isa("generic")
    assert not is_faster(problem, cpu)


# --- explicit schemes -----------------------------------------------------------------------


def test_a_requested_scheme_is_used():
    machine, scheme = Machine(CHEAP_PRODUCTS), schemes.get("winograd")
    for problem in (BIG, Problem(3, 3, 3, FLOAT), Problem(3, 3, 3, INT)):
        plan = choose(problem, request(scheme, max_growth=1.0), machine=machine)
        assert plan.scheme is scheme
        assert plan.why == "requested"
    assert machine.measured == []


def halves():
    s = schemes.get("strassen")
    return Scheme(s.U * 0.5, s.V * 2, s.W, "halves")


def test_a_requested_scheme_that_does_not_suit():
    with pytest.raises(
        TypeError, match=r"scheme 'halves' cannot multiply .*fractional coefficients"
    ):
        choose(Problem(9, 9, 9, INT), request(halves()))
    assert choose(Problem(9, 9, 9, FLOAT), request(halves())).scheme.name == "halves"
    with pytest.raises(TypeError, match=r"cannot multiply .* float32: made so"):
        choose(asked=request(halves()), backends=[Made(refuses="made so")])
    with pytest.raises(ValueError, match="workspace_limit is 7 bytes; scheme 'halves' cannot"):
        choose(asked=request(halves(), limit=7))


def test_a_requested_scheme_goes_to_the_backend_that_can():
    backends = [Made("no", refuses="made so"), Made("full", keeps=lambda x: False), Made("yes")]
    assert choose(asked=request(schemes.get("strassen")), backends=backends).backend.name == "yes"


def test_fractional_schemes_are_no_candidates_for_integers(clean):
    s = schemes.get("strassen")
    fractional = Scheme(s.U * 0.5, s.V, s.W * 2, "fractional")
    schemes.register(fractional)
    machine = Machine(Rates(1e9, 1e30, 1e30))
    labels = [x.method.label for x in choose(machine=machine).candidates]
    assert "fractional" in labels
    assert "strassen" in labels
    plan = choose(Problem(2048, 2048, 2048, INT), machine=machine)
    labels = [x.method.label for x in plan.candidates]
    assert "fractional" not in labels
    assert "strassen" in labels


# --- purity ---------------------------------------------------------------------------------


def test_the_same_input_gives_the_same_plan():
    backend, machine = BACKENDS["numpy"], Machine(Rates(7e10, 5e9, 1.3e9))
    first, again = (choose(BIG, request(limit=2**27), [backend], machine) for _ in range(2))
    assert (first.method, first.candidates) == (again.method, again.candidates)
    assert first.explain(999) == again.explain(999)


# --- pruning --------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [None, 2**28, 2**24])
def test_pruning_loses_nothing(cpu, doors, limit):
    """The choice is as fast as if every scheme had been worked out."""
    rates = Rates(8.6e10, 9e9, 2.2e9, overlap=0.0, tile=(6, 8))
    random = np.random.default_rng(7)
    problems = [
        Problem(*(int(x) for x in 2 ** random.uniform(9, 13, 3)), FLOAT, threads=2)
        for _ in range(12)
    ]
    asked = request(limit=limit)
    pruned = [choose(x, asked, [cpu], Machine(rates)) for x in problems]
    doors.every_scheme_is_worked_out()
    for problem, plan in zip(problems, pruned, strict=True):
        full = choose(problem, asked, [cpu], Machine(rates))
        assert plan.method == full.method


def test_a_short_batch_of_small_products_is_a_librarys(cpu):
    """One runs without a plan; each of a batch would cost a call."""
    one = Problem(16, 16, 16, FLOAT, a_strided=True, b_strided=True)  # the engine reads a and b
    if not is_faster(one, cpu):
        pytest.skip("no kernels that beat a BLAS")
    for threads in (1, 2):
        for count, own in ((1, True), (3, False), (10**6, threads > 1)):
            problem = dataclasses.replace(one, threads=threads, count=count)
            assert is_faster(problem, cpu) == own
