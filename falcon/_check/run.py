"""`check`: the self-test, in Python and as ``python -m falcon check``."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from falcon._core.progress import Progress

from .result import CheckResult


def check(*, tick: Callable[[str], None] | None = None) -> CheckResult:
    """Test this installation on this machine, in a few seconds; print nothing.

    Parameters
    ----------
    tick : callable, optional
        Called with the name of each step before it.

    Returns
    -------
    CheckResult
        ``result.ok`` says whether all products were right, ``print(result)`` shows a table, and
        ``result.to_dict()`` is what a bug report needs.

    Notes
    -----
    Every kernel of every instruction set that runs here multiplies odd sizes, by the classical
    algorithm and by Strassen's: whole numbers, whose products must be right in every bit, and
    random ones, against more precision and the promised bound. With 1, 2, all and more threads than
    CPUs the bits are the same. Then whole calls on each backend that runs here (a GPU's too), NaN
    and Inf, batches, a packed B, products modulo p, and one larger than the caches, as far as
    memory allows it. Settings (`falcon.config`) do not matter,
    except `threads`; nor do stored choices change.

    Examples
    --------
    >>> import falcon
    >>> result = falcon.check()  # doctest: +SKIP
    >>> result.ok  # doctest: +SKIP
    True
    """
    from .steps import run_steps  # here, as what only a check needs is imported

    result = CheckResult()
    run_steps(result, lambda name, _: tick and tick(name))
    return result


def add_check(commands: Any) -> None:
    """Declare ``python -m falcon check``; `commands`: what `add_subparsers` returned."""
    parser = commands.add_parser(
        "check", help="test this installation on this machine",
        description="Test every kernel, thread counts, every backend, NaN and Inf, batches, packed "
        "operands, residues, a large product. Takes a few seconds; the exit status is 1 if a "
        "product is wrong.",
    )  # fmt: skip
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write what a bug report "
                        "needs (JSON); it may name folders")  # fmt: skip
    parser.set_defaults(run=_run)


def _run(options: Any) -> int:
    """Run the check and print the tables; return 1 if a product is wrong."""
    from .steps import run_steps

    output: Path | None = options.output
    if output is not None and not output.parent.is_dir():
        raise ValueError(f"{output}: its folder does not exist")
    result, total = CheckResult(), 0
    with Progress("") as progress:

        def tick(name: str, count: int) -> None:
            nonlocal total
            total = count
            progress.say(name)
            progress.at(len(result.rows), total)

        try:
            run_steps(result, tick)
        except KeyboardInterrupt:
            progress.print(str(result))
            said = f"stopped: {progress.count:.0f} of {total or 'all'} steps are done"
            progress.print(said, sys.stderr)
            raise
    if output is not None:
        output.write_text(json.dumps(result.to_dict(), indent=1) + "\n", encoding="utf-8")
    print(result)
    if not result.ok:
        print(f"please report it, with {output or 'what -o record.json writes'}", file=sys.stderr)
    return 0 if result.ok else 1
