"""Processes that start Python anew switch acceleration on when they import NumPy.

Python imports ``sitecustomize`` when it starts: ``site/`` holds one. Only child processes find it,
because the folder comes into their PYTHONPATH, together with FALCON_ACCELERATE=1.
"""

from __future__ import annotations

import os
from pathlib import Path

_VARIABLE = "FALCON_ACCELERATE"
_SITE = str(Path(__file__).with_name("site"))


def inherit(on: bool) -> None:
    """Change the environment of child processes."""
    paths = [x for x in os.environ.get("PYTHONPATH", "").split(os.pathsep) if x and x != _SITE]
    if on:
        os.environ[_VARIABLE] = "1"
        paths.insert(0, _SITE)
    else:
        os.environ.pop(_VARIABLE, None)
    if paths:
        os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    else:
        os.environ.pop("PYTHONPATH", None)
