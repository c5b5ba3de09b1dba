"""A child does not wait for what a thread of its parent does at a fork: locks, values, imports."""

import os
import pickle
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import falcon
from falcon._tools.lazy import lazy
from falcon._tools.locks import ForkLock, importing

from ..support import python

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


LOCKS = {f"{name}.{x}": lock for name, module in [*sys.modules.items()]
         if name.startswith("falcon.") for x, lock in vars(module).items()
         if isinstance(lock, ForkLock)}  # fmt: skip


@pytest.mark.parametrize("lock", LOCKS.values(), ids=LOCKS)
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


class Value:
    def __init__(self, compute):
        self.compute = compute

    @lazy
    def value(self):
        """What `compute` returns."""
        return self.compute()


def child_ends(call, seconds=20):
    """Whether a forked child ends after a call."""
    child = os.fork()
    if child == 0:
        call()
        os._exit(0)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if os.waitpid(child, os.WNOHANG)[0]:
            return True
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def test_a_fork_while_a_thread_computes_a_lazy_value():
    """Others compute theirs meanwhile, in the child and here; the first value is kept."""
    begun, go_on = threading.Event(), threading.Event()
    shared = Value(lambda: (begun.set(), go_on.wait(60), object())[-1])
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(lambda: shared.value)
        begun.wait()
        try:
            assert child_ends(lambda: Value(int).value)
            assert pool._work_queue.empty() and not slow.done() and Value(int).value == 0
            shared.compute = object
            first = shared.value
        finally:
            go_on.set()
        assert slow.result() is first is shared.value


def test_lazy_values_are_what_cached_properties_are():
    assert Value.value.__doc__ == "What `compute` returns."
    x = Value(int)
    assert "value" not in vars(x) and x.value == vars(x)["value"] == 0
    assert vars(pickle.loads(pickle.dumps(x)))["value"] == 0
    scheme = falcon.schemes.get("strassen")
    assert scheme.phi and "phi" not in vars(pickle.loads(pickle.dumps(scheme)))


FIRST = """
import os, signal, sys, threading, time
import numpy as np
import falcon

def call():
    getattr(falcon, name)(*arguments, **options)

name, arguments, options = eval(sys.argv[1], {"a": np.ones((300, 300))})
thread = threading.Thread(target=call)
thread.start()
children = []
while not children or (thread.is_alive() and len(children) < 40):
    child = os.fork()
    if child == 0:
        call()
        os._exit(0)
    children.append(child)
thread.join()
end = time.monotonic() + 60
while children and time.monotonic() < end:
    children = [x for x in children if not os.waitpid(x, os.WNOHANG)[0]]
    time.sleep(0.01)
for x in children:
    os.kill(x, signal.SIGKILL)
    os.waitpid(x, 0)
print(len(children), "hang")
"""
CALLS = [
    "'gemm', (a, a), {'threads': 1}",
    "'gemm', (a, a), {'threads': 1, 'check': 'verify'}",
    "'matmul', (a, a), {'threads': 1}",
    "'gram', (a,), {'threads': 1}",
    "'pack', (a,), {'threads': 1}",
    "'einsum', ('ij,jk,kl->il', a, a, a), {'threads': 1}",
    "'accelerate', (), {'quiet': True}",
]


@pytest.mark.parametrize("call", CALLS)
def test_forks_during_the_first_call_of_a_process(call):
    """It imports most of falcon: children of other threads would wait for the modules."""
    assert python("-c", FIRST, call).stdout == "0 hang\n"


def test_a_fork_waits_for_imports_of_other_threads_alone():
    begun, go_on, forked = (threading.Event() for _ in range(3))

    def slow():
        with importing(), importing():
            begun.set()
            go_on.wait(60)

    def fork():
        with importing():
            child_ends(lambda: None)
        forked.set()

    with ThreadPoolExecutor(2) as pool:
        waited_for = pool.submit(slow)
        begun.wait()
        forking = pool.submit(fork)
        assert not forked.wait(0.2)
        with importing():  # imports do not wait for one another
            go_on.set()
            waited_for.result()
        forking.result()
    assert forked.is_set() and child_ends(lambda: importing().acquire())
