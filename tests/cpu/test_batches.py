"""Batches: one call of the engine multiplies all matrices, each by one thread or by parts."""

import numpy as np
import pytest

from falcon._cpu import _core

from .support import KINDS, WRITABLE, Operand, same_bits, whole

TYPES = {"f32": "f4", "f64": "f8", "i32": "i4", "i64": "i8", "i16": "i2", "i8": "i1", "u8": "u1"}
# Matrices, M, N, K: tails of vectors and strips, one step of K, several panels, more of them than
# strips, and the gemv path.
SHAPES = [
    *((7, 1 + i, 1 + (i * 5) % 17, 1 + (i * 11) % 17) for i in range(17)),
    *((9, 8, 8, 8), (5, 16, 32, 16), (3, 33, 50, 47), (2, 130, 70, 65), (1, 150, 90, 300)),
    *((1, 20, 300, 70), (3, 25, 200, 90)),
]


def multiply(a, b, c, kind, alpha=1.0, **options):
    """Multiply the matrices of three batches through the binding."""
    M, N, K = *c.shape[-2:], a.shape[-1]
    planned = _core.plan(
        *(M, N, K, kind),
        a_by_columns=a.strides[-1] != a.itemsize == a.strides[-2],
        b_by_rows=b.strides[-1] == b.itemsize,
        c_by_columns=c.strides[-1] != c.itemsize == c.strides[-2],
        **options,
    )
    first = (0,) * (c.ndim - 2)
    steps = tuple(x.strides[:-2] for x in (a, b, c))
    _core.gemm_batch(planned, a[first], b[first], c[first], c.shape[:-2], steps, alpha)


def batch(count, rows, columns, kind, dtype="f4", at_end=True):
    """Matrices in guarded memory, and a view of them all."""
    memory = Operand(count * rows, columns, dtype, kind, at_end)
    return memory, memory.array.reshape(count, rows, columns)


@pytest.mark.parametrize("isa", _core.supported_isas())
@pytest.mark.parametrize("kind", TYPES)
def test_any_strides_in_guarded_memory(isa, kind):
    """Nothing outside the matrices is read or written, whatever the strides."""
    rng = np.random.default_rng(1)
    for count, M, N, K in SHAPES:
        for at_end in (True, False):
            kinds = rng.choice([*KINDS], 2), rng.choice(WRITABLE)
            how = TYPES[kind], at_end
            (_, a), (_, b) = (
                batch(count, *x, y, *how) for x, y in zip(((M, K), (K, N)), kinds[0], strict=True)
            )
            memory, c = batch(count, M, N, kinds[1], *how)
            least = 0 if kind == "u8" else -4
            a[...], b[...] = (rng.integers(least, 5, x.shape) for x in (a, b))
            multiply(a, b, c, kind, 3, isa=isa, threads=int(rng.integers(1, 17)))
            exact = (3 * (a.astype(int) @ b.astype(int))).astype(TYPES[kind])
            np.testing.assert_array_equal(c, exact, err_msg=f"{count, M, N, K} {kinds}")
            assert memory.gaps_untouched()


@pytest.mark.parametrize("isa", _core.supported_isas())
@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_complex_matrices_in_guarded_memory(isa, kind):
    """A and C are real matrices with contiguous rows, B is complex and lies anyhow."""
    rng = np.random.default_rng(5)
    real, dtype = TYPES[kind], {"f32": "c8", "f64": "c16"}[kind]
    layout = {"isa": isa, "threads": 3, "complex_b": True}
    assert not _core.plan(8, 16, 1200, kind, **layout).is_direct  # the panels of B have no room
    for count, M, N, K in (x for x in SHAPES if x[3] < 100):
        for by_rows, at_end in ((True, True), (True, False), (False, True), (False, False)):
            planned = _core.plan(M, 2 * N, 2 * K, kind, b_by_rows=by_rows, **layout)
            assert planned.is_direct == (M > 1)
            memory, c = batch(count, M, 2 * N, "C", real, at_end)
            _, a = batch(count, M, 2 * K, "C", real, at_end)
            shape = (K, N) if by_rows else (N, K)
            _, b = batch(count, *shape, "C", dtype, at_end)
            b = b if by_rows else b.swapaxes(1, 2)
            a[...] = rng.integers(-4, 5, a.shape)
            b[...] = rng.integers(-4, 5, b.shape) + 1j * rng.integers(-4, 5, b.shape)
            steps = tuple(x.strides[:1] for x in (a, b, c))
            if M == 1:
                with pytest.raises(ValueError, match="are no batch"):
                    _core.gemm_batch(planned, a[0], b[0], c[0], (count,), steps)
                continue
            _core.gemm_batch(planned, a[0], b[0], c[0], (count,), steps)
            np.testing.assert_array_equal(c, np.matmul(a.view(dtype), b).view(real))
            assert memory.gaps_untouched()


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_bits_do_not_depend_on_threads_or_on_the_batch(kind):
    """Few matrices are multiplied by parts, many by runs, one of them by a call for one."""
    rng = np.random.default_rng(2)
    for count, M, N, K in ((2, 250, 90, 300), (40, 61, 70, 50), (300, 9, 12, 10), (3, 9, 600, 700)):
        a, b = (rng.standard_normal((count, *x)).astype(TYPES[kind]) for x in ((M, K), (K, N)))
        for right in (b, b.swapaxes(1, 2).copy().swapaxes(1, 2)):
            found = []
            for threads in (1, 2, 5, 16):
                c = np.full((count, M, N), np.nan, a.dtype)
                multiply(a, right, c, kind, threads=threads)
                found.append(c)
            one = np.empty((M, N), a.dtype)
            planned = _core.plan(M, N, K, kind, b_by_rows=right is b, threads=2)
            _core.gemm(planned, a[1], right[1], one)
            assert all(same_bits(x, found[0]) for x in found)
            assert same_bits(one, found[0][1]) or planned.nbytes  # that call is cut along K
            np.testing.assert_allclose(found[0], a @ b, rtol=1e-4, atol=1e-3)


def test_axes_broadcast_operands_and_negative_steps():
    rng = np.random.default_rng(3)
    a = whole(rng, (3, 1, 5, 7, 9)).astype("f4")[::-1, :, ::2]
    b = whole(rng, (4, 1, 9, 6)).astype("f4")
    c = np.zeros((3, 4, 3, 7, 6), "f4")[:, ::-1]
    left, right = (np.broadcast_to(x, c.shape[:3] + x.shape[-2:]) for x in (a, b))
    for y in (right, np.broadcast_to(b.swapaxes(2, 3).copy().swapaxes(2, 3), right.shape)):
        multiply(left, y, c, "f32", threads=3)
        np.testing.assert_array_equal(c, left.astype(int) @ y.astype(int))


@pytest.mark.parametrize("K", [1, 30])
def test_not_a_number_stays_in_its_rows(K):
    rng = np.random.default_rng(4)
    a, b = (rng.standard_normal(x).astype("f4") for x in ((50, 13, K), (50, K, 37)))
    c, clean = np.empty((2, 50, 13, 37), "f4")
    multiply(a, b, clean, "f32")
    a[20, 5, K - 1] = np.nan
    multiply(a, b, c, "f32", threads=2)
    assert np.isnan(c[20, 5]).all()
    c[20, 5] = clean[20, 5]
    assert same_bits(c, clean)


def test_no_steps_no_matrices_and_no_factor():
    a, b, c = (np.full(x, np.nan, "f4") for x in ((3, 4, 5), (3, 5, 6), (3, 4, 6)))
    multiply(a[:, :, :0], b[:, :0], c, "f32")
    np.testing.assert_array_equal(c, 0)
    c[...] = 7
    _core.gemm_batch(_core.plan(4, 6, 5, "f32"), a[0], b[0], c[0], (0, 2), ((0, 0),) * 3)
    np.testing.assert_array_equal(c, 7)
    multiply(a, b, c, "f32", 0)
    np.testing.assert_array_equal(c, 0)
