"""``reproducible="rows"``: the bits of an entry, whatever the other rows, columns and threads."""

import ml_dtypes
import numpy as np
import pytest

import falcon

pytest.importorskip("falcon._cpu._core", reason="needs the compiled extension")

BF16 = np.dtype(ml_dtypes.bfloat16)
TYPES = ["f4", "f8", "f2", BF16, "c8", "c16", "i4"]
M = 70
ROWS = [1, 2, 3, 4, 5, 8, 9, 17, 31, 33, 64, M]


@pytest.fixture(autouse=True)
def rows():
    with falcon.config(reproducible="rows"):
        yield


def made(shape, dtype, seed=0):
    random = np.random.default_rng(seed)
    x = 5 * random.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        x = x + 5j * random.standard_normal(shape)
    return x.astype(dtype)


def same(found, wanted):
    """Bits and shapes."""
    assert found.shape == wanted.shape and found.dtype == wanted.dtype
    assert found.tobytes() == np.ascontiguousarray(wanted).tobytes()


@pytest.mark.parametrize("dtype", TYPES, ids=lambda x: np.dtype(x).name)
@pytest.mark.parametrize("sizes", [(9, 1), (40, 33), (600, 130), (9000, 40)], ids=str)
def test_rows(dtype, sizes):
    K, N = sizes
    a, b, c = made((M, K), dtype), made((K, N), dtype, 1), made((M, N), dtype, 2)
    wide = complex if a.dtype.kind == "c" else float
    whole, by_columns = falcon.gemm(a, b), (np.asfortranarray(a), np.asfortranarray(b))
    if a.dtype.kind != "i":
        norms = np.linalg.norm(a.astype(wide), axis=1)[:, None] * np.linalg.norm(
            b.astype(wide), axis=0
        )
        unit = {2: 2.0**-8, 4: 2.0**-24, 8: 2.0**-53}[a.real.itemsize]
        assert (
            abs(whole.astype(wide) - a.astype(wide) @ b.astype(wide)) <= 40 * unit * norms
        ).all()
    scalars = {"alpha": 2, "beta": 3}
    added = falcon.gemm(a, b, c, **scalars)
    packed = falcon.pack(b), falcon.pack(by_columns[1], rows=3)
    for threads in (1, 2, 5):
        for m in ROWS:
            how = {"threads": threads}
            same(falcon.gemm(a[:m], b, **how), whole[:m])
            same(falcon.gemm(a[M - m :], b, **how), whole[M - m :])
            same(falcon.gemm(by_columns[0][:m], by_columns[1], **how), whole[:m])
            for panels in packed:
                same(falcon.matmul(a[:m], panels, **how), whole[:m])
            out = np.empty((m, N), dtype, "F")
            same(falcon.matmul(a[:m], b, out, **how), whole[:m])
            out = np.asarray(c[:m], order="F").copy("F")
            same(falcon.gemm(a[:m], b, out, out=out, **scalars, **how), added[:m])
            same(falcon.matmul(a[:m], b[:, :1], **how), whole[:m, :1])
            same(falcon.matmul(a[:m], b[:, 0], **how), whole[:m, 0])
            same(falcon.matmul(a[m - 1], b, **how), whole[m - 1])


@pytest.mark.parametrize("dtype", ["f4", "f8", BF16, "c8"], ids=lambda x: np.dtype(x).name)
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_batches(dtype, threads):
    a, b = made((3, 20, 300), dtype), made((3, 300, 40), dtype, 1)
    with falcon.config(threads=threads):
        wanted = np.stack([falcon.gemm(x, y) for x, y in zip(a, b, strict=True)])
        same(falcon.matmul(a, b), wanted)
        same(falcon.matmul(a[:, 7:8], b), wanted[:, 7:8])
        same(falcon.matmul(a[:, 3:5], np.asarray(b, order="F")), wanted[:, 3:5])
        same(falcon.matmul(a, b[0])[0], wanted[0])
        same(falcon.einsum("bij,bjk->bik", a, b), wanted)


def test_what_a_row_holds_does_not_matter_to_others():
    for dtype in ("f4", "c8"):
        a, b = made((M, 500), dtype), made((500, 60), dtype, 1)
        whole, packed = falcon.matmul(a, b), falcon.pack(b)
        for value in (np.nan, np.inf, 1e-30):
            a[7] = value
            same(falcon.matmul(a, b)[8:], whole[8:])
            same(falcon.matmul(a, packed)[8:], whole[8:])


def test_symmetric_and_mixed_products(doors):
    doors.numbers(least_parts=2.0 * 60 * 200 * 300, shortest_part=1)  # for all rows, not for one
    a = made((M, 500), "f4")
    same(falcon.matmul(a[:5], a.T), falcon.matmul(a, a.T)[:5])
    z, b = made((M, 300), "c8"), made((300, 200), "f4", 1)
    for x, y in ((z, b), (z.real, b + 1j * b[::-1])):
        x = x.copy()
        x[0, 3] = np.inf  # which times an imaginary part of 0 is NaN
        same(falcon.matmul(x[:1], y), falcon.matmul(x, y)[:1])


def test_what_it_cannot_be_combined_with():
    a, b = made((40, 50), "f4"), made((50, 60), "f4")
    for name, value in (("scheme", "strassen"), ("arithmetic", "bf16x6"), ("centre", True)):
        with pytest.raises(ValueError, match=f"reproducible='rows' is for .*; {name} is"):
            falcon.matmul(a, b, **{name: value})
    with pytest.raises(ValueError, match="reproducible='rows' is for falcon's own kernels"):
        falcon.matmul(a, b, backend="numpy")
    packed = falcon.pack(b, scheme="strassen", reproducible=False)
    with pytest.raises(ValueError, match=r"pack\(b, reproducible='rows'\)"):
        falcon.matmul(a, packed)
    with pytest.raises(TypeError, match="reproducible is 'row'; expected True, False or \"rows\""):
        falcon.matmul(a, b, reproducible="row")


def test_plans_are_classical():
    plan = falcon.plan((3000, 3000), (3000, 3000), "f4")
    assert plan.label == "classical" and plan.backend.name == "cpu"
    assert plan.method.chunks[2] == 3000
