"""A linear layer with static weights: pack them once, multiply batches of tokens, check the error.

python examples/linear_layer.py
"""

import numpy as np

import falcon


def main() -> None:
    """Multiply two batches by the same packed weights and print what ran."""
    random = np.random.default_rng(0)
    weights = random.standard_normal((1792, 1152), np.float32)
    packed = falcon.pack(weights, rows=1024, scheme="strassen")
    print(packed)
    for tokens in (1024, 300):
        batch = random.standard_normal((tokens, 1792), np.float32)
        result = falcon.matmul(batch, packed)
        exact = batch.astype(np.float64) @ weights.astype(np.float64)
        error = np.linalg.norm(result - exact) / np.linalg.norm(exact)
        print(f"{tokens} tokens: relative RMS error {error:.1e}")


if __name__ == "__main__":
    main()
