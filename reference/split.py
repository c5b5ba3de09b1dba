"""Products of float32 by products of bfloat16 parts (Henry, Tang and Heinecke, 2019).

A bfloat16 is a float32 with the lower 16 of its 32 bits 0: 8 significant bits instead of 24.  So a
float32 x is the sum of three of them (unless one is below the least float32): the leading bits of
x, those of what is left, and what is then left.  A product of two such sums has nine terms; the
three smallest, a few units in the last place of a float32, are left out.

The products of two bfloat16 are exact in float32.  Here they are summed in float64; machines sum
them in float32, which is where their error comes from.

>>> x = np.float32(np.pi)
>>> [float(y) for y in parts(x)]
[3.140625, 0.000965118408203125, 2.6226043701171875e-06]
>>> bool(sum(parts(x)) == x)
True
"""

import numpy as np


def leading_bits(x):
    """Return the bfloat16 numbers that are nearest to x towards 0, as float32."""
    bits = np.asarray(x, dtype=np.float32).view(np.uint32)
    return (bits & np.uint32(0xFFFF0000)).view(np.float32)


def parts(x, n=3):
    """Return n arrays of bfloat16 numbers that sum up to x, exactly for n = 3."""
    found = []
    for _ in range(n):
        found.append(leading_bits(x))
        x = x - found[-1]
    return found


def split_product(a, b, n=3):
    """Return a @ b from the products of parts i of a and j of b with i + j < n."""
    a, b = (parts(np.asarray(x, dtype=np.float32), n) for x in (a, b))
    c = np.zeros((a[0].shape[0], b[0].shape[1]))
    for i in reversed(range(n)):
        for j in reversed(range(n - i)):
            c += a[i].astype(np.float64) @ b[j].astype(np.float64)
    return c.astype(np.float32)
