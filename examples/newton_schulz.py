"""Orthogonalise a matrix by quintic Newton-Schulz steps, as the optimiser Muon does.

python examples/newton_schulz.py [size] [steps]

    A <- X X^T      B <- b A + c A^2      X <- a X + B X

Two of the three products of a step are symmetric: X X^T, and A^2 = A^T A, because A is symmetric.
falcon.gram computes half of each; NumPy does so for X @ X.T only, PyTorch for neither. The program
prints the milliseconds of each library (whose steps take turns, so that all see the same machine)
and how far the results differ. The coefficients are Keller Jordan's: singular values end between
0.68 and 1.13, not at 1.
"""

import sys
import time
from statistics import median

import numpy as np

import falcon

try:
    import torch
except ImportError:
    torch = None

A, B, C = 3.4445, -4.7750, 2.0315


def by_falcon(x):
    """Take one step with two symmetric products and an ordinary one."""
    gram = falcon.gram(x, transpose=True)
    polynomial = falcon.gram(gram, alpha=C, beta=B, c=gram)
    return falcon.gemm(polynomial, x, c=x, beta=A)


def by_numpy(x):
    """Take one step by the formulas."""
    gram = x @ x.T
    polynomial = B * gram + C * (gram @ gram)
    return A * x + polynomial @ x


def by_torch(x):
    """Take one step as Muon does, in x's type."""
    gram = x @ x.T
    polynomial = torch.addmm(gram, gram, gram, beta=B, alpha=C)
    return torch.addmm(x, polynomial, x, beta=A)


def main(size=1024, steps=5):
    """Orthogonalise a random matrix and print a table."""
    start = np.random.default_rng(0).standard_normal((size, size)).astype(np.float32)
    start /= np.linalg.norm(start)
    states = {"falcon": (by_falcon, start), "numpy": (by_numpy, start)}
    if torch is not None:
        states["torch"] = by_torch, torch.from_numpy(start)
    seconds = {name: [] for name in states}
    for step in range(steps + 1):  # the first, untimed, warms up
        for name, (take, x) in states.items():
            begin = time.perf_counter()
            found = take(x)
            if step:
                seconds[name].append(time.perf_counter() - begin)
                states[name] = take, found
            time.sleep(0.2)  # until the threads of this library sleep
    ours = np.asarray(states["falcon"][1])
    for name, (_, x) in states.items():
        ratio = median(o / s for o, s in zip(seconds[name], seconds["falcon"], strict=True))
        apart = np.abs(np.asarray(x) - ours).max() / np.abs(ours).max()
        print(
            f"{name:7} {median(seconds[name]) * 1e3:9.1f} ms per step, {ratio:5.2f} of falcon's; "
            f"difference from falcon's result: {apart:.1e} of its largest entry"
        )
    values = np.linalg.svd(ours.astype(float), compute_uv=False)
    print(f"singular values {values.min():.3f} to {values.max():.3f} after {steps} steps")


if __name__ == "__main__":
    main(*(int(x) for x in sys.argv[1:] if x.isdecimal()))
