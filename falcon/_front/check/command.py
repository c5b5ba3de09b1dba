"""``python -m falcon check``: its arguments, the progress bar, the record file."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any


def add_check(commands: Any) -> None:
    """Declare the command; `commands`: what `add_subparsers` returned."""
    parser = commands.add_parser(
        "check", help="test this installation on this machine",
        description="Test every kernel, thread counts, every backend, NaN and Inf, batches and a "
        "large product; compare with NumPy. Takes a minute or two; the exit status is 1 if a "
        "product is wrong.",
    )  # fmt: skip
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write what a bug report "
                        "needs, without paths, host and user names (JSON)")  # fmt: skip
    parser.add_argument("--no-speeds", action="store_true", help="do not compare with NumPy")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    """Run the check and print the tables; return 1 if a product is wrong."""
    from tqdm import tqdm

    from .result import CheckResult
    from .steps import steps

    output: Path | None = options.output
    if output is not None and not output.parent.is_dir():
        raise ValueError(f"{output}: its folder does not exist")
    result, todo = CheckResult(), steps(speeds=not options.no_speeds)
    with tqdm(todo, unit="step", leave=False, disable=not sys.stderr.isatty()) as bar:
        try:
            for step in bar:
                bar.set_description(step.name)
                step(result)
        except KeyboardInterrupt:
            bar.close()
            print(result)
            print(f"stopped: {bar.n} of {len(todo)} steps are done", file=sys.stderr)
            raise
    if output is not None:
        output.write_text(json.dumps(result.to_dict(), indent=1) + "\n", encoding="utf-8")
    print(result)
    if not result.ok:
        record = output or "what -o record.json writes"
        print(f"please report it, with {record}", file=sys.stderr)
    return 0 if result.ok else 1
