"""A lock that a thread holds while its process forks is open in the child."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from falcon._core.locks import ForkLock
from falcon._front import planner
from falcon.decision import machine

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")


def taken_in_a_child(lock):
    """Whether a child takes the lock while a thread of this process holds it."""
    held, done = threading.Event(), threading.Event()

    def hold():
        with lock.lock:
            held.set()
            done.wait()

    with ThreadPoolExecutor(1) as pool:
        holding = pool.submit(hold)
        held.wait()
        child = os.fork()
        if child == 0:
            os._exit(0 if lock.lock.acquire(timeout=2) else 1)
        _, status = os.waitpid(child, 0)
        assert lock.lock.locked()  # in this process it is still held
        done.set()
        holding.result()
    return os.waitstatus_to_exitcode(status) == 0


@pytest.mark.parametrize(
    "lock",
    [machine._lock, planner._plans_lock],
    ids=["machine", "planner"],
)
def test_locks_of_modules(lock):
    assert taken_in_a_child(lock)


def test_a_thread_that_forks_while_it_holds_the_lock():
    lock = ForkLock()
    with lock.lock:
        child = os.fork()
    if child == 0:
        os._exit(0 if lock.lock.acquire(timeout=2) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert not lock.lock.locked()
