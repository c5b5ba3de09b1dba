"""Runs: repeatable, resumable, and what they write is proved and says where it comes from."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

pytest.importorskip("falcon.discover.walk._core", reason="the search core is not compiled")

from falcon import schemes
from falcon.__main__ import main
from falcon.discover.catalogue.library import Library
from falcon.discover.improve import Improver
from falcon.discover.search import Job, Run
from falcon.discover.walk import masks, moves
from falcon.discover.worker import Find, Worker
from falcon.schemes.writing import to_json

from ..support import HANG
from .support import reached, residual


@pytest.fixture(autouse=True)
def short(doors):
    """Short walks: these formats need no long ones."""
    doors.numbers(walk=500_000, moves=(20_000, 100_000))


def scratch(dims):
    return [lambda rng, mod2: moves.classical(dims)]


@pytest.mark.parametrize(
    ("dims", "rank"), [((2, 2, 2), 7), ((2, 2, 3), 11), ((2, 3, 3), 15), ((3, 3, 3), 23)]
)
def test_from_scratch(dims, rank):
    assert reached(Worker(dims, scratch(dims), 1, 0), dims, rank, 400) == rank


def test_symmetric_walks_alone():
    worker = Worker((4, 4, 4), scratch((4, 4, 4)), 1, 0, "symmetric", 49)
    assert reached(worker, (4, 4, 4), 55, 4000) <= 55
    with pytest.raises(ValueError, match="three equal dimensions"):
        Worker((2, 3, 3), scratch((2, 3, 3)), 1, 0, "symmetric")


@pytest.mark.parametrize(("dims", "rings"), [((2, 3, 4), "both"), ((3, 3, 3), "symmetric")])
def test_a_worker_can_be_saved_and_repeated(dims, rings):
    first, second = (Worker(dims, scratch(dims), 7, 2, rings) for _ in range(2))
    for _ in range(4):
        first.step(), second.step()
    third = Worker(dims, scratch(dims), 0, 0, rings)
    third.restore(json.loads(json.dumps(first.saved, default=np.ndarray.tolist)))
    for _ in range(3):
        first.step(), second.step(), third.step()
    for other in (second, third):
        assert other.flips == first.flips
        for one, two in zip(first.pools, other.pools, strict=True):
            lowest = sorted(one)[:3]
            assert lowest == sorted(two)[:3]
            for rank in lowest:
                assert all(map(np.array_equal, one[rank], two[rank]))
    assert (
        Worker(dims, scratch(dims), 7, 1).rng.random()
        != Worker(dims, scratch(dims), 7, 2).rng.random()
    )


def test_a_damaged_checkpoint_is_refused():
    worker = Worker((2, 2, 2), scratch((2, 2, 2)), 1, 0)
    worker.step()
    state = json.loads(json.dumps(worker.saved, default=np.ndarray.tolist))
    pool = next(pool for pool in state["pools"] if pool)
    next(iter(pool.values()))[0][0][0][0] ^= 1
    with pytest.raises(ValueError, match=r"checkpoint holds .* violates"):
        Worker((2, 2, 2), [], 1, 0).restore(state)


def run(folder, *arguments):
    return main(["discover", *map(str, arguments), "--threads", "1", "--out", str(folder)])


def test_the_command(tmp_path, capsys):
    assert run(tmp_path, 2, 2, 3, "--rank", 11, "--minutes", 1, "--seed", 4, "--scratch") == 0
    found = tmp_path / "2x2x3_11-s4.json"
    assert str(found) in capsys.readouterr().out
    scheme = schemes.load(found)
    assert (scheme.format, scheme.rank, scheme.name) == ((2, 2, 3), 11, "2x2x3:11")
    for word in ("seed 4", "worker 0", "discover 2 2 3 --rank 11", "--scratch", "s of CPU time"):
        assert word in scheme.source
    # Nothing new is to be found: a second run resumes, and stops at once.
    assert run(tmp_path, "2,2,3", "--rank", 11, "--minutes", 1, "--seed", 4, "--scratch") == 0
    told = capsys.readouterr().out
    assert "json" not in told
    assert "nothing new, rank 11 is known" in told


@pytest.mark.parametrize("sizes", [(2, 3, 4), ("2,3,4",), ("2x3x4",)])
def test_sizes_are_those_of_the_scheme(tmp_path, sizes):
    """In the order of its name: A is 2 x 3, B 3 x 4."""
    assert run(tmp_path, *sizes, "--flips", 1000, "--rank", 23, "--scratch") in (0, 1)
    assert next(tmp_path.glob("*.checkpoint")).name.startswith("2x3x4_")


def test_no_rank_above_the_lowest_known_is_reported(tmp_path, capsys):
    assert run(tmp_path, 4, 4, 4, "--rank", 47, "--flips", 1000) == 1
    first, second = capsys.readouterr().out.splitlines()
    assert first == "4x4x4: no scheme of rank 47 was found; the lowest known rank is 49"
    assert {int(x) for x in re.findall(r"rank (?:is )?(\d+)", second)} == {49}


@pytest.mark.parametrize("objective", ["nnz", "growth", "additions"])
def test_objectives(tmp_path, objective):
    assert run(tmp_path, 2, 2, 2, "--objective", objective, "--minutes", 0.03, "--scratch") == 2
    (tmp_path / "poor.json").write_text(to_json(schemes.get("winograd").renamed("poor", "a test")))
    start = [masks.terms_of(schemes.get("winograd"))]
    improver = Improver((2, 2, 2), start, Worker((2, 2, 2), scratch((2, 2, 2)), 1, 0),
                        objective, 1, 0)  # fmt: skip
    for _ in range(12):
        for find in improver.step():
            assert residual(find.terms, (2, 2, 2)) == 0
    assert {entry.costs for entry in improver.front} >= {(36, 18, 32), (42, 15, 56)}
    saved = json.loads(json.dumps(improver.saved, default=np.ndarray.tolist))
    again = Improver((2, 2, 2), start, Worker((2, 2, 2), scratch((2, 2, 2)), 1, 0),
                     objective, 1, 0)  # fmt: skip
    again.restore(saved)
    assert {entry.costs for entry in again.front} == {entry.costs for entry in improver.front}


def test_a_direct_sum_is_a_find(tmp_path):
    """The start of an improvement is written if it is better than the files."""
    dims = (2, 2, 4)
    known = [masks.terms_of(schemes.get("strassen@1x1x2:2"))]
    sums = [x for x in Library().starts(dims) if x.kind == "merge"]
    rng = random.Random(0)
    fresh = [start(rng, False) for start in sums for _ in range(8)]
    fresh = [terms for terms in fresh if len(terms) == 14]
    search = Worker(dims, scratch(dims), 1, 0)
    improver = Improver(dims, known, search, "additions", 1, 0, fresh)
    finds = {find.objective: find for find in improver.step()}
    assert sum(map(len, finds["additions"].programs)) > 0
    assert improver.best.additions <= 26
    saved = json.loads(json.dumps(improver.saved, default=np.ndarray.tolist))
    improver.restore(saved)
    assert improver.best.additions <= 26  # the programs are kept


def test_schemes_of_a_rank_that_is_not_known_come_from_sums():
    """Walks down from sums, most from those that led to the rank before."""
    dims = (3, 3, 3)
    sources = [x for x in Library().starts(dims) if x.kind == "merge"]

    def improver():
        return Improver(dims, [], Worker(dims, scratch(dims), 1, 0, "mod2"), "growth", 1, 0,
                        sources=sources, rank=23)  # fmt: skip

    first = improver()
    assert first.describe() == "rank 23, none yet"
    finds = []
    for _ in range(200):
        finds += first.step()
        if finds:
            break
    assert {find.objective for find in finds} >= {"nnz", "growth", "additions"}
    assert all(residual(find.terms, dims) == 0 and len(find.terms) == 23 for find in finds)
    counts = first._descents
    assert sum(hits for _, hits in counts) >= 1
    assert all(tries >= hits for tries, hits in counts)
    second = improver()
    second.restore(json.loads(json.dumps(first.saved, default=np.ndarray.tolist)))
    assert second._descents == counts
    for _ in range(3):
        first.step(), second.step()
    assert second.flips == first.flips


@pytest.mark.parametrize("mod2", [False, True])
def test_hops(mod2):
    """A few terms more and back: another scheme of the rank, not much denser."""
    dims = (2, 3, 3)
    start = masks.terms_of(schemes.get("2x3x3:15"))
    improver = Improver(dims, [start], Worker(dims, scratch(dims), 1, 0), "nnz", 1, 0)
    seen = []
    for _ in range(10):
        found = improver._hopped(start, mod2)
        assert residual(found, dims) == 0
        assert len(found) == 15
        seen.append(found.tolist())
    assert any(x != start.tolist() for x in seen)
    assert min(masks.nnz(np.array(x, np.uint64)) for x in seen if x != start.tolist()) < 120


def test_runs_of_two_ranks_in_one_folder(tmp_path):
    """Each has a checkpoint of its own, and its finds too."""
    for rank in (7, 8):
        assert run(tmp_path, 2, 2, 2, "--rank", rank, "--flips", 100_000, "--scratch") == 0
    for name in ("winograd", "2x2x2:8"):
        scheme = schemes.get(name)
        (tmp_path / f"{scheme.rank}.json").write_text(
            to_json(scheme.renamed(f"2x2x2:{scheme.rank}", "a test"))
        )
    for rank in (7, 8):
        arguments = 2, 2, 2, "--rank", rank, "--objective", "growth", "--flips", 50_000
        assert run(tmp_path, *arguments, "--scratch") == 0
    assert sorted(path.name for path in tmp_path.glob("*.checkpoint")) == [
        "2x2x2_7-growth-s0.checkpoint",
        "2x2x2_7-s0.checkpoint",
        "2x2x2_8-growth-s0.checkpoint",
        "2x2x2_8-s0.checkpoint",
    ]


def test_improved_schemes_hold_their_programs(tmp_path):
    scheme = schemes.get("laderman")
    job = Job((3, 3, 3), minutes=0.1, folder=tmp_path, objective="additions")
    runner = Run(job)
    improver = runner.workers[0]
    improver.front.clear()
    improver._judge(masks.terms_of(scheme))
    entry = improver.best
    runner._found(Find(entry.terms, "additions", entry.programs), 0)
    loaded = schemes.load(tmp_path / "3x3x3_23-additions-s0w0.json")
    assert loaded.additions.reduced == entry.additions <= 64
    assert loaded.same_coefficients(scheme)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 2, 2), "expected three positive integers"),
        ((9, 8, 1), "more than 64 entries"),
        ((2, 2, 2, "--minutes", 0), "--minutes is 0; expected more than 0"),
        ((2, 2, 2, "--minutes", "nan"), "--minutes is nan; expected more than 0"),
        ((2, 2, 2, "--flips", 0), "--flips is 0; expected at least 1"),
        ((2, 2, 2, "--rank", 9), "--rank is 9; expected 1 to 8"),
        ((2, 2, 2, "--objective", "nnz", "--rank", 6), "no scheme of format 2x2x2 and rank 6"),
    ],
)
def test_refusals(tmp_path, capsys, arguments, message):
    assert run(tmp_path, *arguments) == 2
    assert message in capsys.readouterr().err


def test_another_search_in_the_same_folder_is_not_resumed(tmp_path, capsys):
    assert run(tmp_path, 2, 2, 2, "--flips", 1000, "--ring", "mod2") == 0
    assert run(tmp_path, 2, 2, 2, "--flips", 1000) == 2
    assert "belongs to another search" in capsys.readouterr().err


@pytest.mark.parametrize("objective", [(), ("--objective", "nnz")])
def test_a_checkpoint_outlives_a_run_whose_time_is_up(tmp_path, objective):
    """It ends before its first step, and keeps what the run before had come to."""
    assert run(tmp_path, 2, 2, 2, *objective, "--flips", 1000) == 0
    (path,) = tmp_path.glob("*.checkpoint")
    before = json.loads(path.read_text())
    assert all(before["workers"])
    assert run(tmp_path, 2, 2, 2, *objective, "--flips", 1) == 0
    assert json.loads(path.read_text()) == before


def test_a_checkpoint_of_another_version_is_not_resumed(tmp_path, capsys):
    assert run(tmp_path, 2, 2, 2, "--flips", 1000) == 0
    (path,) = tmp_path.glob("*.checkpoint")
    path.write_text(path.read_text().replace('{"format": ', '{"format": 9'))
    assert run(tmp_path, 2, 2, 2, "--flips", 1000) == 2
    assert "written by another version of falcon; delete it" in capsys.readouterr().err


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
def test_ctrl_c_keeps_what_was_found(tmp_path):
    command = [sys.executable, "-m", "falcon", "discover", "3", "3", "3", "--scratch", "--minutes",
               "5", "--threads", "2", "--out", str(tmp_path)]  # fmt: skip

    # A background shell makes its children ignore SIGINT, and Python would inherit that.
    def listen():
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=listen) as process:
        until = time.monotonic() + HANG
        while not list(tmp_path.glob("*.json")) and time.monotonic() < until:
            assert process.poll() is None
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=HANG)
    assert process.returncode == 130
    files = list(tmp_path.glob("*.json"))
    assert files
    for path in files:
        assert schemes.load(path).format == (3, 3, 3)
        assert str(path) in output
    assert json.loads((tmp_path / "3x3x3-s0.checkpoint").read_text())["workers"][0]
