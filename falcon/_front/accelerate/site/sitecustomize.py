"""Python imports this when a process starts that inherits `falcon.accelerate`; see ../workers.py.

It imports nothing of falcon or NumPy: acceleration is switched on once the program imports NumPy.
"""

import os
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import PathFinder


class _Watch(MetaPathFinder):
    """Finds NumPy as always, and switches acceleration on once it is imported."""

    def find_spec(self, name, path=None, target=None):
        """Return NumPy's spec, with a loader that does more."""
        if name != "numpy":
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(Loader):
    def __init__(self, loader):
        self._loader = loader

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        """Leave it to NumPy's own loader."""
        return self._loader.create_module(spec)

    def exec_module(self, module):
        """Import NumPy, then switch acceleration on."""
        self._loader.exec_module(module)
        module.__spec__.loader = module.__loader__ = self._loader
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
