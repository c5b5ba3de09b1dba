"""The LCMA driver: every scheme on every instruction set, against whole numbers.

Also accuracy and the workspace of calls. The same bits for any number of threads, and values that
are not finite: tests/contract and the C driver.
"""

from fractions import Fraction
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest

import falcon
from falcon import Scheme, release_workspace, schemes
from falcon._cpu import _core, pool
from falcon._cpu.programs import engine_scheme
from falcon.codegen import combine_b, updates
from falcon.codegen.cpu_emit import operations
from falcon.codegen.program import Instruction, Op, Program
from falcon.schemes import M3, M4, ComplexScheme

from ..contract.places import laid
from . import support
from .support import KINDS, WRITABLE, Guarded, Operand, gemm, layout

# Those with float32 kernels of their own.
ISAS = [x for x in _core.supported_isas() if _core.kernel_info("f32", x)["isa"] == x]
everywhere = pytest.mark.parametrize("isa", ISAS)
REAL = support.DTYPES
DTYPES = {**REAL, "c64": np.complex64, "c128": np.complex128}
both = pytest.mark.parametrize("name", DTYPES)
NAMES = [name for name in schemes.names() if name != "1x1x1:1"]  # that one: test_kernels.py
THREE_LEVELS = "strassen@strassen@strassen"
COMPOSED = ["strassen@3x2x3:15", "winograd@2x2x3:11", "3x3x3:23@strassen", "strassen@2x1x1"]


def changed_basis(step):
    """Strassen's algorithm for A -> PA, B -> BS, C -> PCS: rational if `step` is."""
    s = schemes.get("strassen")
    one, zero = Fraction(1), Fraction(0)
    P, S = np.array([[one, step], [zero, one]]), np.array([[one, zero], [step, one]])
    P_inv, S_inv = np.array([[one, -step], [zero, one]]), np.array([[one, zero], [-step, one]])
    U = [P.T @ u for u in s.U.astype(object)]
    V = [v @ S.T for v in s.V.astype(object)]
    W = [P_inv @ w @ S_inv for w in s.W.astype(object)]
    return Scheme(np.array(U), np.array(V), np.array(W), f"strassen, basis {step}")


DYADIC, THIRDS = changed_basis(Fraction(1, 2)), changed_basis(Fraction(1, 3))


def named(scheme):
    return schemes.get(scheme) if isinstance(scheme, str) else scheme


def whole(rng, shape, largest=4, name="f64"):
    """Small whole numbers, or complex ones."""
    x = support.whole(rng, shape, largest)
    return x if name in REAL else x + 1j * support.whole(rng, shape, largest)


def normal(rng, shape, name):
    """Normal numbers of a type, or complex ones."""
    x = rng.standard_normal(shape)
    return (x if name in REAL else x + 1j * rng.standard_normal(shape)).astype(DTYPES[name])


def exact(x):
    """Whole numbers in a type in which their products are exact."""
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.int64)


def check_exact(scheme, isa, name, shape, rng, *, kinds, alpha, beta, threads):
    """One product of whole numbers through the binding, everything guarded, workspace of NaN."""
    M, N, K = shape
    a, b, c = (
        Operand(*extents, DTYPES[name], kind, bool(rng.integers(2)))
        for extents, kind in zip(((M, K), (K, N), (M, N)), kinds, strict=True)
    )
    largest, kind, form, more = 3, np.int64, scheme, {}
    if name not in REAL:
        largest, kind = 1, np.complex128
        form = ComplexScheme((M3, M4)[rng.integers(2)], scheme)
        more = {"conjugate": tuple(rng.integers(2, size=2).tolist())}
        alpha, beta = alpha * (1 + 1j), beta * (2 - 1j)
    x, y = a.fill(whole(rng, (M, K), largest, name)), b.fill(whole(rng, (K, N), largest, name))
    left, right = (
        z.astype(kind).conj() if conj else z.astype(kind)
        for z, conj in zip((x, y), more.get("conjugate", (0, 0)), strict=True)
    )
    expected = alpha * (left @ right)
    old = c.fill(whole(rng, (M, N), name=name)).astype(kind) if beta else None
    if beta:
        expected += beta * old
    call = {"scheme": engine_scheme(form), "isa": isa, "threads": threads}
    need = layout(x, y, c.array, **call).nbytes
    c.array[...] = old if beta else np.nan
    finite = gemm(
        x, y, c.array, alpha, beta, workspace=Guarded(need).bytes, report=True, **call, **more
    )
    case = f"{form.name} {isa} {name} {more} M, N, K = {shape} {kinds} alpha {alpha} beta {beta}"
    assert finite is True, case
    np.testing.assert_array_equal(c.array, expected, err_msg=case)
    assert c.gaps_untouched(), case


def test_a_multiple_that_a_later_sum_reads_is_kept():
    """Product 0 is of 2 a0, product 1 of that and a1: the engine stores 2 a0 and reads it again."""
    scheme = schemes.Scheme(
        *([[2, 0], [2, 1]], [[Fraction(1, 2), -1], [0, 1]], [[1], [1]]), "a multiple"
    )
    double, plus = Instruction(Op.SCALE, 2, 0, coefficient=2), Instruction(Op.ADD, 3, 2, 1)
    left, made = Program(2, 0, 2, (double, plus)), updates(scheme)
    place = {product: at for at, product in enumerate(made.order)}
    both = [operations(x, place) for x in (left, combine_b(scheme))]
    form = _core.Scheme(*scheme.format, *both, made)
    rng = np.random.default_rng(5)
    a, b = (whole(rng, x).astype(float) for x in ((40, 62), (62, 50)))
    c = np.empty((40, 50))
    gemm(a, b, c, scheme=form)
    np.testing.assert_array_equal(c, a @ b)


@everywhere
@both
@pytest.mark.parametrize("scheme", [*NAMES, *COMPOSED, THREE_LEVELS, DYADIC], ids=str)
def test_every_scheme_bit_for_bit(scheme, isa, name):
    scheme = named(scheme)
    rng = np.random.default_rng(scheme.rank)
    m, k, n = scheme.format
    large = (m * 12 + 1, n * 13 - 1, k * 11 - 1)
    assert float(scheme.e_max) * 9 * large[2] < 2**24  # nothing is rounded
    shapes = [large, (1, 1, 1), (m, n, k), (m + 1, n - 1 or 1, k + 1), (67, 71, 73)]
    for shape in shapes:
        kinds = [str(rng.choice(x)) for x in (list(KINDS), list(KINDS), WRITABLE)]
        alpha, beta = ((1, 0), (2, 0), (1, 1), (-1, 3), (2, -1))[rng.integers(5)]
        how = {"alpha": alpha, "beta": beta, "threads": int(rng.integers(1, 5))}
        check_exact(scheme, isa, name, shape, rng, kinds=kinds, **how)


@both
@pytest.mark.parametrize(
    "scheme", ["strassen", "winograd", "3x3x3:23", "3x4x4:38", "strassen@strassen", "2x3x3:15",
               "5x5x5:93", THREE_LEVELS, THIRDS], ids=str
)  # fmt: skip
def test_error_bound_and_growth(scheme, name):
    rng = np.random.default_rng(8)
    dtype = DTYPES[name]
    shape = (360, 360)
    plan = falcon.plan(shape, shape, dtype, scheme=scheme, backend="cpu")
    wide = {"f32": np.float64, "f64": np.longdouble, "c64": np.complex128}.get(name, np.clongdouble)
    ratios = []
    for _ in range(2):
        a, b = normal(rng, (2, *shape), name)
        exact = a.astype(wide) @ b.astype(wide)
        # The classical algorithm on the same blocks, each of them one sum from left to right: what
        # growth is relative to.
        blocked = np.zeros(shape, dtype)
        for block in np.array_split(np.arange(shape[1]), plan.scheme.k):
            part = np.zeros(shape, dtype)
            for l in block:
                part += a[:, l, None] * b[l]
            blocked += part
        error = plan(a, b) - exact
        assert abs(error).max() > 0
        assert (abs(error) <= plan.error_bound(a, b, proved=True)).all()
        ratios.append(float(np.linalg.norm(error) / np.linalg.norm(blocked - exact)))
    assert np.median(ratios) == pytest.approx(plan.growth, rel=0.1)


@pytest.fixture
def ledger(monkeypatch):
    """The sizes of the workspaces that are allocated."""
    sizes = []
    made = SimpleNamespace(Workspace=lambda n: sizes.append(n) or _core.Workspace(n))
    monkeypatch.setattr(pool, "_core", made)
    monkeypatch.setattr(pool.shared(), "_allocate", made.Workspace)
    return sizes


@both
def test_a_limit_above_what_is_kept_otherwise_is_used(name, ledger, doors):
    """Fewer passes, and the next call finds the workspace; at most a share of the memory."""
    rng = np.random.default_rng(11)
    # Plans are cached, so this test has shapes of its own.
    a, b = (whole(rng, x, name=name).astype(DTYPES[name]) for x in ((517, 523), (523, 541)))
    least = (1 if name in REAL else 2) << 20
    small = doors.memory(kept=least)
    options = {"backend": "cpu", "scheme": "strassen@strassen", "threads": 2}
    usual = falcon.plan(a, b, **options)
    assert usual.workspace <= least
    plan = falcon.plan(a, b, workspace_limit=1 << 26, **options)
    assert least < plan.workspace <= 1 << 26
    assert np.prod(plan.method.chunks) > np.prod(usual.method.chunks)
    for limit in (1 << 26, None, 1 << 26):
        c = falcon.gemm(a, b, workspace_limit=limit, **options)
        np.testing.assert_array_equal(c, exact(a) @ exact(b))
    assert ledger == [plan.workspace]
    assert small.nbytes == plan.workspace
    doors.memory(largest=2 * least)
    assert falcon.plan(a, b, workspace_limit=1 << 40, **options).workspace <= 2 * least


def test_more_threads_than_the_passes_were_chosen_for_keep_the_limit():
    """16 threads share tiles so that A is packed as a whole; M was cut as for 8, which don't."""
    limit, shapes = 64 << 20, ((2571, 7282), (7282, 127))
    options = {"scheme": "classical", "backend": "cpu", "workspace_limit": limit}
    for threads in (1, 8, 16, 64):
        assert falcon.plan(*shapes, "float32", threads=threads, **options).workspace <= limit


@pytest.mark.parametrize("who", ["a", "out"])
@pytest.mark.parametrize("lies", ["rows", "columns", "misaligned", "byte-swapped"])
@pytest.mark.parametrize("name", ["f64", "c64"])
@pytest.mark.parametrize("scheme", ["classical", "2x3x4:20", "strassen@3x2x3:15"])
def test_a_limit_counts_every_buffer_or_is_refused(scheme, name, who, lies, ledger):
    """Operands and results that the engine cannot address are copied: inside the limit."""
    rng, kept, K = np.random.default_rng(10), 0, 341 if who == "a" else 1041
    a, b = (whole(rng, x, name=name).astype(DTYPES[name]) for x in ((131, K), (K, 257)))
    c = np.ones((131, 257), a.dtype)
    expected = exact(a) @ exact(b)
    room = {"a": a, "out": c}[who].nbytes if lies in ("misaligned", "byte-swapped") else 0
    left = laid(a, lies) if who == "a" else a
    for limit, threads, beta in product((None, 1 << 22, 1 << 20, 400_000), (1, 2), (0, 1)):
        how = {"backend": "cpu", "scheme": scheme, "threads": threads, "workspace_limit": limit}
        release_workspace()
        ledger.clear()
        into = laid(c, "rows" if who == "a" else lies)
        try:
            falcon.gemm(left, b, c if beta else None, beta=beta, out=into, **how)
        except ValueError as error:
            assert "workspace_limit" in str(error) and room + (limit or 0) < 1 << 21
            continue
        np.testing.assert_array_equal(into, expected + beta)
        assert len(ledger) <= 1
        assert limit is None or sum(ledger) + room <= limit
        if lies == "rows" and not beta:
            assert sum(ledger) == falcon.plan(a, b, **how).workspace
        kept += limit is not None
    assert kept
    release_workspace()


@pytest.mark.parametrize("threads", [1, 2, 8])
@pytest.mark.parametrize("kib", range(100, 1100, 100))
def test_classical_panels_of_tiles_count_in_the_limit(kib, threads):
    """Whether tiles pack panels for themselves or for all is decided after the search."""
    for shape in ((300, 290, 310), (1000, 60, 900), (60, 1000, 900)):
        least = _core.plan(*shape, "f64", threads=threads, limit=1).nbytes
        found = _core.plan(*shape, "f64", threads=threads, limit=kib << 10).nbytes
        assert found <= max(kib << 10, least)


@pytest.mark.parametrize("tiny", [1e-6, 0])
@pytest.mark.parametrize("orders", ["CC", "FF", "sC", "Cs"])
@pytest.mark.parametrize("name", ["c64", "c128"])
def test_parts_of_very_different_size_take_four_products(name, orders, tiny, caplog):
    """Three keep the error of a complex number small; four that of its smaller part, too."""
    rng = np.random.default_rng(14)
    unit = np.finfo(DTYPES[name]).eps
    a, b = (normal(rng, (660, 660), name) for _ in range(2))
    even = falcon.plan(a, b, backend="cpu")
    assert even.method.product == "3M" and even.guarded and even.growth > 1.4
    limits = {"backend": "cpu", "max_growth": 1.5}
    assert falcon.plan(a, b, **limits).method.label == "3M"
    assert falcon.plan(a, b, **limits | {"max_growth": 1.0}).method.label == "4M"
    assert falcon.pack(b, backend="cpu").scheme.name.startswith("3M")
    for x in (a, b):
        x.imag *= tiny
    a, b = (
        np.repeat(np.repeat(x, 2, 0), 2, 1)[::2, ::2]
        if order == "s"
        else np.asarray(x, order=order)
        for x, order in zip((a, b), orders, strict=True)
    )
    wide = np.clongdouble if name == "c128" else np.complex128
    want = a[::20].astype(wide) @ b.astype(wide)
    with caplog.at_level("DEBUG", "falcon"):
        got = falcon.gemm(a, b, backend="cpu")
    assert "takes four real products" in caplog.text
    three = falcon.gemm(a, b, backend="cpu", scheme="strassen")
    assert not tiny or abs(three[::20].imag - want.imag).max() > 1e3 * unit * abs(want.imag).max()
    packed = falcon.pack(b, backend="cpu")
    assert packed.scheme.name == "4M"
    for c in (got, falcon.gemm(a, packed)):
        assert abs(c[::20].imag - want.imag).max() <= 8 * unit * abs(want.imag).max()


@everywhere
@pytest.mark.parametrize(("scale", "size"), [(2.0**64, 2.0**-20), (2.0**-75, 2.0**20)])
def test_factors_beyond_float32_are_undone(isa, scale, size):
    """1 / (r c) is no float32, but the product by it is."""
    rng = np.random.default_rng(11)
    a, b = (size * rng.standard_normal(x).astype("f4") for x in ((40, 30), (30, 70)))
    factors = [np.full(n, scale) for n in (40, 70)]
    options = {"isa": isa, "scheme": engine_scheme(schemes.get("strassen"))}
    even, found = np.empty((40, 70), "f4"), np.empty((40, 70), "f4")
    gemm(a, b, even, **options)
    scales = {"row_scales": 1 / factors[0], "column_scales": 1 / factors[1]}
    gemm(a * np.float32(scale), b * np.float32(scale), found, **options, **scales)
    np.testing.assert_array_equal(found, even.astype("f8") * scale**2)
    assert np.isfinite(found).all()
    assert found.all()
