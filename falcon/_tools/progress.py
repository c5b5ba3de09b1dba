"""`Progress`: how far a command is, on standard error, whatever it is written to."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from contextlib import suppress
from typing import TextIO

# Seconds until the first line of a log, and between lines; until a terminal's line is renewed.
_FIRST, _NEXT, _RENEWED = 5.0, 10.0, 0.5


class Progress:
    """Says how far a command is: in one line of a terminal, else by a line every ten seconds.

    A context manager; a thread writes, so that it also speaks within long steps. On a terminal the
    line is gone in the end.

    `total`: of what `step` and `at` count, in `unit`, or the least; None: it is not known.
    `text`: what is being done now.
    """

    def __init__(self, text: str, total: float | None = None, unit: str = "steps") -> None:
        self._text, self._total, self._unit = text, total, unit
        self.count, self._of = 0.0, ""
        self._is_terminal = sys.stderr is not None and sys.stderr.isatty()
        self._lock, self._ended = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)

    def __enter__(self) -> Progress:
        self._start = self._begun = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._erase()

    def say(self, text: str) -> None:
        """Set what is being done now."""
        self._text = text

    def step(self, _: object = None) -> None:
        """Count a step that is done."""
        self.count += 1

    def part(self, total: float, unit: str) -> None:
        """Begin a part of the work: what counts, and the time that is left, are those of it."""
        self._begun, self._of = time.monotonic(), " for these"
        self.count, self._total, self._unit = 0.0, total, unit

    def at(self, count: float, total: float | None = None) -> None:
        """Set how much is done, and of how much it is if that was not known."""
        self.count, self._total = count, total or self._total

    def print(self, text: str, file: TextIO | None = None) -> None:
        """Print lines, by default on standard output, where the terminal shows no progress."""
        with self._lock:
            self._erase()
            print(text, file=file or sys.stdout, flush=True)

    def _write(self) -> None:
        wait = _RENEWED if self._is_terminal else _FIRST
        while not self._ended.wait(wait):
            with self._lock, suppress(OSError):  # the reader has left
                if self._is_terminal:
                    self._erase()
                    sys.stderr.write(self._line()[: self._columns])
                    sys.stderr.flush()
                else:
                    print(self._line(), file=sys.stderr, flush=True)
                    wait = _NEXT

    def _line(self) -> str:
        now = time.monotonic()
        done = _minutes(now - self._start)
        if self._total is not None:
            total = f" of {self._total:.4g}" if self.count <= self._total else ""
            done += f", {self.count:.4g}{total} {self._unit}"
            if 0 < self.count < self._total:
                left = (now - self._begun) * max(self._total / self.count - 1, 0)
                done += f", about {_minutes(left)} left{self._of}"
        return f"[{done}] {self._text}"

    @property
    def _columns(self) -> int:
        return shutil.get_terminal_size().columns - 1

    def _erase(self) -> None:
        if self._is_terminal:
            sys.stderr.write(f"\r{' ' * self._columns}\r")
            sys.stderr.flush()


def _minutes(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02}"
