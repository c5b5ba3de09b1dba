"""Ctrl-C during a long product: raised when the product is done, and nothing is left half-done."""

import os

import pytest

import falcon

from ..support import python

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")

CODE = """
import os, signal, sys, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
import numpy as np
import falcon
backend, scheme = sys.argv[1:]
a = np.random.default_rng(0).standard_normal((1800, 1800))
out = np.empty_like(a)
call = {"backend": backend, "scheme": scheme, "out": out, "check": "none"}
start = time.perf_counter()
falcon.gemm(a, a, **call)
usual = time.perf_counter() - start
expected = out.copy()
interrupted = 0
for _ in range(3):
    out[...] = 0
    timer = threading.Timer(usual / 4, os.kill, (os.getpid(), signal.SIGINT))
    inside = True
    try:
        timer.start()
        falcon.gemm(a, a, **call)
        inside = False
        time.sleep(60)  # where the machine was busy, and the signal is late
    except KeyboardInterrupt:
        interrupted += inside
    timer.join()
    falcon.gemm(a, a, **call)
    assert np.array_equal(out, expected)
print("well" if interrupted else "late")
"""


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("scheme", ["classical", "strassen"])
@pytest.mark.parametrize("backend", ["cpu", "numpy"])
def test_interrupt(backend, scheme):
    if falcon.show_config("dict")["backends"][backend] != "available":
        pytest.skip(f"backend {backend} is not available")
    done = python("-c", CODE, backend, scheme)
    assert done.stderr == ""
    if done.stdout == "late\n":
        pytest.skip("the machine is too busy: every signal came when the product was done")
    assert done.stdout == "well\n"
