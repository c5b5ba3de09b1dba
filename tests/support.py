"""What tests of several folders share."""

from contextlib import contextmanager

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

# Seconds: a limit of time in a test ends what hangs on any machine, and says nothing about speed.
HANG = 3600


@contextmanager
def alone(folder):
    """One process of a run after the other: the first one compiles, the others find it done."""
    folder.mkdir(exist_ok=True)
    with open(folder / "lock", "w") as file:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
