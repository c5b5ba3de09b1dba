"""``python -m falcon run script.py``: a program whose NumPy runs on falcon."""

from __future__ import annotations

import atexit
import builtins
import io
import os
import runpy
import sys
from collections.abc import Callable
from functools import partial
from importlib.machinery import SourceFileLoader
from pkgutil import get_importer
from types import ModuleType
from typing import Any

from .profile import profile
from .switch import accelerate

# What Python itself calls for ``-m``: it fills the module that is called __main__.
_as_main: Callable[..., Any] = runpy._run_module_as_main  # type: ignore[attr-defined]


def starter(arguments: list[str], *, module: bool, profiled: bool) -> Callable[[], None]:
    """Return what runs a program as Python would, with `accelerate` on.

    sys.argv, sys.path and the module __main__ become the program's, and stay so, for threads that
    outlive it. Its exceptions are raised, and printed without falcon's own frames.

    `arguments`: the file (``-``: standard input), folder or archive, or module, and its arguments.
    `module`: whether the first argument names a module (``-m``).
    `profiled`: print at the end where the program multiplied, on standard error.
    Raises OSError: the file cannot be read.
    """
    name, argv, main = arguments[0], list(arguments), ModuleType("__main__")
    start: Callable[[], object]
    is_folder = not module and name != "-" and get_importer(name) is not None  # or an archive
    if module:
        folder, start, argv[0] = os.getcwd(), partial(_as_main, name), "-m"
    elif is_folder:
        folder = os.path.abspath(name)
        start = partial(_as_main, "__main__", alter_argv=False)
    else:
        folder, start = _of_file(name, vars(main))
    if not sys.flags.safe_path:
        sys.path[0] = folder
    elif is_folder:
        sys.path.insert(0, folder)
    sys.argv, sys.modules["__main__"] = argv, main
    vars(main)["__builtins__"] = builtins
    return partial(_run, start, profiled)


def _of_file(name: str, names: dict[str, Any]) -> tuple[str, Callable[[], None]]:
    """Read a program; return the first folder of sys.path, and what runs it with these names."""
    if name == "-":
        folder, path, source = "", "<stdin>", sys.stdin.buffer.read()
    else:
        folder, path = os.path.dirname(os.path.realpath(name)), os.path.abspath(name)
        with io.open_code(path) as file:  # once: it may be a pipe
            source = file.read()
        names["__loader__"] = SourceFileLoader("__main__", path)
    names.update(__file__=path, __cached__=None)

    def start() -> None:
        exec(compile(source, path, "exec", dont_inherit=True), names)

    return folder, start


def _run(start: Callable[[], object], profiled: bool) -> None:
    accelerate(inherit=True)
    if profiled:
        found = profile()
        found.start()

        def end() -> None:  # once the program's threads have ended
            found.stop()
            print(f"\n{found}", file=sys.stderr)

        atexit.register(end)
    try:
        start()
    except BaseException as raised:
        inner = raised.__traceback__
        while inner is not None and inner.tb_frame.f_code.co_filename == __file__:
            inner = inner.tb_next
        show = sys.excepthook
        sys.excepthook = lambda kind, error, _: show(kind, error.with_traceback(inner), inner)
        raise
