"""A run: sides take turns, cases end when ratios are known, stopping loses at most a case."""

import threading
from argparse import Namespace

import pytest

from falcon.bench import peers, suite
from falcon.bench.peers import FALCON, TABLE
from falcon.bench.run import Run, run

from .support import MACHINE, comparison, pretend

FOREVER = float("inf")


def case_of(kept, key="squares 8x8x8 float32"):
    return next(x for x in kept.document["cases"] if x["key"] == key)


def rounds(kept, key="squares 8x8x8 float32"):
    """Seconds of each side, round by round."""
    case = case_of(kept, key)
    columns = zip(*(x["seconds"] for x in case["sides"].values()), strict=True)
    return [dict(zip(case["sides"], x, strict=True)) for x in columns]


@pytest.mark.parametrize("numpy", [[2.0], [1.0, *map(float, range(2, 400))]])
@pytest.mark.parametrize("seconds", [1e9, 1.0])
def test_a_case_ends_when_its_ratios_are_known(monkeypatch, numpy, seconds):
    worker = pretend(monkeypatch, falcon=[1.0], falcon_classical=[1.1], numpy=numpy)
    kept = Run(None, comparison(sizes=(8,), case_seconds=seconds))
    assert kept.measure(FOREVER)
    assert len(rounds(kept)) == (200 if numpy[1:] and seconds > 1 else 5)
    assert rounds(kept)[0] == {"falcon": 1.0, "falcon classical": 1.1, "numpy": 2.0}
    order = [name for name, _ in worker.log[3:]]
    every = [order[at : at + 3] for at in range(0, len(order), 3)]
    assert all(sorted(x) == ["falcon", "falcon classical", "numpy"] for x in every)
    assert len({*map(tuple, every)}) > 1
    assert {repeats for _, repeats in worker.log} == {1}


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_a_case_that_other_programs_disturbed_says_so(monkeypatch, share):
    worker = pretend(monkeypatch, falcon=[1.0], falcon_classical=[1.1], numpy=[2.0])
    monkeypatch.setattr(worker, "share", share)
    kept = Run(None, comparison(sizes=(8,)))
    assert kept.measure(FOREVER)
    said = "" if share == 1.0 else "this process had 30% of a CPU"
    assert case_of(kept)["disturbed"] == said


def test_without_a_file_cases_share_the_time(monkeypatch):
    """The first half of the time allows one more round; with a second one it would be exceeded."""
    worker = pretend(monkeypatch, falcon=[1.0], falcon_classical=[1.0], numpy=[1.0])
    kept = Run(None, comparison(sizes=(8, 9)))
    assert kept.measure(34.0)
    assert [x["rounds"] for x in kept.document["cases"]] == [3, 3]
    assert worker.clock.now < 34
    assert (kept.cut, kept.left_out) == (2, 0)


@pytest.mark.parametrize(("slow", "left_out"), [(1.0, 0), (2.5, 1)])
def test_a_case_that_would_take_too_long_is_left_out(monkeypatch, slow, left_out):
    """On a machine that is slower than expected a run keeps to its time."""
    times = [slow]
    worker = pretend(monkeypatch, falcon=times, falcon_classical=times, numpy=times)
    kept = Run(None, comparison(sizes=(8, 16, 9)))
    assert kept.measure(100.0) == (not left_out)
    assert kept.left_out == left_out
    assert [x["M"] for x in kept.document["cases"]] == [8, *[16][left_out:], 9]
    assert worker.clock.now < 100


def test_a_run_goes_on_where_it_stopped(monkeypatch, tmp_path):
    pretend(monkeypatch, falcon=[1.0], falcon_classical=[1.0], numpy=[1.0])
    what, path = comparison(), tmp_path / "x.part"
    # Whatever the budget, a session gets ahead by one case.
    assert not Run(path, what).measure(0.0)
    before = path.read_text(encoding="utf-8")

    def killed(*_):  # while it is written: that case is lost
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(type(path), "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            Run(path, what).measure(0.0)
    assert path.read_text(encoding="utf-8") == before
    assert [*tmp_path.iterdir()] == [path]
    assert [x.key for x in Run(path, what).left()] == ["squares 16x16x16 float32"]
    kept = Run(path, what)
    assert kept.measure(0.0)
    for at, key in enumerate(("squares 8x8x8 float32", "squares 16x16x16 float32")):
        assert len(rounds(kept, key)) == 5
        assert case_of(kept, key)["sessions"] == [at]
    assert len(kept.document["peers"]) == 3  # libraries are looked at once
    before = path.read_text(encoding="utf-8")
    assert Run(path, what).measure(FOREVER)  # nothing left to do
    assert path.read_text(encoding="utf-8") == before


def test_another_run_is_refused(monkeypatch, doors, tmp_path):
    pretend(monkeypatch)
    path = tmp_path / "x.part"
    Run(path, comparison()).save()
    with pytest.raises(ValueError, match=r"begun with other cases, peers or settings.*delete it"):
        Run(path, comparison(sizes=(32,)))
    doors.peers(machine={**MACHINE, "cpu": "another"})
    with pytest.raises(ValueError, match="other cases"):
        Run(path, comparison())
    for text in ("hello\n", "[]", "{}"):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ValueError, match="is not a run of falcon bench"):
            Run(path, comparison())


@pytest.mark.parametrize("broken", ["numpy", "falcon"])
@pytest.mark.parametrize("later", [False, True])
def test_a_peer_that_fails_does_not_stop_the_others(monkeypatch, broken, later):
    worker = pretend(monkeypatch, falcon=[1.0], falcon_classical=[1.0], numpy=[1.0])
    seconds = worker.seconds

    def failing(self, repeats=1):
        if self.name == broken and later:
            raise suite.SideError(self.name, "MemoryError")
        return seconds(self, repeats)

    monkeypatch.setattr(worker, "seconds", failing)
    if not later:
        worker.broken.add(broken)
    kept = Run(None, comparison(sizes=(8,)))
    assert kept.measure(FOREVER) == (broken == "numpy")
    if broken == "falcon":  # no table without it
        assert kept.document["cases"] == [] and kept.failed == ["squares 8x8x8 float32"]
        return
    assert set(rounds(kept)[0]) == {"falcon", "falcon classical"}
    assert case_of(kept)["failed"] == {broken: f"{broken}: MemoryError"}
    assert case_of(kept)["speedups"]


@pytest.mark.parametrize("absent", [False, True])
@pytest.mark.parametrize("sizes", [(8,), (16, 8)])
def test_without_falcon_no_table_is_printed(monkeypatch, capsys, absent, sizes):
    worker = pretend(monkeypatch, falcon=[1.0], falcon_classical=[1.0], numpy=[1.0])
    ask = worker.ask

    def failing(self, do, **request):
        if self.name == "falcon" and (absent or (do == "prepare" and len(worker.log) == 0)):
            raise suite.SideError(self.name, "ValueError: there is no scheme 'mine.json'")
        return ask(self, do, **request)

    monkeypatch.setattr(worker, "ask", failing)
    options = Namespace(output=None, json=False, details=False, time_budget=None)
    assert run(comparison(sizes=sizes), options) == 1
    out, err = capsys.readouterr()
    assert "squares 16x16x16" not in out if len(sizes) > 1 and not absent else out == ""
    assert "failed: falcon: ValueError: there is no scheme 'mine.json'" in " ".join(err.split())


def test_the_best_kernels_are_those_of_the_first_dtype(monkeypatch):
    worker = pretend(
        monkeypatch, falcon=[1.0], falcon_classical=[1.0], **{"numpy (best kernels)": [1.0]}
    )
    what = comparison(sizes=(8,), dtypes=("float64", "float32"))
    what.peers[2] = TABLE[1]
    kept = Run(None, what)
    assert kept.measure(FOREVER)
    best = [x["OPENBLAS_CORETYPE"] for name, x in worker.started if name == TABLE[1].name]
    assert best == ["Old", "Older", "Zen"]  # described; then the best of them is timed
    found = kept.document["peers"][2]
    assert found["tried"] == {"float64": {"Zen": 5.0, "Old": 7.0}}
    assert all(x == {"OPENBLAS_CORETYPE": "Old"} for x in found["environment"].values())
    assert set(found["kernels"]) == {"float64", "float32"}


def test_names_of_the_same_kernels_are_tried_once(monkeypatch, doors):
    """The number of rounds is what the time allows."""
    tried = peers.coretype_rates
    worker = pretend(monkeypatch, **{TABLE[1].name: [1.0]})
    doors.peers(rates=tried)
    ((entry, _),) = peers.identify([TABLE[1]], ["float32"], 2)
    assert set(entry["tried"]["float32"]) == {"Old", "Zen"}  # not "Older"
    assert len(worker.log) == 6
    worker.log.clear()
    peers.identify([TABLE[1]], ["float32"], 2, seconds=20.0)
    assert len(worker.log) == 2


def test_a_library_that_starts_slowly_is_left_out(monkeypatch, doors):
    """Half of the time of a run is for measuring; falcon is awaited."""
    worker, ended = pretend(monkeypatch), threading.Event()

    class Slow(worker):
        def ask(self, do, **request):
            if self.peer.library == "torch":
                ended.wait()
                raise peers.SideError(self.name, self.stopped)
            return super().ask(do, **request)

        def stop(self, why):
            self.stopped = why
            ended.set()

    doors.workers(Slow)
    doors.numbers(least_starting=0.5)
    torch = next(x for x in TABLE if x.name == "torch")
    found = peers.identify([FALCON, torch, TABLE[0]], ["float32"], 2, seconds=1.0)
    assert [x["absent"] for x, _ in found] == [
        "", "torch: not ready after 0 s of --time-budget", ""
    ]  # fmt: skip
    assert [x is None for _, x in found] == [False, True, False]
