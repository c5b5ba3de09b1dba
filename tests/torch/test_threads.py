"""Products of tensors run on torch's own threads while these spin."""

import os
import threading

import pytest

import falcon

from .support import integers, torch

threads = pytest.importorskip("falcon.torch.threads")

X, W = integers(300, 500, dtype=torch.float32), integers(400, 500, dtype=torch.float32)
WANTED = X.double() @ W.double().T


@pytest.fixture(autouse=True)
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)
    falcon.set_config(share_threads=True)


def products():
    for _ in range(20):
        torch.nn.functional.gelu(X)
        assert torch.equal(falcon.torch.linear(X, W).double(), WANTED)


def test_products_after_operators_of_torch():
    products()
    falcon.set_config(share_threads=False)
    products()
    for count in (1, 2):
        torch.set_num_threads(count)
        products()


def test_other_threads_have_their_own(engine):
    failed = []

    def body():
        try:
            products()
        except BaseException as error:
            failed.append(error)

    some = [threading.Thread(target=body) for _ in range(3)]
    for x in some:
        x.start()
    products()
    for x in some:
        x.join()
    assert not failed


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_does_not_wait_for_them(engine):
    products()
    child = os.fork()
    if not child:
        found = falcon.torch.linear(X, W).numpy()  # torch's own operators would wait for ever
        os._exit(not (found == WANTED.numpy()).all())
    assert os.waitpid(child, 0)[1] == 0


def test_the_openmp_of_torch_is_found(engine):
    if "OpenMP" not in torch.__config__.parallel_info() or os.name != "posix":
        pytest.skip("torch has no OpenMP here")
    assert threads.parallel() or os.uname().sysname != "Linux"
    products()
    assert engine.guests() == (2 if threads.parallel() else 0)
    falcon.set_config(share_threads=False)
    products()
    assert engine.guests() == 0
