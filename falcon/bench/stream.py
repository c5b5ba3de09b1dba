"""A run on its way to a file, line by line, so that stopping it loses one round at most."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


class Stream:
    """Lines of JSON, each written through to the disk; an unfinished last line is dropped.

    Parameters
    ----------
    path : Path or None
        None keeps the lines in memory only.
    header : dict
        What is measured. A file that was begun with another one is refused.

    Raises
    ------
    ValueError
        The file holds another run, or no run at all.
    """

    def __init__(self, path: Path | None, header: dict[str, Any]) -> None:
        self.path = path
        self.lines: list[dict[str, Any]] = []
        if path is not None and path.exists():
            self.lines = _read(path)
        if not self.lines:
            self.append({"header": header})
        elif self.lines[0].get("header") != json.loads(json.dumps(header)):
            raise ValueError(
                f"{path} was begun with other cases, peers or settings; go on with the same "
                "arguments, or discard it with --fresh"
            )

    def append(self, line: dict[str, Any]) -> None:
        """Add a line."""
        self.lines.append(line)
        if self.path is None:
            return
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def of(self, kind: str) -> list[dict[str, Any]]:
        """Return the lines of a kind: those that have the key."""
        return [line for line in self.lines if kind in line]


def _read(path: Path) -> list[dict[str, Any]]:
    text = path.read_text(encoding="utf-8")
    whole, _, rest = text.rpartition("\n")
    if rest:  # the run was stopped while it wrote
        path.write_text(whole + "\n" if whole else "", encoding="utf-8")
    try:
        return [json.loads(line) for line in whole.splitlines()]
    except ValueError:
        raise ValueError(f"{path} is not a run of falcon bench") from None
