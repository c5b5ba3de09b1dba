"""Progress: lines where standard error is no terminal, one renewed line where it is."""

import io
import re
import sys
import threading
import time

import pytest

from falcon._tools.progress import Progress

from ..support import HANG


@pytest.fixture(autouse=True)
def at_once(doors):
    doors.numbers(first_progress=0.01, next_progress=0.01, renewed_progress=0.01)


def until(is_there):
    end = time.monotonic() + HANG
    while not is_there() and time.monotonic() < end:
        time.sleep(0.01)


class Screen(io.StringIO):
    def isatty(self):
        return True


def test_lines_within_a_long_step(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with Progress("first", 4, "cases") as shown:
        shown.step()
        shown.say("second")
        until(lambda: sys.stderr.getvalue().count("\n") > 1)
    lines = sys.stderr.getvalue().splitlines()
    assert len(lines) > 1 and re.fullmatch(
        r"\[\d+:\d\d, 1 of 4 cases, about 0:0\d left\] second", lines[-1]
    )
    count = len(lines)
    time.sleep(0.05)
    assert len(sys.stderr.getvalue().splitlines()) == count


def test_each_part_has_an_estimate_of_its_own(monkeypatch, doors):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    clock = doors.clock()
    with Progress("packing") as shown:
        clock.move(60.0)
        shown.part(4, "layers")
        shown.step()
        clock.move(10.0)
        for count, said in ((0, "1 of 4 layers, about 0:30 left for these"), (4, "5 layers")):
            for _ in range(count):  # more than was expected
                shown.step()
            end = f"[1:10, {said}] packing\n"
            for _ in range(500):  # the clock stands still
                if sys.stderr.getvalue().endswith(end):
                    break
                threading.Event().wait(0.01)
            assert sys.stderr.getvalue().endswith(end)


def test_quick_commands_say_nothing(doors, capsys):
    doors.numbers(first_progress=60)
    with Progress("first"):
        pass
    assert capsys.readouterr().err == ""


def test_a_terminal_shows_one_line_which_is_gone_in_the_end(monkeypatch, capsys):
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("COLUMNS", "40")
    with Progress("x" * 99) as shown:
        until(lambda: "x" in screen.getvalue())
        shown.print("a result")
    written = screen.getvalue()
    assert "\n" not in written
    assert max(map(len, written.split("\r"))) == 39
    assert written.endswith(f"\r{' ' * 39}\r")
    assert capsys.readouterr().out == "a result\n"
