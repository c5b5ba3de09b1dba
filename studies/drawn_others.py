"""Nothing by itself: further cases of `plans.py`, of products that are made of other products."""

import pickle

import numpy as np
from drawn import LAYOUTS, MODULI

import falcon


def of_complex_by_real(case):
    """Draw a product of complex by real numbers, of matrices, vectors or batches."""
    M, N, K = case.sizes(case.choice([40, 400, 900]))
    lead = case.pick("lead", [(3,), (2, 2)], 0.3, ())
    kinds = case.choice([("complex64", "float32"), ("complex128", "float64"), ("complex64", "f8")])
    kinds = kinds[::-1] if case.pick("real", ["a"], 0.5) else kinds
    case.words[:0] = [f"{M}x{K}x{N} {kinds}"]
    a, b = (case.array((*lead, *x), kind, case.pick(y, LAYOUTS, usual="C"), "normal")
            for x, y, kind in zip(((M, K), (K, N)), "ab", kinds, strict=True))  # fmt: skip
    options = case.options(threads=[1, 2]) if case.random() < 0.5 else {}
    if not lead and case.pick("by", ["gemm"], 0.6):
        options["alpha"] = case.pick("alpha", [2.0, 1j, 0.0], 0.4, 1.0)
        if case.pick("beta", [1], 0.4):
            dtype = np.result_type(a, b)
            options |= {"c": case.array((M, N), dtype, "C", "normal"), "beta": 2}
        return lambda: falcon.gemm(a, b, **options)
    a = a[..., 0, :] if not lead and case.pick("vector", ["a"], 0.2) else a
    return lambda: falcon.matmul(a, b, **options)


def of_weighted(case):
    """Draw a Gram matrix with weights, without means, or both; of complex numbers, in triangles."""
    rows, columns, *lead = *case.sizes(700, 1, 2), *case.choice([(), (), (3,)])
    kind = case.pick("dtype", ["f4", "f8", "c8", "c16", "f2", "i4"])
    case.words[:0] = [f"{lead}{rows}x{columns}"]
    x = case.array((*lead, rows, columns), kind, case.pick("x", LAYOUTS, usual="C"), "normal")
    options = case.options(threads=[1, 2]) if case.random() < 0.4 else {}
    transpose = case.pick("transpose", [True], 0.3, False)
    length, side = (columns, rows) if transpose else (rows, columns)
    if case.pick("weights", [1], 0.7):
        options["weights"] = case.array((length,), x.real.dtype.newbyteorder("="), "C", "normal")
    options["centred"] = case.pick("centred", [True], 0.3, False)
    options["symmetric"] = case.pick("symmetric", ["full", "lower", "upper"])
    options["conjugate"] = case.pick("conjugate", [False], 0.3, True)
    options["check"] = case.pick("check", ["verify"], 0.2)
    options["alpha"] = case.pick("alpha", [2, 0, -1], 0.3, 1)
    if case.pick("beta", [1], 0.3):
        c = case.array((*lead, side, side), kind, "C", "normal")
        c[...] = np.tril(c.real) + np.tril(c.real, -1).mT
        options |= {"c": c, "beta": 2}
        options["out"] = c if case.pick("out", ["c"], 0.5) else None
    given = {k: v for k, v in options.items() if v is not None}
    return lambda: falcon.gram(x, transpose=transpose, **given)


def of_moduli(case):
    """Draw a product modulo several numbers, of matrices or batches."""
    M, N, K = case.sizes(300)
    lead = case.pick("lead", [(3,), (2, 2)], 0.4, ())
    case.words[:0] = [f"{M}x{K}x{N}"]
    a, b = (case.array((*lead, *x), "i8", case.pick(y, LAYOUTS, usual="C"), "normal")
            for x, y in (((M, K), "a"), ((K, N), "b")))  # fmt: skip
    moduli = [case.choice(MODULI) for _ in range(case.randrange(1, 4))]
    case.words.append(f"moduli={moduli}")
    options = {"threads": case.pick("threads", [1, 2], usual=2)}
    if case.pick("out", ["first"], 0.3):
        options["out"] = case.array((len(moduli), *lead, M, N), "i8", "C", "normal")
    return lambda: falcon.matmul(a, b, modulus=moduli, **options)


def of_float8(case):
    """Draw a scaled product of 8-bit floats."""
    import ml_dtypes

    M, N, K = case.sizes(300)
    case.words[:0] = [f"{M}x{K}x{N}"]
    kinds = [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.bfloat16]
    a, b = (case.array(x, "f4", "C", "normal").astype(case.pick(y, kinds))
            for x, y in (((M, K), "a"), ((K, N), "b")))  # fmt: skip
    scales = case.pick("scale_a", [0.5, "rows"], 0.7, 1.0), case.pick("scale_b", [2.0], 0.5, 1.0)
    scale = case.array((M, 1), "f4", "C", "normal") if scales[0] == "rows" else scales[0]
    dtype = case.pick("to", ["float32", "float16"], 0.6)
    return lambda: falcon.scaled_matmul(a, b, scale, scales[1], dtype=dtype)


def of_booleans(case):
    """Draw a product of booleans, some so large that ones are counted."""
    M, N, K = case.sizes(case.choice([30, 600]))
    case.words[:0] = [f"{M}x{K}x{N}"]
    a, b = (case.array(x, "?", case.pick(y, LAYOUTS, usual="C"), "normal")
            for x, y in (((M, K), "a"), ((K, N), "b")))  # fmt: skip
    dtype = case.pick("to", ["bool", "int32"], 0.5)
    return lambda: falcon.matmul(a, b, dtype=dtype)


def of_overlap(case):
    """Draw a batch that is written over its operands."""
    n, count = case.sizes(60, 1, 1)[0], case.randrange(1, 5)
    kind = case.pick("dtype", ["f4", "f8", "c8", "i4"])
    whole = case.array((count + 1, n, n), kind, "C", "normal")
    b = case.array((count, n, n), kind, "C", "normal")
    out = case.pick("out", ["a", "next", "b"])
    case.words[:0] = [f"{count}x{n}"]
    target = {"a": whole[:-1], "next": whole[1:], "b": b}[out]
    return lambda: falcon.matmul(whole[:-1], b, out=target)


def of_pickled(case):
    """Draw a plan that is pickled twice, and its bounds of errors."""
    M, N, K = case.sizes(400, 30)
    kind = np.dtype(case.pick("dtype", ["f4", "f8", "c8", "c16", "i4"]))
    case.words[:0] = [f"{M}x{K}x{N}"]
    options = case.options(threads=[1, 2])
    if kind.kind == "i":
        options["modulus"] = case.pick("modulus", MODULI, 0.5, None)
    a = case.array((M, K), kind, case.pick("a", LAYOUTS, usual="C"), "normal")
    twin = case.pick("twin", [True], 0.3)
    b = a.T if twin else case.array((K, N), kind, case.pick("b", LAYOUTS, usual="C"), "normal")
    given = {k: v for k, v in options.items() if v is not None}

    def call():
        plan = falcon.plan(a, b, **given)
        again = pickle.loads(pickle.dumps(plan))
        assert pickle.dumps(again) == pickle.dumps(pickle.loads(pickle.dumps(again)))
        assert str(again) == str(plan)
        bounds = [plan.error_bound(a, b, proved=x) for x in (False, True)]
        return *bounds, plan(a, b), again(a, b)

    return call


def of_wrong(case):
    """Draw a call with two wrong arguments: which one is told says in what order they are read."""
    a, b = case.array((6, 5), "f4", "C", "normal"), case.array((5, 4), "f4", "C", "normal")
    faults = {
        "a": {"a": a[0, 0]}, "b": {"b": b[:-1]}, "out": {"out": np.zeros((2, 2), "f4")},
        "to": {"dtype": "no type"}, "scheme": {"scheme": "none such"}, "threads": {"threads": 0},
        "backend": {"backend": "nowhere"}, "max_growth": {"max_growth": -1}, "x": {"x": 1},
        "workspace_limit": {"workspace_limit": "much"}, "modulus": {"modulus": 1},
        "arithmetic": {"arithmetic": "bf16x3"}, "check": {"check": "perhaps"},
    }  # fmt: skip
    chosen = case.sample(sorted(faults), 2)
    name = case.choice(["gemm", "matmul", "plan", "gram", "pack", "scaled_matmul"])
    case.words[:0] = [name, *chosen]
    given = {"a": a, "b": b} | faults[chosen[0]] | faults[chosen[1]]
    operands = [given.pop("a"), given.pop("b")]
    operands = operands[:1] if name in ("gram", "pack") else operands
    return lambda: getattr(falcon, name)(*operands, **given)


OTHERS = [of_complex_by_real, of_weighted, of_weighted, of_moduli, of_float8, of_booleans]
OTHERS += [of_overlap, of_pickled, of_wrong]
