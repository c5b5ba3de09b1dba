"""The cost model on a GPU: FalconGEMM's stages, extended by waves of thread blocks and L2 cache.

A product costs the larger of operations over their rate and bytes over bandwidth; the other stages
cost their bytes, because additions never take longer where products are fast; each, a launch more.

- **Waves.** A product is cut into tiles of 128 x 128; a multiprocessor computes one at a time, so
  the last wave may be nearly empty. Strassen's 7 products of M/2 x N/2 round up to whole waves
  differently from one of M x N.
- **L2.** The tiles of a wave, which together are about a square, read panels of A and B. Operands
  that fit into the cache are read from memory once, larger ones once per wave. What one kernel
  writes and the next one reads stays in the cache if it is small.

Pure functions: `rates` may come from any device.
"""

from __future__ import annotations

from math import ceil, sqrt

from falcon._core.plan import Method
from falcon._core.problem import Problem
from falcon.codegen.cuda_plan import products

from .cublas import longest, products_of_splits
from .geometry import segments, triangle
from .layout import Layout
from .rates import DeviceRates

TILE = 128
# A tile takes as long as one so much longer, before its products and after them: float32 on an
# H200, 7 products each of 512, 768, 1024 and 1536: 49, 139, 345 and 1068 us.
_START = 64
# Seconds of units.cu per step along K, by count: one thread block waits for memory.
_SECONDS_PER_STEP = 2e-9
# Share of the L2 cache whose content the next kernel still finds.
_KEPT_SHARE = 0.5

Seconds = tuple[tuple[str, float], ...]


def seconds(problem: Problem, method: Method, rates: DeviceRates) -> Seconds:
    """Predict the seconds of each stage of a method, as if "auto" had chosen it: with norms."""
    if method.layout.scheme is None:
        shape, item = (problem.M, problem.N, problem.K), problem.operand.itemsize
        time = product_seconds(*shape, 1, item, item, rates, rates.multiply)
        return (("multiply", time * _share(problem)),)
    return _stages(problem, method.layout, rates)


def _share(problem: Problem) -> float:
    """Return the share of a product that the tiles of a triangle are."""
    if not problem.symmetric:
        return 1.0
    tiles = triangle(problem.M)
    return sum(rows * columns * n for _, rows, columns, n, _ in tiles) / problem.M**2


def product_seconds(
    rows: int,
    columns: int,
    inner: int,
    batch: int,
    item: int,
    out_item: int,
    rates: DeviceRates,
    rate: float,
) -> float:
    """Predict a strided-batched product: compute in whole waves, or memory, and a launch.

    `rate` is that of `rates` for such a product, flop/s.
    """
    tiles = batch * ceil(rows / TILE) * ceil(columns / TILE)
    waves = ceil(tiles / rates.multiprocessors)
    per_wave = 2.0 * TILE * TILE * (inner + _START) * rates.multiprocessors
    # Libraries split tiles over multiprocessors if the last wave is nearly empty: at worst, half of
    # its time is lost. Less than a wave is cut into smaller tiles, which are slower.
    exact = tiles / rates.multiprocessors
    whole = (exact + waves) / 2 if exact > 1.0 else sqrt(exact)
    compute = whole * per_wave / rate
    traffic = operand_bytes(rows, columns, inner, batch, item, rates)
    traffic += batch * rows * columns * out_item
    return max(compute, traffic / rates.bandwidth) + rates.launch


def operand_bytes(
    rows: int, columns: int, inner: int, batch: int, item: int, rates: DeviceRates
) -> float:
    """Bytes of A and B that a product reads from memory."""
    once = (rows + columns) * inner * item
    if once <= rates.l2_bytes:
        return float(batch * once)
    side = max(sqrt(rates.multiprocessors), 1.0) * TILE
    waves_rows, waves_columns = max(rows / side, 1.0), max(columns / side, 1.0)
    panels = min(rows, side) + min(columns, side)
    return batch * max(waves_rows * waves_columns * panels * inner * item, float(once))


def _stages(problem: Problem, layout: Layout, rates: DeviceRates) -> Seconds:
    operand, scheme = layout.operand, layout.scheme
    assert scheme is not None
    item, held, sums = operand.itemsize, operand.panel_bytes, problem.accumulator.itemsize
    splits = operand.splits
    # Each of a sum's products by parts reads what it multiplies, and all but the first read H.
    read = operand.multiplied.itemsize * (splits if layout.fused else splits * (splits + 1) // 2)
    (M, N, K), (cm, cn, ck), (m, k, n) = layout.block, layout.chunk, scheme.format
    again_rows, again_columns, again_inner = map(len, layout.chunks)
    times_a, times_b = layout.combined_again
    rank, planes, groups = scheme.rank, products(scheme).planes, products(scheme).groups

    def combine(read: float, written: float, launches: int) -> float:
        # What is written and then read by the next kernel stays in the cache if it is small.
        kept = min(_KEPT_SHARE * rates.l2_bytes / max(written, 1.0), 1.0)
        moved = read + written * (1.0 - 0.5 * kept)
        return moved / rates.bandwidth + launches * rates.launch

    pieces = again_rows * again_columns
    a = combine(m * k * M * K * item, rank * M * K * held, pieces)
    b = combine(k * n * K * N * item, rank * K * N * held, 0)  # in A's launch
    multiply = 0.0
    for group in groups:
        inner = group.length * ck
        calls = 1
        if splits > 1 and not layout.fused:
            piece = longest(inner, problem.device or 0, problem.short_sums)
            calls = products_of_splits(inner, splits, piece)
        sizes = min(cm, M), min(cn, N), inner, group.count, read, (2 * calls - 1) * sums
        part = product_seconds(*sizes, rates, rates.batched) + (calls - 1) * rates.launch
        multiply += pieces * again_inner * part
    # The last chunks are smaller than the others.
    exact = (M / (cm * again_rows)) * (N / (cn * again_columns)) * (K / (ck * again_inner))
    h = combine(planes * M * N * sums, m * n * M * N * item, 2 * pieces)
    # Every element is read once; those of a packed B are known.
    all_lines = splits > 1
    measured = [m * k * M * K] * (m > 1 or all_lines)
    measured += [k * n * K * N] * ((n > 1 or all_lines) and not problem.packed)
    norms = sum(measured) * item / rates.bandwidth + 2 * bool(measured) * rates.launch
    if layout.buffers.steps:
        norms += problem.K * _SECONDS_PER_STEP + rates.launch
    if problem.packed:
        b = 0.0
    means: Seconds = ()
    if layout.centred:  # the product writes C, which Combine H reads again
        sizes = problem.M, problem.N, segments(problem.K), 1, item, 2 * item
        means = (("means", product_seconds(*sizes, rates, rates.means)),)
    turned: Seconds = ()
    if problem.of_complex and not problem.packed:  # B' is written, twice as large as what is read
        moved = 1.5 * problem.N * problem.K * item
        turned = (("copies", moved / rates.bandwidth + rates.launch),)
    return (
        *turned,
        ("norms", norms),
        *means,
        ("combine A", times_a * a),
        ("combine B", times_b * b),
        ("multiply", multiply * exact * _share(problem)),
        ("combine H", h),
    )
