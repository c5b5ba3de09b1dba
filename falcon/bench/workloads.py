"""Shapes to measure: squares, layers of language models, thin and odd ones, or the user's.

All are in data/llm_shapes.json.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any
from zlib import crc32

import numpy as np

from falcon._core.dtypes import FLOAT32, FLOAT64, dtype_of

_MOST_DIGITS = 9  # of a size: no machine holds a matrix with a longer side


@dataclass(frozen=True, slots=True)
class Shape:
    """One multiplication, or a batch of them: A is M x K, B is K x N."""

    M: int
    N: int
    K: int
    label: str = ""
    batch: int = 0  # how many products; 0: matrices without a batch axis
    by_columns: str = ""  # operands of a batch that lie by columns: "a", "b" or "ab"

    def __str__(self) -> str:
        return f"{self.M}x{self.N}x{self.K}{f' ({self.label})' if self.batch else ''}"

    @classmethod
    def of_batch(cls, M: int, N: int, K: int, batch: int, by_columns: str = "") -> Shape:
        """Return a batch, whose label says how many products and which operands by columns."""
        layout = f", {' and '.join(by_columns.upper())} by columns" if by_columns else ""
        return cls(M, N, K, f"{batch} products{layout}", batch, by_columns)

    @property
    def count(self) -> int:
        """Products in all."""
        return max(self.batch, 1)

    @property
    def flops(self) -> float:
        """Operations of the classical algorithm, 2MNK for each product."""
        return 2.0 * self.M * self.N * self.K * self.count


@dataclass(frozen=True, slots=True)
class Case:
    """A shape of a workload in one dtype."""

    workload: str
    shape: Shape
    dtype: str

    @property
    def key(self) -> str:
        """The case's name in files: ``"squares 512x512x512 float32"``."""
        return f"{self.workload} {self.shape} {self.dtype}"

    @property
    def seed(self) -> int:
        """That of its operands and of the order of its sides; the same in every run."""
        return crc32(self.key.encode())


@dataclass(frozen=True, slots=True)
class Workload:
    """A set of shapes, with the dtypes that are measured unless the user gives others."""

    shapes: list[Shape]
    dtypes: list[str]


@cache
def data(name: str) -> dict[str, Any]:
    """Return what a JSON file of this package holds."""
    file = resources.files(__package__) / "data" / f"{name}.json"
    return json.loads(file.read_text(encoding="utf-8"))


def model_shapes(name: str, tokens: int) -> list[Shape]:
    """Linear layers of a model, whose name is in letters of any case, at that many tokens."""
    models = data("llm_shapes")["models"]
    layers = {x.lower(): layers for x, layers in models.items()}.get(name.lower())
    if layers is None:
        raise ValueError(f"there is no model {name!r}; known: {', '.join(models)}")
    return [Shape(tokens, n, k, layer) for layer, (n, k) in layers.items()]


def layers(names: Sequence[str], tokens: int) -> list[Shape]:
    """Layers of some models, without the output layer: prefill applies it to one token only."""
    return [
        replace(shape, label=f"{name} {shape.label}")
        for name in names
        for shape in model_shapes(name, tokens)
        if shape.label != "lm_head"
    ]


def _workloads() -> dict[str, Workload]:
    workloads = {}
    for name, x in data("llm_shapes")["workloads"].items():
        shapes = [
            Shape(*sizes) if len(sizes) == 3 else Shape.of_batch(*sizes)
            for sizes in x.get("shapes", ())
        ]
        shapes += layers(x.get("models", ()), x.get("tokens", 0))
        workloads[name] = Workload(shapes, x["dtypes"])
    return workloads


WORKLOADS = _workloads()


def parse_shape(text: str, least: int = 1) -> Shape:
    """Read M, N and K: ``"M,N,K"``, ``"MxNxK"`` or ``"M N K"``.

    Raises ValueError: the text is not three integers, or one is below `least` or too large.
    """
    parts = re.split(r"\s*[,x×*]\s*|\s+", text.strip().lower())
    if len(parts) == 3 and all(re.fullmatch("[0-9]+", part) for part in parts):
        sizes = [part.lstrip("0") or "0" for part in parts]
        if max(map(len, sizes)) > _MOST_DIGITS:
            raise ValueError(f"shape {text!r}: expected sizes below 10^{_MOST_DIGITS}")
        M, N, K = map(int, sizes)
        shape = Shape(M, N, K)
        if min(shape.M, shape.N, shape.K) >= least:
            return shape
    kind = "positive integers" if least else "integers >= 0,"
    raise ValueError(f"shape {text!r}: expected three {kind} M,N,K")


def parse_shapes(words: Sequence[str], least: int = 1) -> list[Shape]:
    """Read the shapes of a command line: one per word, or a single one as three words."""
    if len(words) == 3 and not any(re.search(r"[,x×*\s]", x.lower()) for x in words):
        words = [" ".join(words)]
    elif any(re.fullmatch(r"\d+", x) for x in words):
        raise ValueError(f"{' '.join(words)!r}: expected M N K, or shapes such as 2048,2048,2048")
    return [parse_shape(x, least) for x in words]


def operands(shape: Shape, dtype: np.dtype, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Make random A and B: normal for floats and complex, small whole numbers for integers."""
    random, batch = np.random.default_rng(seed), (shape.batch,) * (shape.batch > 0)
    sizes = {"a": (shape.M, shape.K), "b": (shape.K, shape.N)}
    a, b = (
        _random(random, (*batch, *x[::-1]), dtype).swapaxes(-1, -2)
        if name in shape.by_columns
        else _random(random, (*batch, *x), dtype)
        for name, x in sizes.items()
    )
    return a, b


def _random(random: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    row = dtype_of(dtype)
    if row.is_exact:
        return random.integers(0 if row.is_unsigned else -8, 9, shape).astype(dtype)
    if row.is_complex:
        parts = random.standard_normal((2, *shape))
        return (parts[0] + 1j * parts[1]).astype(dtype)
    if dtype in (FLOAT32.numpy, FLOAT64.numpy):  # the generator makes these types itself
        return random.standard_normal(shape, dtype)
    return random.standard_normal(shape).astype(dtype)
