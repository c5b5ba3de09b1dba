"""On a GPU, torch adds the bias where the plan is its own product; plans are looked up once."""

import pytest

import falcon

torch = pytest.importorskip("torch")
ops = pytest.importorskip("falcon.torch.ops")
stock = pytest.importorskip("falcon.torch.stock")
matmul = torch.backends.cuda.matmul


@pytest.fixture
def plans(monkeypatch, doors):
    """The plans that are asked for; none is known before."""
    made, plan = [], falcon.plan

    def watched(a, b, **options):
        made.append(plan(a, b, **options))
        return made[-1]

    monkeypatch.setattr(falcon, "plan", watched)
    doors.forget_torchs_products()
    return made


def test_the_plan_decides(plans):
    """Here of tensors on the CPU, which are planned by the same function."""
    a, b = torch.ones(60, 50), torch.ones(40, 50).mT
    with falcon.config(scheme="classical"):
        assert stock.is_stock(a, b)
        assert stock.is_stock(a, b)
    assert len(plans) == 1
    with falcon.config(scheme="strassen"):
        assert not stock.is_stock(a, b)
        assert not stock.is_stock(a, b)
    assert len(plans) == 2
    with falcon.config(scheme="classical"):
        assert stock.is_stock(a, b.contiguous())
    assert len(plans) == 3


def test_other_arithmetic_is_not_torchs(plans):
    a = torch.ones(300, 300)
    with falcon.config(arithmetic="bf16x6", scheme="classical"):
        is_stock = stock.is_stock(a, a)
    assert plans[0].scheme is None
    assert is_stock == (plans[0].method.arithmetic is None)  # where there are no such kernels
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("high")  # TF32, which falcon uses only by name
        with falcon.config(scheme="classical"):
            assert not stock.is_stock(a, a)
            assert stock.is_stock(a.double(), a.double())
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.skipif(not hasattr(matmul, "fp32_precision"), reason="torch before 2.9")
def test_tf32_by_torchs_newer_setting():
    """After which its older function raises."""
    before = matmul.fp32_precision
    try:
        for matmul.fp32_precision in ("tf32", "ieee"):
            assert stock.uses_tf32(torch.float32) == (matmul.fp32_precision == "tf32")
            assert not stock.uses_tf32(torch.float64)
    finally:
        matmul.fp32_precision = before


def test_programs_hold_whether_a_gpu_can_be_used():
    def call(x):
        return x + stock.has_backend()

    run = torch.compile(call, fullgraph=True, backend="eager")
    assert run(torch.ones(3)).tolist() == [1.0 + stock.has_backend()] * 3


class OnGpu(torch.Tensor):
    """A tensor that says that it is on a GPU."""

    is_cuda = True


@pytest.mark.parametrize(
    ("stock", "bias", "used"), [(True, 1, []), (False, 1, [1]), (True, 0, [1])]
)
def test_torch_adds_the_bias(stock, bias, used, monkeypatch):
    products, gemm = [], falcon.gemm

    def watched(*operands, out, **options):
        products.append(1)
        *operands, out = (x.as_subclass(torch.Tensor) for x in (*operands, out))
        return gemm(*operands, out=out, **options)

    monkeypatch.setattr(falcon, "gemm", watched)
    monkeypatch.setattr(ops, "is_stock", lambda a, b: stock)
    x, w = torch.ones(2, 3, 5).as_subclass(OnGpu), torch.ones(4, 5)
    added = torch.arange(4.0) if bias else None
    made = ops.multiply(x, w.mT, 4, added).as_subclass(torch.Tensor)
    expected = torch.full((2, 3, 4), 5.0) + (added if bias else 0)
    assert torch.equal(made, expected)
    assert products == used
