"""Reed-Solomon codes modulo p: messages are encoded by one product, and restored by another.

python examples/reed_solomon.py [messages]

A message is K numbers below p, the coefficients of a polynomial; its code is the polynomial's
values at N points: the message times a Vandermonde matrix. Any K of the values give the message
back: the inverse of their K columns is the other matrix. All of it is exact.
"""

import sys
import time

import numpy as np

import falcon

P = 2**31 - 1  # a prime
K, N = 223, 255


def powers(points):
    """Return the matrix of points[j] ** i modulo P, shape (K, N)."""
    rows = [np.ones_like(points)]
    while len(rows) < K:
        rows.append(rows[-1] * points % P)
    return np.array(rows)


def inverse(a):
    """Invert a matrix modulo P, by elimination; its leading minors must not be 0."""
    size = len(a)
    both = np.hstack([a, np.eye(size, dtype=np.int64)])
    for i in range(size):
        both[i] = both[i] * pow(int(both[i, i]), -1, P) % P
        factors = both[:, i].copy()
        factors[i] = 0
        both = (both - factors[:, None] * both[i] % P) % P
    return both[:, size:]


def main(messages=4000):
    """Encode random messages, lose N - K values of each code, and restore them."""
    random = np.random.default_rng(0)
    matrix = powers(np.arange(1, N + 1))
    sent = random.integers(0, P, (messages, K))

    start = time.perf_counter()
    codes = falcon.matmul(sent, matrix, modulus=P)
    print(f"{messages} messages encoded in {time.perf_counter() - start:.3f} s")

    row = [int(x) for x in sent[0]]  # the first one by Python's integers, and all by a random check
    values = [sum(x * pow(point, i, P) for i, x in enumerate(row)) % P for point in range(1, N + 1)]
    print("as Python's integers:", codes[0].tolist() == values)
    print("Freivalds' check:", falcon.verify(sent, matrix, codes, modulus=P))

    kept = np.sort(random.permutation(N)[:K])
    restored = falcon.matmul(codes[:, kept], inverse(matrix[:, kept]), modulus=P)
    print(f"restored from {K} of {N} values:", np.array_equal(restored, sent))


if __name__ == "__main__":
    main(*(int(x) for x in sys.argv[1:] if x.isdecimal()))
