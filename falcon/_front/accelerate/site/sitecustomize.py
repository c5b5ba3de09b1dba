"""Python imports this when a process starts that inherits `falcon.accelerate`; see ../switch.py.

It imports nothing of falcon or NumPy: acceleration is switched on once the program imports NumPy.
"""

import os
import sys
from functools import partial
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder


class _Watch(MetaPathFinder):
    """Finds NumPy as always, and switches acceleration on once it is imported."""

    def find_spec(self, name, path=None, target=None):
        """Return NumPy's spec, whose loader does more, once."""
        if name != "numpy":
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            vars(spec.loader)["exec_module"] = partial(_run, spec.loader)
        return spec


def _run(loader, module):
    """Import NumPy by its loader, then switch acceleration on."""
    del loader.exec_module  # this one: its class has its own
    loader.exec_module(module)
    try:
        from falcon._front.accelerate.switch import accelerate

        accelerate(quiet=True)
    except (ImportError, RuntimeError) as error:
        print(f"falcon: NumPy is not accelerated in this process: {error}", file=sys.stderr)


def _next():
    """Run the sitecustomize that this one hides, if there is one."""
    own = os.path.dirname(os.path.abspath(__file__))
    paths = [x for x in sys.path if os.path.abspath(x) != own]
    spec = PathFinder.find_spec("sitecustomize", paths)
    if spec is not None and spec.loader is not None:
        from importlib.util import module_from_spec

        spec.loader.exec_module(module_from_spec(spec))


if os.environ.get("FALCON_ACCELERATE") == "1":
    sys.meta_path.insert(0, _Watch())
_next()
