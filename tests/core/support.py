"""A fresh process."""

import os
import subprocess
import sys
from pathlib import Path

import falcon


def python(code, **environment):
    """Run Python source, which must succeed; return (stdout, stderr)."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(falcon.__file__).parents[1],
        env={**os.environ, **environment},
    )
    return done.stdout, done.stderr
