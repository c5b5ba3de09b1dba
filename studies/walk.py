"""Through which files a product goes: those of falcon/, in the order in which they are entered.

`python studies/walk.py [SIZE]`: two calls of falcon.gemm(a, b) of float32 on backend "cpu", the
first of its kind and one like it, each with the function by which a file is first entered. Compiled
code is not seen. What runs while a module is imported, as many are by a first call, is left out.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

import falcon

PACKAGE = Path(falcon.__file__).parent


def is_imported(frame):
    """Whether a frame runs because a module of falcon is being imported."""
    while frame is not None:
        if frame.f_code.co_name == "<module>" and PACKAGE in Path(frame.f_code.co_filename).parents:
            return True
        frame = frame.f_back
    return False


def entered(run):
    """Return the files that a call enters, with the function first entered and who called it."""
    files = {}

    def look(frame, event, _):
        path, caller = Path(frame.f_code.co_filename), frame.f_back
        if event != "call" or PACKAGE not in path.parents or path in files or is_imported(frame):
            return
        files[path] = frame.f_code.co_qualname, caller and caller.f_code.co_qualname

    sys.setprofile(look)
    try:
        run()
    finally:
        sys.setprofile(None)
    return files


def show(title, files):
    """Print a row per file."""
    print(f"{title}: {len(files)} files")
    for path, (function, caller) in files.items():
        print(f"    {path.relative_to(PACKAGE)!s:<28} {function:<40} from {caller}")


def main():
    """Walk twice."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("size", type=int, nargs="?", default=1500)
    size = parser.parse_args().size
    a, b = (np.ones((size, size), np.float32) for _ in range(2))
    for title in ("the first call", "a repeated call"):
        show(title, entered(lambda: falcon.gemm(a, b, backend="cpu")))


if __name__ == "__main__":
    main()
