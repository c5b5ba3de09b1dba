"""A fresh process."""

from .. import support


def python(code, **environment):
    """Run Python source, which must succeed; return (stdout, stderr)."""
    done = support.python("-c", code, **environment)
    return done.stdout, done.stderr
