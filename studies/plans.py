"""What is planned and what comes out, a line per case, to compare two states of the code by diff.

`python studies/plans.py -o before.txt`, in another state `-o after.txt`, then `diff before.txt
after.txt`; without --plans or --results, both. Cases are drawn by their numbers, and depend neither
on their count nor on each other. Only public names are used; nothing is measured. Plans follow from
the machine's kernels, CPUs and memory: compare on one machine, with one FALCON_ISA.
"""

import argparse
import hashlib
import logging
import os
import sys
from contextlib import nullcontext
from dataclasses import fields, is_dataclass
from functools import cache, partial

# Read when falcon is imported or first runs: no settings, no profile, the same threads anywhere.
for name in [x for x in os.environ if x.startswith("FALCON_") and x != "FALCON_ISA"]:
    del os.environ[name]
os.environ.update(FALCON_PROFILE=os.devnull, FALCON_OVERSUBSCRIBE="1")
os.environ.update(OMP_NUM_THREADS="2", OPENBLAS_NUM_THREADS="2")

import numpy as np  # noqa: E402
from drawn import CALLS, LAYOUTS, MODULI, OWN_TYPES, Case, of_batch  # noqa: E402
from drawn_others import OTHERS  # noqa: E402

import falcon  # noqa: E402

# Fields that are not printed while they have this value, so that adding them changes no line.
NEW = {"count": 1, "shares_b": False}
OF_PLAN = (
    "label workspace why seconds guarded optional tuned growth threads operand is_uneven rates "
    "parts method problem options"
)

# --- values as text -------------------------------------------------------------------------


def text(x):
    """Return a value as text: numbers, types, plans, and any object by its public attributes."""
    if x is None or isinstance(x, bool | int | str):
        return repr(x)
    if isinstance(x, float):
        return f"{x:.9g}"
    if type(x) in (tuple, list):
        return f"({', '.join(map(text, x))})"
    if isinstance(x, slice):
        return f"{x.start}:{x.stop}"
    if isinstance(x, falcon.Plan):
        return of_plan(x)
    if isinstance(x, falcon.Scheme):
        return of_scheme(x)
    if isinstance(x, np.dtype) or hasattr(x, "numpy"):
        return str(x)
    if isinstance(x, tuple):  # of names
        return str(getattr(x, "name", x))
    if is_dataclass(x):
        found = {y.name: getattr(x, y.name) for y in fields(x)}
        if type(x).__name__ == "Options":  # most have their defaults
            usual = type(x)()
            found = {k: v for k, v in found.items() if v != getattr(usual, k) and k != "given"}
    else:
        found = {y: getattr(x, y) for y in dir(x) if not y.startswith("_")}
    shown = {k: v for k, v in found.items() if not callable(v) and (k, v) not in NEW.items()}
    return f"{type(x).__name__}({', '.join(f'{k}={text(v)}' for k, v in shown.items())})"


def of_plan(x):
    told = [f"{y}={text(getattr(x, y))}" for y in OF_PLAN.split()]
    return f"Plan(backend={x.backend.name}, {', '.join(told)})"


def with_candidates(x):
    """Return a plan, and a hash of all that it was compared with, which takes long."""
    found = x.candidates
    about = "".join(f"{text(y)}{y.method.label}" for y in found)
    return f"{of_plan(x)}, candidates {len(found)}:{short(about.encode())}"


@cache
def of_scheme(x):
    entries = b"".join(np.array(y, float).tobytes() for y in (x.U, x.V, x.W))
    return f"{x.name}<{x.m},{x.k},{x.n};{x.rank}>:{short(entries)}"


def of_array(x):
    """Return type, shape, strides and a hash of a result, or of several."""
    if isinstance(x, tuple):
        return " & ".join(map(of_array, x))
    kind, y = type(x).__name__, np.asarray(x)
    steps = [stride for stride, n in zip(y.strides, y.shape, strict=True) if n > 1]
    return f"{kind} {y.dtype.str} {y.dtype} {y.shape} {steps} {short(data(y))}"


def data(x):
    """Return the bytes of an array, without the padding of long doubles."""
    x = np.ascontiguousarray(x if x.dtype.isnative else x.astype(x.dtype.newbyteorder()))
    x = x.reshape(-1)
    return (x.view(np.uint8).reshape(-1, 16)[:, :10] if x.dtype.char in "gG" else x).tobytes()


def short(content):
    return hashlib.sha256(content).hexdigest()[:12]


def attempt(call, show):
    """Return what a call returns, as text, or its error."""
    try:
        return show(call())
    except (ValueError, TypeError, ArithmeticError, MemoryError) as error:
        return f"{type(error).__name__}: {error}"


# --- cases ----------------------------------------------------------------------------------


def planned(number):
    """Plan a product: of shapes, of arrays, symmetric, or packed."""
    case = Case("plan", number)
    M, N, K = sizes = case.sizes(
        case.choice([3000, 3000, 20000]), case.choice([1, 1, 200, 500, 1000])
    )
    dtype = case.dtype()
    kind = case.choice(["shapes"] * 3 + ["arrays"] * 5 + ["symmetric", "packed"])
    options, how = case.options(), {}
    if dtype.kind in "iu" or case.random() < 0.01:
        how["modulus"] = case.pick("modulus", MODULI, 0.3)
    if case.random() < 0.1:
        how["dtype"] = case.pick("to", ["float32", "float64", "int32", "int64", "complex128"])
    options |= {k: v for k, v in how.items() if v is not None}
    most = max(M * K, K * N, M * N) * dtype.itemsize
    if dtype.kind == "c" and max(sizes) > 4000:
        M, N, K = sizes = [-(-x // 5) for x in sizes]  # nested schemes of complex numbers take long
    if kind == "packed" and dtype.char not in "gGO?":
        K, N, rows = *case.sizes(1500, 20, 2), case.pick("rows", [1, 16, 512, 5000], 0.7)
        b = case.array((K, N), dtype, case.pick("b", LAYOUTS, usual="C"), "normal")
        keep = {k: options.pop(k) for k in ("scheme", "max_growth", "backend", "modulus", "dtype")
                if k in options}  # fmt: skip

        def call():
            return falcon.plan((M, K), falcon.pack(b, rows=rows, **keep), **options)

    elif kind == "symmetric" and most < 2**28:
        x = case.array((K, M), dtype, case.pick("x", LAYOUTS, usual="C"))
        N, left = M, case.pick("transposed", [False, True], usual=False)
        call = partial(falcon.plan, *((x, x.T) if left else (x.T, x)), **options)
    elif kind == "arrays" and most < 2**28:
        a, b = case.operands(sizes, dtype)
        call = partial(falcon.plan, a, b, **options)
    else:
        kind, options = "shapes", {"dtype": dtype, **options}
        call = partial(falcon.plan, (M, K), (K, N), **options)
    case.words[:0] = [kind, f"{M}x{K}x{N}"]
    return case, attempt(call, of_plan if number % 8 else with_candidates)


def batched(number):
    """Multiply a batch, and say what `falcon.profile` saw of it."""
    case, seen = Case("batch", number), falcon.profile()
    call = of_batch(case, case.dtype())
    with seen:
        said = attempt(call, lambda x: str(x.shape))
    rows = [f"{x.calls} x {x.problem}, {x.scheme} on {x.backend}, {text(x.predicted)} "
            f"{text(x.numpy_seconds)}, {x.why}" for x in seen.rows()]  # fmt: skip
    return case, " & ".join([said, *sorted(rows)])


class Log(logging.Handler):
    """What falcon logs of one call."""

    def __init__(self):
        super().__init__(logging.DEBUG)
        self.lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())


LOG = Log()


def computed(number, calls=CALLS):
    """Run a call, and again with the same arrays, which hold what they held before."""
    draw = calls[number % len(calls)]
    case = Case(draw.__name__.removeprefix("of_"), number)
    call = draw(case) if draw in (*OWN_TYPES, *OTHERS) else draw(case, case.dtype())
    before, said = [x.copy() for x in case.memory], []
    for _ in range(2):
        for x, content in zip(case.memory, before, strict=True):
            x[...] = content
        LOG.lines.clear()
        found = attempt(call, of_array)
        written = short(b"".join(map(data, case.memory)))
        told = f", log {LOG.lines}" if LOG.lines else ""
        said.append(f"{found}, arrays {written}{told}")
    return case, " | again ".join(said)


def main():
    """Print a line per case."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--plans", action="store_true", help="what is planned")
    parser.add_argument("--results", action="store_true", help="hashes of results")
    parser.add_argument("--count", type=int, help="cases of each kind (2000, 500, 600, 270)")
    parser.add_argument("-o", metavar="FILE", help="write there instead of printing")
    chosen = parser.parse_args()
    log = logging.getLogger("falcon")
    log.propagate = False
    log.addHandler(LOG)
    falcon.plan((2, 2), (2, 2))  # what is logged once is logged
    log.setLevel(logging.DEBUG)
    both = chosen.plans == chosen.results
    kinds = [(planned, 2000), (batched, 500)] if both or chosen.plans else []
    results = [(computed, 600), (partial(computed, calls=OTHERS), 270)]
    kinds += results if both or chosen.results else []
    with open(chosen.o, "w", encoding="utf-8") if chosen.o else nullcontext(sys.stdout) as file:
        for kind, usual in kinds:
            for number in range(chosen.count or usual):
                case, said = kind(number)
                line = " ".join([case.title, *case.words, "->", *said.split()])
                print(line, file=file)


if __name__ == "__main__":
    main()
