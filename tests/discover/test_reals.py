"""From real schemes by way of rationals to schemes modulo 2: every step keeps the algorithm."""

import json
import random
from fractions import Fraction

import numpy as np
import pytest

pytest.importorskip("falcon.discover.walk._core", reason="the search core is not compiled")

from falcon import schemes
from falcon.__main__ import main
from falcon.discover.catalogue.library import Library
from falcon.discover.improve import Improver
from falcon.discover.numerical import hops as hops_module
from falcon.discover.numerical import integral, rational, reals
from falcon.discover.numerical import starts as numerical
from falcon.discover.worker import Worker

from .support import reached, residual


def columns(name):
    """U, V, W of a scheme with a column per term."""
    scheme = schemes.get(name)
    return [np.asarray(x, float).reshape(scheme.rank, -1).T for x in (scheme.U, scheme.V, scheme.W)]


def fitted(name):
    return reals.Fit(schemes.get(name).format, np.concatenate(columns(name)))


def fractions(factors):
    return [np.array([[Fraction(y) for y in row] for row in x], object) for x in factors]


def tensor(factors):
    return np.einsum("ar,br,cr->abc", *factors)


def based(factors, dims, bases):
    """Columns of a scheme in other bases: C = A B stays true for every invertible change."""
    m, k, n = dims
    p, q, s = bases
    u, v, w = factors
    rank = u.shape[1]
    inverse = [np.linalg.inv(x) for x in bases]
    u = np.einsum("ia,lb,abr->ilr", p, inverse[1].T, u.reshape(m, k, rank))
    v = np.einsum("la,jb,abr->ljr", q, inverse[2].T, v.reshape(k, n, rank))
    w = np.einsum("ia,jb,abr->ijr", inverse[0].T, s, w.reshape(m, n, rank))
    return [x.reshape(-1, rank) for x in (u, v, w)]


def test_shapes_that_do_not_fit_are_refused():
    fit = fitted("strassen")
    fit.free = fit.free[:-1]
    with pytest.raises(ValueError, match=r"moving has shape \(11, 7\); expected \(12, 7\)"):
        fit.relax(1)
    with pytest.raises(ValueError, match="not empty"):
        reals.Fit((2, 2, 2), np.zeros((12, 0))).relax(1)


def jacobian(fit):
    """Derivatives of the residual by the free entries: it is linear in each of them."""
    x, rows = fit.x, []
    for place in np.argwhere(fit.free):
        ahead, back = x.copy(), x.copy()
        ahead[tuple(place)] += 0.5
        back[tuple(place)] -= 0.5
        made = reals.Fit(fit.dims, ahead).residual() - reals.Fit(fit.dims, back).residual()
        rows.append(made.ravel())
    return np.array(rows)


@pytest.mark.parametrize("rough", [True, False])
@pytest.mark.parametrize("fixed", [0.0, 0.3])
@pytest.mark.parametrize("even", [True, False])
def test_a_step_solves_the_normal_equations(even, fixed, rough, doors):
    doors.numbers(rough=(1e-7, 1000, 1e-4), fine=(1e-12, 1000, 1e-9))
    rng = np.random.default_rng(1)
    fit = reals.Fit((2, 1, 3), rng.standard_normal((11, 18)))  # more terms than a panel's columns
    fit.free = rng.random(fit.x.shape) >= fixed
    weight = np.full(fit.x.shape, 0.3) if even else rng.uniform(0.1, 1, fit.x.shape)
    centre = rng.standard_normal(fit.x.shape)
    rows, free = jacobian(fit), fit.free
    fit.damping = 1.0
    matrix = rows @ rows.T + np.diag(weight[free] + 1)
    slope = rows @ fit.residual().ravel() + (weight * (fit.x - centre))[free]
    expected = fit.x.copy()
    expected[free] -= np.linalg.solve(matrix, slope)
    error = fit.relax(1, weight, centre, rough=rough)
    np.testing.assert_allclose(fit.x, expected, atol=1e-4 if rough else 1e-10)
    np.testing.assert_array_equal(fit.x[~free], expected[~free])
    assert error == pytest.approx(fit.error(), rel=1e-5 if rough else 1e-10)


def test_families_that_run_away_are_left_alone(doors):
    doors.numbers(symmetric=0.0)
    hops = hops_module.Hops((2, 2, 3), 10)  # the border rank: minima come near with endless entries
    rng = np.random.default_rng(3)
    assert all(hops.step(rng) is None for _ in range(60))
    barred, symmetric = hops.state()["barred"]
    assert barred
    assert not symmetric
    for error, _ in hops.minima:
        assert all(abs(error - other) >= hops_module.FAMILY * other for other in barred)
    assert len(hops.minima) <= hops_module.MINIMA
    assert [error for error, _ in hops.minima] == sorted(error for error, _ in hops.minima)


def test_a_solution_in_any_basis_becomes_rational():
    rng = np.random.default_rng(2)
    bases = [np.eye(2) + 0.3 * rng.standard_normal((2, 2)) for _ in range(3)]
    fit = reals.Fit((2, 2, 2), np.concatenate(based(columns("strassen"), (2, 2, 2), bases)))
    assert fit.error() < 1e-25
    exact = rational.rational(fit, rng)
    assert rational.violations(exact, (2, 2, 2)) == 0
    assert all(isinstance(q, Fraction) for x in exact for q in x.ravel())
    np.testing.assert_array_equal(tensor([x.astype(float) for x in exact]), reals.target((2, 2, 2)))


def test_a_term_that_comes_to_nothing_is_taken_out():
    u, v, w = columns("strassen")
    rng = np.random.default_rng(6)
    more = [np.column_stack([x, rng.standard_normal(4)]) for x in (u, v, w)]
    more[0][:, -1] = 0
    exact = rational.rational(reals.Fit((2, 2, 2), np.concatenate(more)), rng)
    assert exact[0].shape == (4, 7)
    assert rational.violations(exact, (2, 2, 2)) == 0


def test_what_is_no_solution_does_not_become_rational():
    rng = np.random.default_rng(5)
    assert rational.rational(reals.Fit((2, 2, 2), rng.standard_normal((12, 6))), rng) is None


def test_violations_of_rational_schemes_are_counted():
    exact = fractions(columns("3x2x3:15"))
    assert rational.violations(exact, (3, 2, 3)) == 0
    exact[2][0, 0] += Fraction(1, 7)
    product = np.einsum("ar,br,cr->abc", *(x.astype(float) for x in exact))
    expected = np.count_nonzero(np.abs(product - reals.target((3, 2, 3))) > 1e-9)
    assert rational.violations(exact, (3, 2, 3)) == expected > 0


def test_dyadic_terms_add_up_to_the_same_tensor():
    rng = np.random.default_rng(3)
    scales = [Fraction(int(p), int(q)) for p, q in rng.integers(1, 9, (7, 2))]
    exact = fractions(columns("strassen"))
    for r, scale in enumerate(scales):
        exact[0][:, r] *= scale
        exact[1][:, r] *= -4 / scale
        exact[2][:, r] *= Fraction(-1, 4)
    made = integral.dyadic(exact)
    assert (made.exponents == 0).all()
    assert not ((tensor(made.factors) - reals.target((2, 2, 2))) % 4).any()
    assert all((x[:, r] % 2).any() for x in made.factors for r in range(7))


@pytest.mark.parametrize("name", ["strassen", "3x2x3:15", "3x3x3:23"])
def test_bases_take_halves_away(name):
    dims = schemes.get(name).format
    bases = [np.diag([2.0, *np.ones(x - 1)]) + np.diag(np.ones(x - 1), 1) for x in dims]
    exact = fractions(based(columns(name), dims, bases))
    assert rational.violations(exact, dims) == 0
    start = integral.dyadic(exact)
    assert start.lacking > 0
    found = integral.modulo2(exact, dims, np.random.default_rng(4))
    assert residual(found, dims, mod2=True) == 0
    assert len(found) <= schemes.get(name).rank


def test_moves_keep_the_tensor():
    """In the bases of the lattices it is that of matrix multiplication, unchanged."""
    rng = np.random.default_rng(5)
    one = integral.dyadic(fractions(columns("2x3x4:20")))
    for _ in range(30):
        one = integral._moved(one, (2, 3, 4), int(rng.integers(3)), rng)
        scaled = [one.factors[0] * 2.0**one.exponents, *one.factors[1:]]
        np.testing.assert_array_equal(tensor(scaled), reals.target((2, 3, 4)))


def test_halves_that_no_basis_removes_are_decomposed_again(doors):
    exact = fractions(columns("strassen"))
    term = [x[:, :1].copy() for x in exact]
    other = np.array([[Fraction(x)] for x in (1, 1, 0, 1)], object)
    # t = (t + x) / 2 + (t - x) / 2 in one factor: two terms with a half each.
    halves = [np.hstack([x[:, 1:], y, y]) for x, y in zip(exact, term, strict=True)]
    halves[2][:, -2] = (term[2] + other)[:, 0] / 2
    halves[2][:, -1] = (term[2] - other)[:, 0] / 2
    assert rational.violations(halves, (2, 2, 2)) == 0
    doors.numbers(integral_moves=0)
    assert integral.dyadic(halves).lacking == 2
    found = integral.modulo2(halves, (2, 2, 2), np.random.default_rng(6))
    assert residual(found, (2, 2, 2), mod2=True) == 0
    assert 7 <= len(found) <= 8
    quarter = [x.copy() for x in halves]
    quarter[2][:, -2] /= 2
    assert integral.modulo2(quarter, (2, 2, 2), np.random.default_rng(6)) is None


def test_a_search_by_way_of_the_reals(doors):
    doors.numbers(walk=100_000)
    worker, again = (Worker((2, 2, 2), [], 0, 0, "reals", 7) for _ in range(2))
    assert reached(worker, (2, 2, 2), 7, 60) == reached(again, (2, 2, 2), 7, 60) == 7
    assert "reals: least error" in worker.describe()
    np.testing.assert_array_equal(again.found(7)[0], worker.found(7)[0])


def test_a_search_goes_on_from_its_checkpoint(doors):
    doors.numbers(walk=20_000)
    worker = Worker((2, 2, 3), [], 1, 0, "reals", 11)
    while not worker._numerical.starts:
        worker.step()
    state = json.loads(json.dumps(worker.saved, default=np.ndarray.tolist))
    other = Worker((2, 2, 3), [], 1, 0, "reals", 11)
    other.restore(state)
    assert other._numerical.error == worker._numerical.error
    for _ in range(5):
        worker.step()
        other.step()
    assert json.dumps(other.saved, default=np.ndarray.tolist) == json.dumps(
        worker.saved, default=np.ndarray.tolist
    )


def test_the_command_and_its_errors(tmp_path, capsys):
    words = ["discover", "2", "2", "2", "--ring", "reals", "--out", str(tmp_path), "--threads", "1"]
    assert main([*words, "--rank", "7", "--scratch"]) == 0
    capsys.readouterr()
    (path,) = tmp_path.glob("*.json")
    assert schemes.load(path).rank == 7
    assert "--ring reals" in json.loads(path.read_text())["source"]
    for wrong, message in (
        ([], "--ring reals needs a --rank"),
        (["--rank", "7", "--flips", "9"], "limit it by --minutes"),
        (
            ["--scratch", "--objective", "nnz", "--out", str(tmp_path / "none")],
            "no scheme of format 2x2x2 and rank 8 is known",
        ),
    ):
        assert main([*words, *wrong]) == 2
        assert message in capsys.readouterr().err


@pytest.mark.parametrize("ring", ["reals", "families"])
def test_schemes_are_improved_from_elsewhere(ring, tmp_path, capsys):
    """From nothing: what is found at the rank becomes the archive."""
    words = ["discover", "2", "2", "2", "--ring", ring, "--scratch", "--objective", "additions"]
    words += ["--rank", "7", "--minutes", "0.02", "--threads", "1", "--out", str(tmp_path)]
    assert main(words) == 0
    capsys.readouterr()
    held = [schemes.load(path) for path in tmp_path.glob("*.json")]
    assert {scheme.rank for scheme in held} == {7}
    assert all(f"--ring {ring}" in scheme.source for scheme in held)


def test_lower_ranks_by_way_of_the_reals_are_kept(monkeypatch):
    search = Worker((2, 2, 2), [], 0, 0, "reals", 8)
    (strassen,) = {len(x): x for x in Library().schemes((2, 2, 2)) if len(x) == 7}.values()
    monkeypatch.setattr(search, "elsewhere", lambda _rng, _mod2: strassen)
    improver = Improver((2, 2, 2), [], search, "nnz", 0, 0, rank=8)
    finds = [find for _ in range(10) for find in improver.step()]
    assert {len(find.terms) for find in finds} == {7}


def test_schemes_from_elsewhere_need_their_rings():
    with pytest.raises(ValueError, match="families needs starts of its format"):
        Worker((3, 2, 2), Library().starts((3, 2, 2)), 0, 0, "families")
    with pytest.raises(ValueError, match="rings 'both': other families need"):
        Worker((2, 2, 2), [], 0, 0).elsewhere(random.Random(0), True)


def test_what_is_too_large_is_said():
    with pytest.raises(ValueError, match="16524 unknown coefficients at rank 153"):
        numerical.Run((6, 6, 6), 153)


def test_steps_of_a_run_are_bounded_in_what_they_keep():
    run, rng = numerical.Run((1, 2, 2), 4), random.Random(0)
    made = sum(bool(run.step(rng)) for _ in range(60))
    state = run.state()
    assert len(state["solutions"]) <= numerical.SOLUTIONS
    assert len(state["hops"]["minima"]) <= hops_module.MINIMA
    assert all(residual(x, (1, 2, 2), mod2=True) == 0 for x in run.starts)
    assert made > len(run.starts) == numerical.STARTS
