"""``python -m falcon grade``: falcon's kernels, the libraries of this machine, any function."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from falcon import config, matmul, pack, plan, verify
from falcon._front.surface import (
    FIELDS,
    SETTINGS,
    backends,
    cores,
    device_backend,
    kernels,
    machine_report,
    why_different,
    why_missing,
)
from falcon._tools.cpus import usable_cpus
from falcon._tools.progress import Progress

from .grade import LETTERS, TYPES, Grade, grade
from .page import page

# Settings that say on what the process may run; all others are as by default.
_GRADED = "float32", "float64"  # kernels whose error is graded
_USUAL: Any = {x: FIELDS[x].default for x in SETTINGS if x not in ("threads", "share_threads")}
_SHOWN = 12  # wrong products of a step that are told
_SIZE, _LARGE = 128, 2311  # n of products of each type, and of those beyond the caches
# What multiplies, by arrays of which library, with which options.
Told = Iterator[tuple[str, str]]  # products, and what is wrong of them


class Side(NamedTuple):
    """What multiplies: a function by its place, arrays of which library, with which options."""

    place: str
    library: str = "numpy"
    options: Mapping[str, Any] = MappingProxyType({})

    def function(self) -> Callable[[Any, Any], Any]:
        """Return it as a function of NumPy's arrays."""
        module, _, name = self.place.partition(":")
        try:
            f = partial(getattr(import_module(module), name), **self.options)
        except (ImportError, AttributeError, ValueError) as error:
            raise ValueError(f"{self.place!r}: {error}; expected MODULE:FUNCTION") from None
        if self.library not in ("torch", "cupy", "jax"):
            return f
        arrays = import_module({"jax": "jax.numpy"}.get(self.library, self.library))

        def multiply(a: Any, b: Any) -> Any:
            c = f(arrays.asarray(a), arrays.asarray(b))
            return arrays.asnumpy(c) if self.library == "cupy" else np.asarray(c)

        return multiply


SIDES = {
    "NumPy": Side("numpy:matmul"),
    "PyTorch": Side("torch:matmul", "torch"),
    "JAX": Side("jax.numpy:matmul", "jax"),
    "CuPy": Side("cupy:matmul", "cupy"),
    "falcon": Side("falcon:matmul"),
    "max_growth=1": Side("falcon:matmul", options={"max_growth": 1.0}),
    "strassen": Side("falcon:matmul", options={"scheme": "strassen"}),
    "falcon of CuPy": Side("falcon:matmul", "cupy"),
}


def add_grade(commands: Any) -> None:
    """Declare the command; `commands`: what `add_subparsers` returned."""
    parser = commands.add_parser(
        "grade", help="test falcon; tell how precisely libraries multiply",
        description="Without a function: multiply by all kernels and backends of falcon, and grade "
        "it, NumPy, PyTorch, CuPy and JAX, as far as they are installed. The exit status is 1 if a "
        "product is wrong. " + "; ".join(f"{k}: {v}" for k, v in LETTERS.items()) + ".",
    )  # fmt: skip
    parser.add_argument("function", nargs="*", metavar="MODULE:FUNCTION", help="a function of two "
                        "NumPy arrays to grade; torch, cupy and jax get their own")  # fmt: skip
    parser.add_argument("--dtype", default="float32", help="element type (default float32)")
    parser.add_argument("--size", type=int, help="n of products n x n (default: as time allows)")
    parser.add_argument("--cores", action="store_true", help="multiply on every CPU by itself, by "
                        "all kernels, and name those that err")  # fmt: skip
    parser.add_argument("--seconds", type=float, default=60.0, help="of --cores (default 60)")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page with plots")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write all of it, and "
                        "what a bug report needs (JSON); it may name folders")  # fmt: skip
    parser.set_defaults(run=_run)


def _run(options: Any) -> int:
    for path in filter(None, (options.output, options.html)):
        if not path.parent.is_dir():
            raise ValueError(f"{path}: its folder does not exist")
    given = {x: Side(x, x.split(":")[0].split(".")[0]) for x in options.function}
    grades: list[Grade] = []
    failures: list[str] = []
    if options.cores and (given or not options.seconds > 0):
        raise ValueError(f"--cores takes no function, and --seconds {options.seconds} above 0")
    with Progress("") as progress, config(**_USUAL):
        steps = cores(options.seconds) if options.cores else () if given else tests()
        for name, products, about in steps:
            progress.say(name)
            start, told = time.monotonic(), [*products]
            wrong = [f"{name}: {said}\n    {why}" for said, why in told if why]
            state = f"{len(wrong)} FAILED" if wrong else "ok" if told else about
            text = f"{name:22}{len(told):6} products{time.monotonic() - start:6.1f} s  {state}"
            progress.print("\n".join([text, *wrong[:_SHOWN]]))
            failures += wrong
        for name, side in () if options.cores else (given or _installed()).items():
            progress.say(f"grading {name}")
            x = grade(side.function(), options.dtype, size=options.size)
            x.of = name
            text = f"{x.size:6} x {x.size:<6}{x.seconds:6.1f} s  {x.letter}: {x.name}"
            progress.print(str(x) if given else f"{name:22}{text}")
            failures += [f"{name}: {y.what}: {y.found}" for y in x.findings if y.letter == "F"]
            grades.append(x)
    if grades:
        print(f"\n{table(grades)}")
    if options.html is not None:
        options.html.write_text(page(grades), encoding="utf-8")
    if options.output is not None:
        found = {"ok": not failures, "failures": failures, "machine": machine_report()}
        found["grades"] = [x.to_dict() for x in grades]
        options.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if failures:
        others = [k for k, x in (given or SIDES).items() if not x.place.startswith("falcon")]
        own = [x for x in failures if x.partition(": ")[0] not in others]
        record = options.output or "what -o record.json writes"
        said = f"; please report falcon's with {record}" if own else ""
        sick = {x.partition(": ")[0] for x in failures}
        if options.cores and len(sick) < usable_cpus():
            said = f": do not compute on {', '.join(sorted(sick))}; other CPUs are right"
        print(f"{len(failures)} wrong{said}", file=sys.stderr)
    return 1 if failures else 0


def table(grades: list[Grade]) -> str:
    """Return a table of Markdown: what was found, grade by grade."""
    rows = {f"{grades[0].dtype}, {grades[0].size}": [x.of for x in grades]}
    rows |= {"": ["---"] * len(grades), "grade": [f"{x.letter}: {x.name}" for x in grades]}
    for what in dict.fromkeys(y.what for x in grades for y in x.findings):
        found = ({y.what: y.found for y in x.findings} for x in grades)
        rows[what] = [x.get(what, "") for x in found]
    return "\n".join(f"| {k or '---'} | {' | '.join(v)} |" for k, v in rows.items())


def _installed() -> dict[str, Side]:
    """Return the sides whose libraries are here; CuPy also needs a GPU."""
    has_gpu = backends()[device_backend().name] == "available"
    is_here = {x: x != "cupy" or has_gpu for x in ("numpy", "torch", "jax", "cupy") if find_spec(x)}
    return {name: x for name, x in SIDES.items() if is_here.get(x.library)}


def tests() -> Iterator[tuple[str, Told, str]]:
    """Yield name, products, and what is said if there are none."""
    every, counts = kernels(), sorted({1, 2, usable_cpus(), usable_cpus() + 3})
    for isa in dict.fromkeys(x.isa for x in every):
        yield f"kernels {isa}", (y for x in every if x.isa == isa for y in _by_kernel(x)), ""
    best = {x.operand: x for x in reversed(every) if x.operand.name in _GRADED}
    said = f"{', '.join(map(str, counts))} threads"
    yield (
        said,
        (y for x in best.values() for y in x.threaded(counts)),
        "" if every else why_missing(),
    )
    for name, state in backends().items():
        yield f"backend {name}", _by_backend(name) if state == "available" else iter(()), state
    yield "other calls", _other_calls(), ""


def _by_kernel(x: Any) -> Told:
    yield from x.tested()
    if x.operand.name in _GRADED:
        f = partial(x.product, result=x.operand, scheme=None, threads=1)
        yield f"{x.name}, {x.isa}, {x.operand}", _why_above("A", f, x.operand.name, 64)


def _by_backend(name: str) -> Told:
    """Grade whole calls of all types that `grade` knows, classical ones and Strassen's."""
    on_device = name == device_backend().name
    for dtype, scheme in product(TYPES, ("classical", "strassen")):
        try:
            plan((_SIZE, _SIZE), (_SIZE, _SIZE), dtype, backend=name, scheme=scheme)
        except (TypeError, ValueError):  # the backend has no such product
            continue
        options = {"scheme": scheme} | ({} if on_device else {"backend": name})
        f = Side("falcon:matmul", "cupy" if on_device else "numpy", options).function()
        yield f"backend {name}, {dtype}, {scheme}", _why_above("C", f, dtype, _SIZE)


def _other_calls() -> Told:
    """Multiply as `grade` does not: other types, packed, modulo p, beyond the caches."""
    a, b = np.random.default_rng(1).integers(-4, 5, (2, _SIZE, _SIZE))
    exact, turned = np.einsum("ik,kj", a, b), a - 1j * b
    x, y = np.random.default_rng(2).standard_normal((2, _LARGE, _LARGE), np.float32)
    calls: list[tuple[str, Callable[[], Any], Any]] = [
        (f"modulo {p}", partial(matmul, a, b, modulus=p), exact % p) for p in (65521, 2**61 - 1)
    ]
    for scheme in ("auto", "classical", "strassen"):
        how: dict[str, Any] = {"scheme": scheme}
        both = exact - 1j * np.einsum("ik,kj", b, b)
        for kind in ("c8", "c16"):
            f = partial(matmul, turned.astype(kind), b.astype(kind), **how)
            calls.append((f"{np.dtype(kind)}, {scheme}", f, both))
        f = partial(_packed, a.astype("f4"), b.astype("f4"), **how)
        calls.append((f"packed, {scheme}", f, exact))
        calls.append((f"{_LARGE}^3, {scheme}", partial(matmul, x, y, **how), None))
    for said, call, expected in calls:
        try:
            if expected is not None:
                yield said, why_different(call(), expected)
            else:
                yield said, "" if verify(x, y, call()) else "fails Freivalds' test"
        except Exception as error:  # whatever it is, it is what the user wants to be told
            yield said, f"raises {type(error).__name__}: {error}"


def _packed(a: np.ndarray, b: np.ndarray, **how: Any) -> Any:
    return matmul(a, pack(b, **how))


def _why_above(worst: str, f: Callable[[Any, Any], Any], dtype: str, size: int) -> str:
    """Return which findings of a grade are worse than a letter."""
    found = grade(f, dtype, size=size).findings
    return ", ".join(f"{x.what}: {x.found}" for x in found if x.letter > worst)
