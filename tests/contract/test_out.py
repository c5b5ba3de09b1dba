"""Where a result is written: into `out`, of any layout and overlap, and nowhere else."""

import numpy as np

from .places import LAYOUTS
from .support import over
from .values import whole

WRITABLE = [x for x in LAYOUTS.values() if x.is_writable]
# Of an operand's memory of 2n + 1 rows, a and b first: where out lies.
OVERLAPS = {
    "is a": lambda m, n: m[:n],
    "is b": lambda m, n: m[n : 2 * n],
    "a transposed": lambda m, n: m[:n].T,
    "b transposed": lambda m, n: m[n : 2 * n].T,
    "shifted by a row": lambda m, n: m[1 : n + 1],
    "between both": lambda m, n: m[n // 2 : n // 2 + n],
    "shifted backwards": lambda m, n: m[n - 1 : 2 * n - 1],
}
# Types of out, by the kind of the result's type.
CASTS = {"f": ("float32", ">f8", "complex64"), "V": ("float32",), "c": ("c8", ">c16"),
         "i": ("int8", "int32", ">i8", "float32"), "u": ("uint8", "int16", "float64")}  # fmt: skip


def written(subject):
    return subject.arrays.is_written


@over(written)
def test_out_of_any_layout(subject):
    """The bits of a new result, and every other byte stays."""
    a, b = subject.operands((21, 27), (27, 18))
    expected = subject.host(subject(a, b)).copy()
    for layout in (x for x in subject.layouts if x in WRITABLE):
        values = whole(subject.result.name, (21, 18), 5)
        out, owner = subject.arrays.place(values, layout)
        before = subject.host(owner).copy()
        assert subject(a, b, out=out, check="none") is out
        np.testing.assert_array_equal(subject.host(out), expected, err_msg=layout.name)
        out[...] = subject.place(values)
        assert subject.host(owner).tobytes() == before.tobytes(), layout.name


@over(lambda x: written(x) and x.door in ("gemm", "matmul", "packed") and x.cast is None)
def test_out_may_overlap_the_operands(subject):
    for n in (12, 37):
        values = whole(subject.row.name, (2 * n + 1, n), n)
        c = whole(subject.row.name, (n, n), 3)
        for name, part in OVERLAPS.items():
            for alpha, beta in [(1, 0), (2, -1)][: 1 + subject.takes_scalars]:
                memory, other = subject.place(values), subject.place(values)
                a, b = memory[:n], memory[n : 2 * n]
                expected = subject.expected(values[:n], values[n : 2 * n], c, alpha, beta)
                more = {"c": subject.place(c), "alpha": alpha, "beta": beta} if beta else {}
                for out in (part(other, n), part(memory, n)):  # the first call is remembered
                    assert subject(a, b, out=out, **more) is out
                    np.testing.assert_array_equal(subject.host(out), expected, err_msg=name)


@over(lambda x: written(x) and x.takes_scalars)
def test_c_may_overlap_out(subject):
    n = 24
    a, b = subject.operands((n, n), (n, n))
    values = whole(subject.result.name, (n + 2, n), 4)
    for c_part, out_part in [
        (lambda m: m[:n], lambda m: m[:n]),
        (lambda m: m[:n], lambda m: m[:n].T),
        (lambda m: m[:n], lambda m: m[1 : n + 1]),
        (lambda m: m[1 : n + 1], lambda m: m[:n]),
    ]:
        for alpha in (1, 0):
            memory = subject.place(values)
            c, out = c_part(memory), out_part(memory)
            expected = subject.expected(*map(subject.host, (a, b)), c_part(values), alpha, 2)
            subject(a, b, c, alpha=alpha, beta=2, out=out)
            subject.check(out, expected)


@over(lambda x: written(x) and x.library != "torch" and x.door not in ("einsum", "plan"))
def test_out_of_another_type(subject):
    """The arithmetic is that of the operands; the result is cast."""
    a, b = subject.operands((21, 27), (27, 18))
    expected = subject.expected(*map(subject.host, (a, b)))
    names = CASTS[expected.dtype.kind]
    if subject.library == "cupy":
        other = {"float64": "float32", "complex64": "complex128", "complex128": "complex64"}
        names = (other.get(subject.result.name, "float64"),)
    for name in names:
        for layout in ("rows", "columns", "strided"):
            out = subject.place(np.zeros((21, 18), name), layout)
            assert subject(a, b, out=out) is out
            subject.check(out, expected.astype(name))
