"""Python imports this when a process starts that inherits `falcon.accelerate`; see ../switch.py.

It imports nothing of falcon or NumPy: acceleration is switched on once the program imports NumPy,
itself or by importing falcon.
"""

import json
import os
import sys
from functools import partial
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder


class _Watch(MetaPathFinder):
    """Finds NumPy and falcon as always, and switches acceleration on once one is imported."""

    def find_spec(self, name, path=None, target=None):
        """Return a spec whose loader does more: who asks for it need not import the module."""
        if name not in ("numpy", "falcon"):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            vars(spec.loader)["exec_module"] = partial(self._run, spec.loader)
        return spec

    def _run(self, loader, module):
        """Import a module by its loader, then switch acceleration on, once."""
        del loader.exec_module  # this one: its class has its own
        if is_first := self in sys.meta_path:
            sys.meta_path.remove(self)
        try:
            loader.exec_module(module)
        except BaseException:
            if is_first:
                sys.meta_path.insert(0, self)
            raise
        if not is_first:
            return
        try:
            from falcon import accelerate, set_config

            set_config(**json.loads(os.environ.get("FALCON_SETTINGS", "{}")))
            is_plain = os.environ["FALCON_ACCELERATE"] == "1"
            accelerate(quiet=True, overflow="wrap" if is_plain else "raise")
        except (ImportError, RuntimeError, TypeError, ValueError) as error:
            print(f"falcon: NumPy is not accelerated in this process: {error}", file=sys.stderr)


def _next():
    """Run the sitecustomize that this one hides, if there is one."""
    own = os.path.dirname(os.path.abspath(__file__))
    paths = [x for x in sys.path if os.path.abspath(x) != own]
    spec = PathFinder.find_spec("sitecustomize", paths)
    if spec is not None and spec.loader is not None:
        from importlib.util import module_from_spec

        spec.loader.exec_module(module_from_spec(spec))


if os.environ.get("FALCON_ACCELERATE") in ("1", "raise"):
    sys.meta_path.insert(0, _Watch())
_next()
