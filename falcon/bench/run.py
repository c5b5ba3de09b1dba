"""An unfinished record file: rewritten after every round, so that a stop loses at most one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .records import empty


class Run:
    """The results so far, on disk and in `found`, which becomes the record file.

    Parameters
    ----------
    path : Path or None
        None keeps it in memory only.
    asked : dict
        What is to be measured, and on which machine. A file of another run is refused.

    Raises
    ------
    ValueError
        The file holds another run, or no run at all.
    """

    def __init__(self, path: Path | None, asked: dict[str, Any]) -> None:
        self.path = path
        # As JSON stores it, to be compared with the request in the file.
        self._asked = json.loads(json.dumps(asked))
        self.done: list[str] = []
        self.found = empty(asked["machine"], asked["threads"])
        if path is None or not path.exists():
            return
        try:
            held = json.loads(path.read_text(encoding="utf-8"))
            self.found, self.done = held["found"], held["done"]
        except (ValueError, KeyError, TypeError):
            raise ValueError(f"{path} is not a run of falcon bench") from None
        if held["asked"] != self._asked:
            raise ValueError(
                f"{path} was begun with other cases, peers or settings; resume with the same "
                "arguments, or discard it with --fresh"
            )

    def case(self, key: str) -> dict[str, Any] | None:
        """Return the entry of a case, complete or not; None if there is none."""
        return next((x for x in self.found["cases"] if x["key"] == key), None)

    def put_case(self, entry: dict[str, Any]) -> None:
        """Store the entry of a case, in place of an earlier one."""
        held = [x["key"] for x in self.found["cases"]]
        at = held.index(entry["key"]) if entry["key"] in held else len(held)
        self.found["cases"][at : at + 1] = [entry]
        self.save()

    def finish(self, key: str) -> None:
        """Note that a case or a task is complete."""
        self.done.append(key)
        self.save()

    def save(self) -> None:
        """Replace the file as a whole."""
        if self.path is not None:
            part = self.path.with_name(self.path.name + "~")
            held = {"asked": self._asked, "done": self.done, "found": self.found}
            part.write_text(json.dumps(held), encoding="utf-8")
            part.replace(self.path)
