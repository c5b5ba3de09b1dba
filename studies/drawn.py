"""Nothing by itself: the random cases of `plans.py`, their arrays, options and calls."""

import random

import numpy as np

import falcon

FLOATS = ["float32", "float64", "float16", "complex64", "complex128", "longdouble"]
INTEGERS = [f"{sign}int{bits}" for bits in (8, 16, 32, 64) for sign in ("", "u")]
LAYOUTS = ["C", "C", "C", "F", "F", "pad", "step", "rev", "swap", "odd", "line"]
SCHEMES = ["strassen", "winograd", "3x4x4:38", "2x3x3:15", "strassen@winograd", "none such"]
ARITHMETIC = ["native", "bf16x6", "bf16x3", "fp16x3", "tf32"]
ROUND = [1, 2, 8, 16, 32, 64, 100, 128, 256, 512, 1000, 1024, 2048, 4096, 8192, 16384, 20000]
MODULI = [2, 7, 251, 65521, 2**20 + 7, 2**31 - 1]

try:
    import ml_dtypes

    FLOATS.append(np.dtype(ml_dtypes.bfloat16))
except ImportError:
    pass


class Case(random.Random):
    """A case's own random numbers, arrays and words that describe it."""

    def __init__(self, kind, number):
        super().__init__(f"{kind} {number}")
        self.title, self.memory, self.words = f"{kind} {number:04}", [], []

    def pick(self, name, values, share=1.0, usual=None):
        """Draw one of some values with this probability, and tell."""
        drawn = self.choice(values) if self.random() < share else usual
        if drawn is not usual:  # a dtype may equal None
            self.words.append(f"{name}={drawn}")
        return drawn

    def options(self, **more):
        """Draw options; most are left out."""
        drawn = {
            "scheme": self.pick("scheme", ["classical", *SCHEMES, *SCHEMES[:3]], 0.35),
            "backend": self.pick("backend", ["cpu", "numpy"], 0.25),
            "arithmetic": self.pick("arithmetic", ARITHMETIC, 0.08),
            "max_growth": self.pick("max_growth", [1.0, 2.0, 4.0, 16.0, 100.0], 0.15),
            "threads": self.pick("threads", more.pop("threads", [1, 2, 4]), 0.4),
            "workspace_limit": self.pick(
                "workspace_limit", [1, "1KiB", "64KiB", "1MiB", "64MiB", "1GiB"], 0.15),
            "reproducible": self.pick("reproducible", [True], 0.08),
            **more,
        }  # fmt: skip
        return {k: v for k, v in drawn.items() if v is not None}

    def dtype(self):
        kinds = [*FLOATS[:3], *FLOATS[:2], *FLOATS[:2], *FLOATS, *INTEGERS, "bool"]
        return self.pick("dtype", list(map(np.dtype, kinds)))

    def sizes(self, most, least=1, of=3):
        """Draw sizes on a log scale, some of them round or equal."""
        found = [round(least * (most / least) ** self.random()) for _ in range(of)]
        near = [x for x in ROUND if least <= x <= most]
        found = [self.choice(near) if near and self.random() < 0.3 else x for x in found]
        return found[:1] * of if self.random() < 0.2 else found

    def array(self, shape, dtype, layout="C", values=None):
        """Make an array of a layout, at addresses of the same alignment; without values, zeros."""
        layout = layout if len(shape) > 1 or layout in ("step", "rev", "odd") else "C"
        *lead, K = shape
        dtype = np.dtype(dtype)
        if layout == "F":
            lead, K = [*lead[:-1], K], lead[-1]
        lead = [*lead[:-1], 1] if layout == "line" else lead
        kind = dtype.newbyteorder() if layout == "swap" and dtype.isbuiltin == 1 else dtype
        base = (*lead, K + 5 if layout == "pad" else 2 * K if layout == "step" else K)
        memory = np.zeros(int(np.prod(base)) * dtype.itemsize + 128, np.uint8)
        at = -memory.ctypes.data % 64 + (layout == "odd")
        x = np.ndarray(base, kind, memory, at)
        if values is not None:
            x[...] = self.values(base, dtype, values)
            self.memory.append(x)
        x = x[..., :K] if layout == "pad" else x[..., ::2] if layout == "step" else x
        x = x[::-1, ..., ::-1] if layout == "rev" and x.ndim > 1 else x
        x = x.swapaxes(-1, -2) if layout == "F" else x
        return np.broadcast_to(x, shape) if layout == "line" else x

    def values(self, shape, dtype, how):
        """Draw numbers: normal ones, also with "nan", "inf", "zeros" or "uneven" rows; integers."""
        numbers = np.random.default_rng(self.getrandbits(64))
        if dtype.kind in "iu":
            limits = np.iinfo(dtype)
            return numbers.integers(limits.min, limits.max, shape, dtype, endpoint=True)
        x = numbers.standard_normal(shape)
        if dtype.kind == "c":
            x = x + 1j * numbers.standard_normal(shape)
        if dtype.kind == "b":
            return x > 1
        if how in ("nan", "inf"):
            x[tuple(n // 2 for n in shape)] = float(how)
        if how in ("uneven", "zeros"):
            powers = numbers.uniform(-12, 12, shape[:-1]) * (0.1 if dtype.itemsize == 2 else 1)
            x *= (10**powers if how == "uneven" else powers > 0)[..., None]
        return x.astype(dtype)

    def operands(self, sizes, dtype, values=None):
        """Draw the layouts of A and B; without values, A and B may be their shapes."""
        M, N, K = sizes
        how = (
            self.pick("values", ["nan", "inf", "uneven", "uneven", "zeros"], 0.4)
            if values
            else None
        )
        of = self.pick("in", ["a", "b"]) if how else ""
        of_a, of_b = (self.pick(x, LAYOUTS, usual="C") for x in "ab")
        a = self.array((M, K), dtype, of_a, values and (how if of == "a" else values))
        return a, self.array((K, N), dtype, of_b, values and (how if of == "b" else values))


# --- calls ----------------------------------------------------------------------------------


def of_batch(case, dtype):
    """Draw a product of batches or vectors."""
    M, N, K = case.sizes(case.choice([4, 20, 200]))
    some = 1 + int(min(1e4, 2e7 / (M * N * K)) ** case.random())
    lead = case.choice([(some,), (3, some // 3 + 1), (2, 1, some // 2 + 1)])
    one = tuple(1 if case.random() < 0.5 else n for n in lead)
    left, right = case.choice([(lead, lead), (lead, ()), ((), lead), (lead, one), (one, lead)])
    a, b = (*left, M, K), (*right, K, N)
    thin = case.random()
    a, b = (a[-1:], b) if thin < 0.1 else (a, b[-2:-1]) if thin < 0.2 else (a, b)
    case.words += [f"{a}", f"{b}"]
    a, b = (case.array(x, dtype, case.pick(y, LAYOUTS, usual="C"), "normal")
            for x, y in ((a, "a"), (b, "b")))  # fmt: skip
    options = case.options(threads=[1, 2]) if case.random() < 0.4 else {}
    out = case.pick("out", ["C", "F", "pad", "step", "a"], 0.3)
    if out == "a":
        out = a
    elif out is not None:
        shape = (*np.broadcast_shapes(left, right), M, N)
        out = case.array(shape, dtype, out, "normal")
    return lambda: falcon.matmul(a, b, out, **options)


def of_gemm(case, dtype, sizes=None, function=falcon.gemm):
    """Draw an ordinary product: with c, out that overlaps, factors and odd values."""
    most = 90 if dtype.char in "gG" else 500  # long doubles take a nanosecond a product
    M, N, K = sizes = sizes or case.choice([case.sizes(most), case.sizes(90), (60, 80, 70)])
    out = case.pick("out", ["C", "F", "pad", "step", "odd", "f4", "f8", "a", "b", "c", "over a",
                            "over b", "over c"], 0.5)  # fmt: skip
    if out in ("a", "b", "over a", "over b"):
        M = N = K = sizes[0]
    case.words[:0] = [f"{M}x{K}x{N}"]
    options, how = case.options(threads=[1, 2]) if case.random() < 0.6 else {}, {}
    a, b = case.operands((M, N, K), dtype, "normal")
    of = {"a": a, "b": b}
    if function is falcon.gemm:
        whole = dtype.kind in "iu"
        beta = case.pick("beta", [1, 2] if whole else [1, -0.5, 2.0], 0.3)
        how["alpha"] = case.pick("alpha", [2, 3, 0] if whole else [-0.75, 2.0, 0.0], 0.2)
        if beta or out in ("c", "over c"):
            of["c"] = case.array((M, N), dtype, case.pick("c", LAYOUTS, usual="C"), "normal")
            how |= {"c": of["c"], "beta": beta or 1}
        how["check"] = case.pick("check", ["verify", "none"], 0.15)
    if out in of:
        how["out"] = of[out]
    elif out is not None and out.startswith("over"):  # its second half, and what follows
        name, count = out[-1], M * N
        both = case.array((2 * count,), dtype, values="normal")
        of[name] = both[:count].reshape(M, N)
        how["out"] = both[count // 2 :][:count].reshape(M, N)
        how |= {"c": of["c"]} if name in how else {}
    elif out is not None:
        kind = dtype if out[0] != "f" else out
        how["out"] = case.array((M, N), kind, "C" if out[0] == "f" else out, "normal")
    given = {k: v for k, v in {**options, **how}.items() if v is not None}
    return lambda: function(of["a"], of["b"], **given)


def of_large(case):
    """Draw a product for which "auto" may choose a scheme, often with uneven rows."""
    kind = case.pick("dtype", ["float32", "float64", "complex64", "float32", "int32"])
    size = 620 if kind == "complex64" else 1040
    return of_gemm(case, np.dtype(kind), [size + case.randrange(60) for _ in range(3)])


def of_config(case, dtype):
    """Draw a product inside `falcon.config`."""
    given, call = case.options(threads=[1, 2]), of_gemm(case, dtype, None, falcon.matmul)

    def inside():
        with falcon.config(**given):
            return call()

    return inside


def of_gram(case, dtype):
    """Draw a product by the own transpose."""
    size, K, *lead = *case.sizes(600, 1, 2), *case.choice([(), (), (3,)])
    case.words[:0] = [f"{lead}{K}x{size}"]
    x = case.array((*lead, K, size), dtype, case.pick("x", LAYOUTS, usual="C"), "normal")
    options = case.options(threads=[1, 2]) if case.random() < 0.4 else {}
    side = K if case.pick("transpose", [True], 0.4) else size
    if case.pick("by", ["matmul"], 0.3):
        return lambda: (falcon.matmul(x.mT, x, **options) if side == size
                        else falcon.matmul(x, x.mT, **options))  # fmt: skip
    options["symmetric"] = case.pick("symmetric", ["full", "lower", "upper"])
    options["conjugate"] = case.pick("conjugate", [True, False])
    shape, c = (*lead, side, side), None
    if case.pick("beta", [1], 0.3):
        c = case.array(shape, dtype, "C", "normal")
        c[...] = np.tril(c) + np.tril(c, -1).mT if dtype.kind != "c" else 0
        options |= {"c": c, "beta": 2}
    out = case.pick("out", ["C", "F", "pad", "c"], 0.4)
    if out:
        options["out"] = c if out == "c" else case.array(shape, dtype, out, "normal")
    return lambda: falcon.gram(x, transpose=side == K, **options)


def of_packed(case, dtype):
    """Draw a packed B, which multiplies two matrices and a batch."""
    (K, N), some = case.sizes(700, 30, 2), case.sizes(400, 1, 2)
    case.words[:0] = [f"{some}x{K}x{N}"]
    a, others, batch = (case.array((*x, K), dtype, "C", "normal") for x in
                        ((some[0],), (some[1],), (2, 3)))  # fmt: skip
    b = case.array((K, N), dtype, case.pick("b", LAYOUTS, usual="C"), "normal")
    how = {
        "rows": case.pick("rows", [1, 64, 512, 5000], 0.5),
        "scheme": case.pick("scheme", ["strassen", "classical", "winograd", "3x4x4:38"], 0.6),
        "arithmetic": case.pick("arithmetic", ["bf16x6", "bf16x3"], 0.2),
        "keep_source": case.pick("keep_source", [False, True], 0.3, True),
        "modulus": case.pick("modulus", MODULI, 0.5) if dtype.kind in "iu" else None,
    }
    threads = case.pick("threads", [1, 2], usual=2)

    def call():
        w = falcon.pack(b, **{k: v for k, v in how.items() if v is not None})
        left = falcon.gemm(a, w, threads=threads), falcon.gemm(others, w, threads=threads)
        return *left, falcon.gemm(a, w, threads=threads), falcon.matmul(batch, w), a @ w

    return call


def of_modulo(case):
    """Draw a product modulo p."""
    M, N, K = case.sizes(500)
    case.words[:0] = [f"{M}x{K}x{N}"]
    kinds = [case.pick(x, [*INTEGERS, "int64", "int64"]) for x in "ab"]
    a = case.array((M, K), kinds[0], case.pick("A", LAYOUTS, usual="C"), "normal")
    b = case.array((K, N), kinds[1], case.pick("B", LAYOUTS, usual="C"), "normal")
    given = case.options(threads=[1, 2], modulus=case.pick("modulus", MODULI))
    function = falcon.gemm if case.pick("by", ["gemm"], 0.5) else falcon.matmul
    return lambda: function(a, b, **given)


def of_sums(case, dtype):
    """Draw a sum over products of several arrays."""
    i, j, k, l = case.sizes(60, 2, 4)
    case.words[:0] = [f"{i} {j} {k} {l}"]
    a, b, c = (
        case.array(x, dtype, case.choice(LAYOUTS), "normal") for x in ((i, j, k), (k, j, l), (l, i))
    )
    options = {"threads": case.pick("threads", [1, 2], 0.3)}
    what = case.pick("by", ["einsum", "three", "tensordot", "multi_dot", "dot", "inner"])
    return lambda: {
        "einsum": lambda: falcon.einsum("ijk,kjl->li", a, b, **options),
        "three": lambda: falcon.einsum("ijk,kjl,li->j", a, b, c, **options),
        "tensordot": lambda: falcon.tensordot(a, b, ([1, 2], [1, 0]), **options),
        "multi_dot": lambda: falcon.multi_dot([a[0], b[:, 0], c, a[:, 0]], **options),
        "dot": lambda: falcon.dot(a, b.swapaxes(0, 1), **options),
        "inner": lambda: falcon.dot(a[0, 0], b[:, 0], **options),
    }[what]()


# What draws a call, and how often.
CALLS = [of_gemm] * 5 + [of_batch, of_gram, of_packed] * 2
CALLS += [of_large] * 4 + [of_config, of_modulo, of_sums]
OWN_TYPES = of_large, of_modulo  # they draw the types of their operands
