"""What only a GPU can show. Run with ``pytest -m gpu``; under NVIDIA's sanitizer with
``compute-sanitizer --error-exitcode 1 python -m pytest -m gpu -k "not capture"``.
"""

import copy
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

import falcon
from falcon._gpu import cublas, device, direct
from reference.lcma import lcma

from .support import DTYPES, kind, norms_of, on_device, whole

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def real():
    return pytest.importorskip("cupy")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["strassen", "2x4x2:14", "3x4x4:38", "5x5x5:93"])
def test_matches_the_reference(real, name, dtype):
    scheme = falcon.schemes.get(name)
    a, b = whole((333, 257), 1), whole((257, 419), 2)
    exact = lcma(a.astype(float), b.astype(float), scheme.U, scheme.V, scheme.W)
    for orders in ("CC", "FF", "CF", "SS"):
        left, right = (on_device(real, x, dtype, o) for x, o in zip((a, b), orders, strict=True))
        for limit in (None, 2**19 * kind(dtype).itemsize):
            c = falcon.gemm(left, right, scheme=scheme, workspace_limit=limit, check="none")
            np.testing.assert_array_equal(real.asnumpy(c), exact.astype(kind(dtype)))


@pytest.fixture(scope="module")
def catalogue(real, request):
    """The checks of all selected schemes, in threads: NVRTC takes a quarter of a minute for one."""
    names = [x.callspec.params["name"] for x in request.session.items
             if x.originalname == "test_whole_catalogue"]  # fmt: skip
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield {name: pool.submit(check_scheme, real, name) for name in names}
        pool.shutdown(cancel_futures=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", falcon.schemes.names())
def test_whole_catalogue(catalogue, name):
    catalogue[name].result()


def check_scheme(real, name):
    scheme = falcon.schemes.get(name)
    m, k, n = scheme.format
    a, b = whole((40 * m + 1, 40 * k + 1), 1), whole((40 * k + 1, 300 * n), 2)
    for dtype in DTYPES:
        operands = [on_device(real, x, dtype) for x in (a, b)]
        c = falcon.gemm(*operands, scheme=scheme, check="none")
        np.testing.assert_array_equal(real.asnumpy(c), (a @ b).astype(kind(dtype)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scheme", ["strassen", "2x4x2:14", "classical"])
def test_alpha_beta_orders_and_packed_weights(real, scheme, dtype):
    a, b, c = whole((131, 150), 1), whole((150, 173), 2), whole((131, 173), 3)
    for orders in ("CCCC", "FFFF", "CFSC", "SCFF"):
        operands = [
            on_device(real, x, dtype, order, gap=at, offset=at)
            for at, (x, order) in enumerate(zip((a, b, c), orders, strict=False))
        ]
        left, right, added = operands
        packed = falcon.pack(right, scheme=scheme)
        for alpha, beta in ((2.0, -1.0), (-0.5, 0.0)):
            exact = (alpha * (a @ b) + beta * c).astype(kind(dtype))
            out = on_device(real, np.zeros(c.shape), dtype, orders[3], gap=3)
            for factor in (right, packed):
                found = falcon.gemm(
                    left, factor, added, alpha=alpha, beta=beta, out=out, scheme=scheme
                )
                np.testing.assert_array_equal(real.asnumpy(found), exact)
        falcon.gemm(left, right, added, beta=1.0, out=added, scheme=scheme)
        np.testing.assert_array_equal(real.asnumpy(added), (a @ b + c).astype(kind(dtype)))


@pytest.mark.parametrize("arithmetic", ["fp16x3", "bf16x6"])
@pytest.mark.parametrize("scheme", ["strassen", "2x4x2:14", "classical"])
def test_parts_of_float32(real, scheme, arithmetic):
    """Exact on whole numbers; as accurate as planned; what parts cannot hold is float32."""
    given = {"scheme": scheme, "arithmetic": arithmetic, "max_growth": 40}
    a, b = whole((131, 150), 1, 9), whole((150, 173), 2, 9)
    for orders in ("CC", "FF", "SF"):
        left, right = (
            on_device(real, x, "float32", y) for x, y in zip((a, b), orders, strict=True)
        )
        for factor in (right, falcon.pack(right, **given)):
            how = given if factor is right else {}
            np.testing.assert_array_equal(real.asnumpy(falcon.gemm(left, factor, **how)), a @ b)
    x, y = np.random.default_rng(0).standard_normal((2, 700, 700)).astype(np.float32)
    exact = x.astype(float) @ y

    def error(**how):
        found = real.asnumpy(falcon.gemm(real.asarray(x), real.asarray(y), **how))
        return np.sqrt(np.mean((found - exact) ** 2))

    growth = falcon.plan(real.asarray(x), real.asarray(y), **given).growth
    assert error(**given) < 1.5 * growth * error(scheme="classical", arithmetic="native")
    # Products of small parts would be lost; so few results are below 1.2e-38, and are zero, that
    # they do not count.
    x, y = (np.ldexp(z, -56).astype(np.float32) for z in (x, y))
    exact = x.astype(float) @ y
    tiny = 1e-4 * np.sqrt(np.mean(exact**2))
    assert error(**given) < tiny
    x[5, 6] = np.inf
    found = real.asnumpy(falcon.gemm(real.asarray(x), real.asarray(y), **given))
    assert np.isinf(found[5]).all()
    np.testing.assert_allclose(np.delete(found, 5, 0), np.delete(exact, 5, 0), rtol=0, atol=tiny)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_choice(real, dtype):
    """The device is measured; whatever is chosen is near the classical product."""
    a, b = (on_device(real, whole((2048, 2048), x), dtype) for x in (1, 2))
    plan = falcon.plan(a, b)
    assert all(x.total > 0 for x in plan.candidates)
    assert {x.method.scheme is None for x in plan.candidates} == {True, False}
    found, exact = (
        real.asnumpy(falcon.gemm(a, b, scheme=x)).astype(float) for x in ("auto", "classical")
    )
    np.testing.assert_array_equal(found, exact)


def test_several_devices(real):
    if real.cuda.runtime.getDeviceCount() < 2:
        pytest.skip("needs two GPUs")
    with real.cuda.Device(1):
        a, b = (on_device(real, whole((300, 300), x), "float32") for x in (1, 2))
    c = falcon.gemm(a, b, scheme="strassen")
    assert (c.device.id, real.cuda.runtime.getDevice()) == (1, 0)
    np.testing.assert_array_equal(real.asnumpy(c), real.asnumpy(a) @ real.asnumpy(b))


@pytest.mark.parametrize("dtype", DTYPES)
def test_non_finite_values(real, dtype):
    a, b = whole((300, 200), 1).astype(float), whole((200, 400), 2).astype(float)
    a[3, 5], b[60, 149] = np.nan, -np.inf
    with np.errstate(all="ignore"):
        exact = a @ b
    c = falcon.gemm(*(on_device(real, x, dtype) for x in (a, b)), scheme="strassen")
    np.testing.assert_array_equal(real.asnumpy(c).astype(float), exact)


def test_random_data_and_packed_weights(real):
    a, b = (real.asarray(x) for x in np.random.default_rng(0).standard_normal((2, 2048, 2048)))
    exact = real.asnumpy(a) @ real.asnumpy(b)
    for x in (falcon.gemm(a, b, scheme="strassen"), falcon.gemm(a, falcon.pack(b))):
        assert np.abs(real.asnumpy(x) - exact).max() < 1e-9


def test_capture(real):
    a, b = (real.asarray(whole((512, 512), x).astype(np.float32)) for x in (1, 2))
    out = real.empty((512, 512), np.float32)
    stream = real.cuda.Stream(non_blocking=True)
    with stream:
        falcon.gemm(a, b, out=out, scheme="strassen")  # compiles, and fills the pool
        stream.begin_capture()
        falcon.gemm(a, b, out=out, scheme="strassen")
        graph = stream.end_capture()
        a[...] = 2 * a
        graph.launch(stream)
    stream.synchronize()
    np.testing.assert_array_equal(real.asnumpy(out), real.asnumpy(a) @ real.asnumpy(b))
    falcon.release_workspace()


@pytest.mark.parametrize("scheme", ["classical", "2x4x2:14"])
def test_products_in_fixed_point(real, scheme):
    """Of float64: exact on whole numbers, and as accurate as float64 on others."""
    if not cublas.has_fixed_point():
        pytest.skip("needs cuBLAS 13.1")
    how = {"arithmetic": "fixed", "scheme": scheme}
    a, b = whole((131, 150), 1, 1000), whole((150, 173), 2, 1000)
    left, right = (on_device(real, x, "float64") for x in (a, b))
    for factor in (right, falcon.pack(right, **how)):
        found = falcon.gemm(left, factor, **(how if factor is right else {}))
        np.testing.assert_array_equal(real.asnumpy(found), a @ b)
    x, y = np.random.default_rng(0).standard_normal((2, 300, 300))
    found = real.asnumpy(falcon.gemm(real.asarray(x), real.asarray(y), **how))
    assert (abs(found - x @ y) <= 1e-13 * norms_of(x, y)).all()


def test_the_driver_launches(real):
    """In the current stream, with the addresses of each call, and in a thread without a context."""
    assert direct.trial.works(0)
    for seed in range(4):
        a, b = whole((131, 150), seed), whole((150, 173), seed + 9)
        left, right = (on_device(real, x, "float32", gap=seed % 2) for x in (a, b))
        with ThreadPoolExecutor(1) as pool:
            found = pool.submit(falcon.gemm, left, right, scheme="strassen").result()
        np.testing.assert_array_equal(real.asnumpy(found), a @ b)
        found = falcon.gemm(left, right, scheme="strassen", alpha=2)
        np.testing.assert_array_equal(real.asnumpy(found), 2 * (a @ b))


@pytest.mark.parametrize("shape", [(128, 64, 128), (131, 150, 173), (700, 2100, 530)])
def test_the_kernel_of_tensor_cores(real, shape):
    """Of Hopper GPUs: exact on whole numbers in every order, added, repaired, of one triangle."""
    if device.properties(0).capability != (9, 0):
        pytest.skip("needs a Hopper GPU")
    (M, K, N), how = shape, {"arithmetic": "fp16x3", "max_growth": 40}
    a, b, c = whole((M, K), 1, 60), whole((K, N), 2, 60), whole((M, N), 3)
    for orders in ("CCC", "FFF", "CFS", "SCF"):
        left, right, out = (on_device(real, x, "float32", order)
                            for x, order in zip((a, b, c), orders, strict=True))  # fmt: skip
        for scheme in ("classical", "2x4x2:14"):
            plan = falcon.plan(left, right, scheme=scheme, **how)
            assert plan.method.layout.fused
            falcon.gemm(left, right, out=out, scheme=scheme, **how)
            np.testing.assert_array_equal(real.asnumpy(out), a @ b)
            limit = plan.workspace // 2
            plan = falcon.plan(left, right, scheme=scheme, workspace_limit=limit, **how)
            np.testing.assert_array_equal(real.asnumpy(plan(left, right)), a @ b)
        gram = real.asnumpy(falcon.gram(left, **how))
        np.testing.assert_array_equal(gram, a.T @ a)
        spoilt = a.astype(float)
        spoilt[5, 7] = np.inf
        left = on_device(real, spoilt, "float32", orders[0])
        found = real.asnumpy(falcon.gemm(left, right, scheme="strassen", **how))
        assert not np.isfinite(found[5]).any()
        np.testing.assert_array_equal(np.delete(found, 5, 0), np.delete(a @ b, 5, 0))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_torch(real, dtype):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch without CUDA")
    a, b = (torch.tensor(whole((300, 300), x), device="cuda") for x in (1, 2))
    a, b = (x.to(getattr(torch, dtype)) for x in (a, b))
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())  # in which a and b are made
    with torch.cuda.stream(side):
        c = falcon.gemm(a, b, scheme="strassen")
        torch.cuda.current_stream().synchronize()
    assert (type(c), c.dtype, c.device) == (torch.Tensor, a.dtype, a.device)
    assert (c.double() == (a.double() @ b.double()).to(c.dtype).double()).all()


@pytest.fixture
def model(real):
    """Layers of torch in float32, the same in float64, and an input: what converting may change."""
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch without CUDA")
    torch.manual_seed(0)
    nn = torch.nn
    made = nn.Sequential(nn.Linear(4096, 4096), nn.GELU(), nn.Linear(4096, 2048, bias=False)).cuda()
    x = torch.randn(2, 1024, 4096, device="cuda")
    return torch, made, copy.deepcopy(made).double(), x


def relative(found, exact):
    return float((found.double() - exact).norm() / exact.norm())


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("scheme", ["auto", "strassen"])
def test_layers_of_torch(model, scheme, packed):
    """Panels are made in torch's memory, again for other weights, and dropped by moves."""
    torch, made, wide, x = model
    with torch.no_grad():
        exact = wide(x.double())
        most = 6 * relative(made(x), exact)
    limit = None if packed else 1
    config = falcon.torch.LinearConfig(scheme, rows=2048, measure=False, memory_limit=limit)
    before = torch.cuda.memory_allocated()
    report = falcon.torch.convert_(made, config)
    print(report)
    if any(row["reason"] == "cuBLAS is as fast" for row in report.rows):
        pytest.skip("cuBLAS's float32 is as fast here")
    assert [row["packed"] for row in report.rows] == [packed, packed]
    assert torch.cuda.memory_allocated() - before >= report.extra_bytes
    assert (report.extra_bytes > 0) == packed
    run = torch.compile(made, fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        for call in (made, made, run, run):
            assert relative(call(x), exact) < most
        few = made(x[0, :2])
        torch.testing.assert_close(few.double(), exact[0, :2], rtol=0, atol=1e-4)
        for at in (0, 2):
            for layers in (made, wide):
                layers[at].weight.mul_(-2)
        exact = wide(x.double())
        assert relative(made(x), exact) < most
    y, z = x.clone().requires_grad_(), x.double().requires_grad_()
    made(y).square().sum().backward()
    wide(z).square().sum().backward()
    assert relative(y.grad, z.grad) < 10 * most
    for found, right in zip(made.parameters(), wide.parameters(), strict=True):
        assert relative(found.grad, right.grad) < 10 * most
    plain = torch.nn.Sequential(torch.nn.Linear(4096, 4096), torch.nn.GELU(),
                                torch.nn.Linear(4096, 2048, bias=False)).cuda()  # fmt: skip
    plain.load_state_dict(made.state_dict())
    made.load_state_dict(plain.state_dict())
    with torch.no_grad():
        made.cpu()
        assert relative(made(x[0, :300].cpu()), exact[0, :300].cpu()) < most
        made.cuda()
        assert relative(made(x), exact) < most


def test_layers_are_timed_and_captured(model):
    torch, made, wide, x = model
    report = falcon.torch.convert_(made, falcon.torch.LinearConfig(rows=2048), example=x)
    print(report)
    assert report.forward.low > 0
    assert all(row["measured"] or row["reason"] for row in report.rows)
    side, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    side.wait_stream(torch.cuda.current_stream())
    with torch.no_grad():
        with torch.cuda.stream(side):
            for _ in range(2):
                made(x)
            side.synchronize()
            with torch.cuda.graph(graph, stream=side):
                y = made(x)
        x.mul_(-3)
        exact = wide(x.double())
        graph.replay()
        torch.cuda.synchronize()
        assert relative(y, exact) < 1e-5
    half = copy.deepcopy(falcon.torch.revert_(made)).bfloat16()
    report = falcon.torch.convert_(half)
    print(report)
    assert {row["reason"] for row in report.rows} == {"cuBLAS is as fast"}


def test_more_than_two_to_the_31_elements(real):
    free, _ = real.cuda.runtime.memGetInfo()
    rows, columns, inner = 70000, 32768, 32
    if free < 40 * 2**30:
        pytest.skip("needs 40 GiB")
    a, b = real.ones((rows, inner), np.float32), real.ones((inner, columns), np.float32)
    c = falcon.gemm(a, b, scheme="strassen")
    assert c.size > 2**31
    assert bool((c == inner).all())


@pytest.mark.parametrize("dtype", DTYPES)
def test_uneven_operands_are_scaled(real, dtype):
    random = np.random.default_rng(0)
    a, b = (random.standard_normal((600, 600)).astype(kind(dtype)) for _ in range(2))
    left, right = (on_device(real, x, dtype) for x in (a, b))
    plan = replace(
        falcon.plan(left, right, scheme="strassen@strassen"), guarded=True, optional=True
    )
    asked = replace(plan, guarded=False)
    assert (real.asnumpy(plan(left, right)) == real.asnumpy(asked(left, right))).all()
    a[5] *= 300
    left = on_device(real, a, dtype)
    classical = falcon.gemm(left, right, scheme="classical")
    found, wanted = (real.asnumpy(x).astype(float) for x in (plan(left, right), classical))
    unit = {"float64": 1e-14, "float32": 1e-5, "float16": 2e-3, "bfloat16": 2e-2}[dtype]
    assert (np.abs(found - wanted) <= unit * (np.abs(a).astype(float) @ np.abs(b))).all()
