"""``python -m falcon run script.py``: a program whose NumPy runs on falcon."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from .profile import profile
from .switch import accelerate


def run(arguments: list[str], *, module: bool, profiled: bool) -> None:
    """Run a script, or a module, as Python would, with `accelerate` on.

    `arguments`: file or module, and its arguments.
    `module`: whether the first argument names a module (``-m``).
    `profiled`: print at the end where the program multiplied, on standard error.
    Raises OSError: the file cannot be read.
    """
    name = arguments[0]
    if not module and not Path(name).exists():
        raise FileNotFoundError(f"there is no file {name}")
    before, sys.argv = sys.argv, list(arguments)
    sys.path[0] = "" if module else str(Path(name).resolve().parent)
    accelerate(inherit=True)
    found = profile()
    if profiled:
        found.start()
    try:
        if module:
            runpy.run_module(name, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(name, run_name="__main__")
    finally:
        if profiled:
            found.stop()
            print(f"\n{found}", file=sys.stderr)
        sys.argv = before
