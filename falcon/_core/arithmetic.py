"""`Arithmetic`: how products of elements are formed, where not by instructions for their type.

A float32 is the sum of three bfloat16 numbers, to the last bit. The products of two such sums whose
parts' places add up to at most two, six of the nine, hold more than a float32; tiles (AMX) form
them exactly, sixteen times as fast as float32 ones, and add them in float32. Two parts and three
products hold 16 bits.

Two float16 numbers hold 22 bits of a number in their range, into which powers of two bring rows of
A and columns of B: their three products, on GPUs, hold as much as float32 arithmetic keeps.

Integers of 64 bits may be multiplied as float64, exactly, while no sum exceeds 53 bits.

Source: G. Henry, P. Tang, A. Heinecke, "Leveraging the bfloat16 artificial intelligence datatype
for higher-precision computations", 2019, arXiv:1904.06376; H. Ootomo, R. Yokota, "Recovering single
precision accuracy from Tensor Cores", 2022, arXiv:2203.03341.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Products of elements by products of their parts."""

    name: str  # the option's value
    # Numbers of fewer bits to an element; part i of A meets part j of B where ``i + j < splits``.
    splits: int
    # RMS error relative to float32 arithmetic's. Measured for 256^3 to 4096^3, standard normal:
    # 0.35 to 0.45 for three parts, whose sums begin anew in every slice of K, and 10 to 16 for two.
    growth: float
    # Most that the products left out add up to, in unit roundoffs of float32 of the magnitude of
    # the product of the elements. Three parts are cut off after 8 bits, so that each is less than
    # 2^-7 of the one before: 2^-20 + 2^-28. Two are rounded: 3 times 2^-18.
    left_out: float
    split_type: str = ""  # name of the type of the splits; empty: that of the elements

    def roundings(self, K: int) -> int:
        """Return how many unit roundoffs a sum of K products may err by, of all magnitudes.

        Products of parts have at most 1.02 times the magnitude of their element's, and pass
        through at most K + 36 sums (K / 96 + 36 on tiles).
        """
        return ceil(1.02 * K + 40 + self.left_out)


SPLIT = (
    Arithmetic("bf16x6", 3, 0.5, 17.0, "bfloat16"),
    Arithmetic("bf16x3", 2, 16.0, 200.0, "bfloat16"),
)
# On GPUs. Products of the second parts are left out, 2^-22 of the elements', and what two parts do
# not hold of each, which is at most 2^-34 of its line's norm if that is larger.
BY_FLOAT16 = Arithmetic("fp16x3", 2, 1.0, 16.0, "float16")
# Operands rounded to the 11 bits of TF32, on GPUs.
TF32 = Arithmetic("tf32", 1, 1.0, 0.0)
# float64 by cuBLAS in fixed point, of as many bits as the numbers need.
FIXED = Arithmetic("fixed", 1, 1.0, 0.0)
# int64 as float64; no value of the option: data decide, and results do not depend on it.
INT64_BY_FLOAT64 = Arithmetic("float64", 1, 1.0, 0.0)
# Elements that are rounded to another type as they are packed, and summed there: float64 (and
# complex128) to float32; and float32 to float64, whose results are rounded to float32 once.
BY_FLOAT32 = Arithmetic("float32", 1, 1.0, 2.0, "float32")
BY_FLOAT64 = Arithmetic("float64", 1, 1.0, 2.0, "float64")
# The same to bfloat16, summed in float32: the roundings of two elements are 2 times 2^-8.
BY_BFLOAT16 = Arithmetic("bf16", 1, 1.0, 2.0**17 + 2.0**10, "bfloat16")
# Rows and columns as integers of 8 bits (`quantised.py`).
BY_INTEGERS = "int8"
# Values of the option; the last three do nothing in host memory.
NAMES = (
    *("auto", "native", BY_INTEGERS, BY_FLOAT32.name, BY_FLOAT64.name, BY_BFLOAT16.name),
    *(x.name for x in (*SPLIT, BY_FLOAT16, TF32, FIXED)),
)
