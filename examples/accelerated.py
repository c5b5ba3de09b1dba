"""Programs in plain NumPy, as they stand and with `falcon.accelerate`: gains and losses.

    python examples/accelerated.py            # all, float32 and float64: some minutes
    python examples/accelerated.py pca knn --dtype float32 --size 0.5

Each is run as it is and accelerated in turn; the table shows the median of the ratios, and how far
the results are apart. Where most of the time is no matrix product, there is little to gain.
"""

import argparse
from collections.abc import Callable
from statistics import median
from time import perf_counter

import numpy as np

import falcon

rng = np.random.default_rng(0)


def pca(size: float, dtype: str) -> Callable[[], np.ndarray]:
    """Variances of the principal components, by the covariance matrix."""
    x = rng.standard_normal((int(20000 * size), int(2000 * size))).astype(dtype)

    def run() -> np.ndarray:
        y = x - x.mean(axis=0)
        return np.linalg.eigvalsh(y.T @ y / (len(y) - 1))

    return run


def covariance(size: float, dtype: str) -> Callable[[], np.ndarray]:
    """np.cov, which calls np.dot."""
    x = rng.standard_normal((int(4000 * size), int(6000 * size))).astype(dtype)
    return lambda: np.cov(x, dtype=x.dtype)


def knn(size: float, dtype: str) -> Callable[[], np.ndarray]:
    """Distances to the ten nearest of 8000 points, for 8000 others, in 1500 dimensions."""
    x, y = (rng.standard_normal((int(8000 * size), int(1500 * size))).astype(dtype) for _ in "xy")

    def run() -> np.ndarray:
        squares = (x * x).sum(axis=1)[:, None] + (y * y).sum(axis=1) - 2 * (x @ y.T)
        return np.sort(np.partition(squares, 10, axis=1)[:, :10], axis=1)

    return run


def ridge(size: float, dtype: str) -> Callable[[], np.ndarray]:
    """Kernel ridge regression with a Gaussian kernel."""
    x = rng.standard_normal((int(4000 * size), int(2000 * size))).astype(dtype)
    y = rng.standard_normal((len(x), 10)).astype(dtype)

    def run() -> np.ndarray:
        squares = (x * x).sum(axis=1)
        kernel = np.exp((x @ x.T - (squares[:, None] + squares) / 2) / x.shape[1])
        kernel[np.diag_indices(len(x))] += 1
        return kernel @ np.linalg.solve(kernel, y)

    return run


def least_squares(size: float, dtype: str) -> Callable[[], np.ndarray]:
    """Least squares by the normal equations, 500 right sides."""
    a = rng.standard_normal((int(16000 * size), int(2000 * size))).astype(dtype)
    b = rng.standard_normal((len(a), 500)).astype(dtype)
    return lambda: np.linalg.solve(a.T @ a, a.T @ b)


def newton_schulz(size: float, dtype: str) -> Callable[[], np.ndarray]:
    """The orthogonal polar factor, by five steps of Newton-Schulz."""
    x = rng.standard_normal((int(3000 * size), int(3000 * size))).astype(dtype)
    x /= 2.1 * np.sqrt(x.shape[0])

    def run() -> np.ndarray:
        y = x
        for _ in range(5):
            y = 1.5 * y - 0.5 * y @ (y.T @ y)
        return y

    return run


def transformer(size: float, dtype: str) -> Callable[[], np.ndarray]:
    """One layer of a transformer: 2048 tokens of 2048 dimensions, 16 heads."""
    tokens, width, heads = int(2048 * size), int(2048 * size) // 16 * 16, 16
    x = rng.standard_normal((tokens, width)).astype(dtype)
    shapes = [(width, 3 * width), (width, width), (width, 4 * width), (4 * width, width)]
    qkv, project, up, down = (
        (rng.standard_normal(x) / np.sqrt(x[0])).astype(dtype) for x in shapes
    )

    def run() -> np.ndarray:
        q, k, v = (x @ qkv).reshape(tokens, 3, heads, -1).transpose(1, 2, 0, 3)
        weights = np.exp(q @ k.transpose(0, 2, 1) / np.sqrt(width / heads))
        weights /= weights.sum(axis=-1, keepdims=True)
        y = x + (weights @ v).transpose(1, 0, 2).reshape(tokens, width) @ project
        return y + np.maximum(y @ up, 0) @ down

    return run


def sklearn_pca(size: float, dtype: str) -> Callable[[], np.ndarray]:
    """scikit-learn's PCA, all components."""
    from sklearn.decomposition import PCA

    x = rng.standard_normal((int(20000 * size), int(2000 * size))).astype(dtype)
    return lambda: PCA().fit(x).explained_variance_


def sklearn_ridge(size: float, dtype: str) -> Callable[[], np.ndarray]:
    """scikit-learn's KernelRidge."""
    from sklearn.kernel_ridge import KernelRidge

    x = rng.standard_normal((int(6000 * size), int(1000 * size))).astype(dtype)
    return lambda: KernelRidge(kernel="polynomial", degree=2).fit(x, x[:, 0]).predict(x)


def sklearn_distances(size: float, dtype: str) -> Callable[[], np.ndarray]:
    """scikit-learn's pairwise distances."""
    from sklearn.metrics import pairwise_distances

    x = rng.standard_normal((int(8000 * size), int(500 * size))).astype(dtype)
    return lambda: pairwise_distances(x)


PROGRAMS = {x.__name__: x for x in (pca, covariance, knn, ridge, least_squares, newton_schulz,
                                    transformer, sklearn_pca, sklearn_ridge,
                                    sklearn_distances)}  # fmt: skip


def measure(run: Callable[[], np.ndarray], pairs: int) -> tuple[float, float, float]:
    """Return the seconds as it stands, the gain (median of pairs), and the difference."""
    seconds: dict[bool, list[float]] = {False: [], True: []}
    results = {}
    for pair in range(pairs + 1):  # the first one warms up
        for on in (False, True) if pair % 2 else (True, False):
            with falcon.accelerate(on, quiet=True):
                start = perf_counter()
                results[on] = run()
                seconds[on].append(perf_counter() - start)
    ratios = [a / b for a, b in zip(seconds[False][1:], seconds[True][1:], strict=True)]
    difference = np.abs(results[True] - results[False]).max() / np.abs(results[False]).max()
    return median(seconds[False][1:]), median(ratios), float(difference)


def main() -> None:
    """Measure what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs", nargs="*", default=[], help=", ".join(PROGRAMS))
    parser.add_argument("--dtype", action="append", choices=("float32", "float64"))
    parser.add_argument("--size", type=float, default=1.0, help="all sizes times this (default 1)")
    parser.add_argument("--pairs", type=int, default=5, help="runs of each (default 5)")
    options = parser.parse_args()
    print(f"{'program':<18} {'dtype':<8} {'NumPy':>8}    gain  difference")
    for name in options.programs or PROGRAMS:
        for dtype in options.dtype or ("float32", "float64"):
            try:
                run = PROGRAMS[name](options.size, dtype)
            except ImportError as error:
                print(f"{name:<18} {error}")
                break
            usual, gain, difference = measure(run, options.pairs)
            print(
                f"{name:<18} {dtype:<8} {usual:7.2f} s   {gain:5.2f}  {difference:.1e}", flush=True
            )


if __name__ == "__main__":
    main()
