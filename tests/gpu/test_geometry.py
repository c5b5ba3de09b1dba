"""Block sizes, chunks, launches: pure functions, and their arithmetic beyond 2^31 elements."""

import mmap
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import falcon
from falcon._core.dtypes import FLOAT16, FLOAT32
from falcon._core.matrix import dense
from falcon._gpu import device, geometry, kernels, layout, sources
from falcon._gpu.packed import Sums
from falcon.codegen.cuda_plan import products

from ..doors import Problem
from . import fake_cupy

STRASSEN = falcon.schemes.get("strassen")
SIZE = st.integers(1, 70000)
NO_RESERVE = 0x4000  # MAP_NORESERVE of Linux, which the mmap module does not name


@given(SIZE, SIZE)
def test_threads_of_elements(major, minor):
    """Each has one, and of narrow matrices few threads have none."""
    (blocks, *_), (width, rows, _) = geometry.element_launch(major, minor)
    assert width * rows == geometry.BLOCK_THREADS
    assert blocks == -(-minor // width) * -(-major // rows)
    assert blocks * geometry.BLOCK_THREADS < 2 * minor * (major + rows)


@given(SIZE, SIZE, SIZE)
def test_blocks_cover_the_matrix_in_whole_sectors(M, N, K):
    scheme = falcon.schemes.get("3x4x5:48")
    for size, parts, block in zip(
        (M, N, K), (3, 5, 4), layout.block_sizes(M, N, K, scheme), strict=True
    ):
        assert block * parts >= size
        assert block % 16 == 0
        assert block - size / parts <= 16


@given(SIZE, SIZE, SIZE, st.integers(2**12, 2**34), st.booleans())
def test_chunks_keep_the_room(M, N, K, room, packed):
    block = layout.block_sizes(M, N, K, STRASSEN)
    problem = Problem(M, N, K, FLOAT32, packed=packed, device=0)
    found = layout.chunk_within(block, problem, STRASSEN, room, FLOAT32)
    if found is None:
        smallest = (16, 16, block[2] if packed else 16)
        # Chunks are halved: within a factor of the smallest there may be none.
        assert room < 8 * sum(layout.sums(smallest, problem, STRASSEN, FLOAT32))
        return
    assert all(0 < chunk <= size for chunk, size in zip(found, block, strict=True))
    assert all(chunk % 16 == 0 for chunk in found)
    assert not packed or found[2] == block[2]
    assert sum(layout.sums(found, problem, STRASSEN, FLOAT32)) <= room


PROBE = """
extern "C" __global__ void probe(int *whole, long long major, long long minor, long long step_major,
                                 long long step_minor, long long width, int blocks, int aligned) {
    const Place place = place_of<4>(blockIdx.x, major, minor, step_major, step_minor, width, blocks,
                                    blocks, aligned);
    for (int e = 0; e < 4 && place.x < step_major; ++e)
        if (place.y + e * place.step < width)
            whole[place.x * width + place.y + e * place.step] += 1 + place.whole;
}
"""


@pytest.mark.parametrize("blocks", [2, 3, 5])
@pytest.mark.parametrize("size", [1500, 1512, 1536])
@pytest.mark.parametrize("aligned", [0, 1])
def test_vectors_reach_the_last_whole_one(cupy, blocks, size, aligned):
    """Only the vector in which the matrix ends is taken element by element, not its warp's tile."""
    rows, width = 5, geometry.round_up(-(-size // blocks), 8)
    kernel = device.function(sources.assemble([sources.Unit("probe", PROBE)]), "probe")
    taken = device.upload(np.zeros((rows, width), np.int32))
    sizes = (blocks * rows, size, rows, width, width, np.int32(blocks), np.int32(aligned))
    kernel(*geometry.combine_launch(rows, width, 4), (int(taken.data.ptr), *sizes))
    last = (size - (blocks - 1) * width) // 4 * 4 if aligned else 0
    expected = np.where(np.arange(width) < last, 2, 1)
    np.testing.assert_array_equal(device.download(taken), np.broadcast_to(expected, (rows, width)))


@given(SIZE, SIZE, st.integers(1, 64), st.integers(1, 200))
def test_repair_starts_few_thread_blocks(height, width, blocks, multiprocessors):
    """Which nearly always end at once: no more than the device runs at a time."""
    (x, y, _), _ = geometry.repair_launch(height, width, blocks, multiprocessors)
    assert y == blocks
    assert 1 <= x <= geometry.regions(height, width)
    assert x * y < 2 * multiprocessors + blocks


def sparse(nbytes):
    """Address space for a huge matrix, of which the pages that are touched take memory."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE
    return np.frombuffer(mmap.mmap(-1, nbytes, flags=flags), np.uint8)


@pytest.mark.skipif(sys.platform != "linux", reason="needs sparse memory")
@pytest.mark.skipif(fake_cupy.COMPILER is None, reason="no C++ compiler")
def test_index_arithmetic_beyond_two_to_the_31(monkeypatch):
    """Combine A and Combine H on 66000 x 65600 (4.3e9) elements, a few thread blocks of each."""
    monkeypatch.setattr(kernels.device, "current", lambda: 0)
    monkeypatch.setattr(kernels.device, "function", fake_cupy.compiled)
    monkeypatch.setattr(kernels, "_function", kernels._function.__wrapped__)
    M, N = 66000, 65600
    (h, w) = layout.block_sizes(M, N, N, STRASSEN)[:2]
    assert M * N > 2**32 - 2**29
    assert 7 * h * w > 2**31
    large, planes, wide = sparse(M * N * 2), sparse(7 * h * w * 2), sparse(7 * h * w * 4)
    matrix = large.view(np.float16).reshape(M, N)
    sums = planes.view(np.float16).reshape(7, h, w)
    x, y = M - h - 1, w - 37  # in all blocks
    for i in range(2):
        for j in range(2):
            matrix[i * h + x, j * w + y] = 1 + 2 * i + j
    a11, a12, a21, a22 = 1, 2, 3, 4
    operand = dense(large.ctypes.data, (M, N), FLOAT16)
    written = Sums(planes.ctypes.data, h, w, False, False, FLOAT16)
    part = kernels.Part(operand, (h, w), (0, h), (0, w), written)
    made = kernels.combine(STRASSEN, FLOAT16, part)
    assert made.grid[0] * 128 * 8 >= h * w
    # The block that holds (x, y), and the last one.
    tiles = -(-w // 256)
    wanted = x // 4 * tiles + y // 256
    fake_cupy.launch(made.kernel, (wanted + 1, 1, 1), made.block, made.arguments, first=wanted)
    expected = [int(v) for v in STRASSEN.U.reshape(7, -1) @ [a11, a12, a21, a22]]
    assert sums[:, x, y].tolist() == expected

    hs = wide.view(np.float32).reshape(7, h, w)
    hs[:, x, y] = np.arange(1, 8)
    update = kernels.Update(STRASSEN, FLOAT32, part, None, 1.0, 0.0, 0)
    made = kernels.combine_out(update, wide.ctypes.data)
    tiles = -(-w // 128)
    wanted = x // 4 * tiles + y // 128
    fake_cupy.launch(made.kernel, (wanted + 1, 1, 1), made.block, made.arguments, first=wanted)
    blocks = products(STRASSEN).rows @ np.arange(1, 8)
    for i in range(2):
        for j in range(2):
            assert matrix[i * h + x, j * w + y] == blocks[2 * i + j]
