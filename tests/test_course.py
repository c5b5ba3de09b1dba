"""What the course says in numbers, by the functions of its own cells."""

import re
from itertools import product
from math import isqrt, log2

import numpy as np
import pytest

from falcon import schemes

from .test_docs import DOCS, NOTEBOOKS, blocks


@pytest.fixture
def cells(monkeypatch):
    """Run the cells of a notebook up to the one with a text, for the names that they define."""
    pytest.importorskip("matplotlib")
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.syspath_prepend(str(DOCS / "learn"))
    monkeypatch.syspath_prepend(str(DOCS.parent))

    def run(number, last):
        place = {}
        for code in blocks(NOTEBOOKS[number - 1], "{code-cell}"):
            if "IPython" not in code:
                exec(compile(code, str(NOTEBOOKS[number - 1]), "exec"), place)
            if last in code:
                return place
        raise ValueError(last)

    yield run
    import matplotlib.pyplot as plt

    plt.close("all")


def test_a_test_that_passes_by_accident(cells, capsys):
    cells(2, "passes")
    out = capsys.readouterr().out
    assert re.findall("(?:passes|another A|4 x 4): +(True)?", out) == ["True", "", ""]
    assert [(m * k * n) ** 2 for m, k, n in ((2, 2, 2), (3, 4, 4), (5, 5, 5))] == [64, 2304, 15625]


def test_ranks():
    assert round((8 / 7) ** 10, 1) == 3.8
    assert [schemes.best(4, 4, x).rank for x in (4, 5)] == [49, 61]
    columns = schemes.get("4x4x4:49"), schemes.get("4x4x1:16"), "n"
    assert schemes.direct_sum(*columns).rank == 65
    assert 21 < 27 ** (log2(7) / 3) < 22
    assert schemes.get("winograd").additions.reduced == 15
    assert schemes.get("strassen@strassen").additions.reduced == 198 == 4 * 18 + 7 * 18
    assert 2**20 / 4 / 4 == 256**2
    assert isqrt(2**20 // 4 // 25) == 102


def test_costs(cells):
    """By the rates that are shipped, for whichever machine this is."""
    place = cells(4, "def seconds")
    one, sizes = schemes.classical(1, 1, 1), np.geomspace(200, 20000, 60)

    def even(name, fused=False):
        """Return the least size at which a scheme is faster."""
        times = [[sum(place["seconds"](s, *[x] * 3, fused).values()) for x in sizes]
                 for s in (schemes.get(name), one)]  # fmt: skip
        return next((x for x, mine, other in zip(sizes, *times, strict=True) if mine < other), None)

    assert even("winograd") <= even("strassen")
    for name in ("strassen", "3x4x4:38"):
        assert even(name, True) < even(name)
    thin = place["seconds"](schemes.get("strassen"), 8000, 8000, 64)
    assert 0.4 < sum(thin.values()) / thin["multiply"] - 1 < 1.6
    place.update(F=60e12, P=30e12, beta=3e12 / 4)
    assert even("strassen") == pytest.approx(2800, rel=0.05)


def test_errors(cells):
    rms, random = cells(6, "def rms")["rms"], np.random.default_rng(1)
    for n, name in product((64, 512), ("strassen", "strassen@strassen", "4x4x5:61-adds")):
        a, b = random.standard_normal((2, n, n)).astype(np.float32)
        over, s = rms(a, b, scheme=name) / rms(a, b, scheme="classical"), schemes.get(name)
        assert 0.9 * s.rms_growth / np.sqrt(s.k) < over < 1.1 * s.rms_growth
    assert log2(schemes.get("strassen").rms_growth) == 1
    assert log2(schemes.get("4x4x5:61-adds").rms_growth) == pytest.approx(2.4, abs=0.05)
    assert schemes.best(4, 4, 4, by="growth").rms_growth == 4
    assert schemes.get("4x4x4:49-adds").rms_growth == 7
    sparse = {x for x in schemes.names() if schemes.get(x).rms_growth <= 2.5}
    assert {"strassen", "2x3x6:30", "3x3x3:23"} < sparse
    assert all(schemes.get(x).kind == "plain" or "2x2x" in x for x in sparse)


def test_growth_of_the_blocks_of_strassens_products():
    s = schemes.get("strassen")
    sizes = (s.U**2).sum((1, 2)) * (s.V**2).sum((1, 2)) / s.k  # mean squares, over those of c11
    assert sizes[[0, 3, 4, 6]].tolist() == [2, 1, 1, 2]
    growth = np.sqrt(np.einsum("rij,r->ij", s.W**2, sizes))
    assert growth.round(2).tolist() == [[2.45, 1.41], [1.41, 2.45]]
    assert np.mean(growth**2) == pytest.approx(s.rms_growth**2)


def test_walks(cells):
    place = cells(7, "def signs")
    walk, signs, arrays, start = (place[x] for x in ("walk", "signs", "arrays", "classical"))
    reached = [len(walk(start(2, 2, 2), 5000, seed)[0]) for seed in range(100)]
    assert reached.count(7) == 80
    made = schemes.check(*signs(*arrays(walk(start(2, 2, 3), 20000, 0)[0], 2, 2, 3)))
    assert (made.rank, bool(made)) == (11, True)
    assert len(walk(start(3, 3, 3), 200000, 1)[0]) == 23
    found = [walk(start(3, 3, 3), 250000, seed)[0] for seed in (1, 2, 5)]
    assert {len(x) for x in found} == {23}
    assert [signs(*arrays(x, 3, 3, 3)) is not None for x in found] == [False, False, True]
    code = blocks(NOTEBOOKS[6], "{code-cell}")[0]
    assert len(code[code.index("def classical") :].splitlines()) <= 40
