"""Shapes to measure: the linear layers of language models, or what the user gives."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Shape:
    """One multiplication: A is M x K, B is K x N."""

    M: int
    N: int
    K: int
    label: str = ""


@cache
def _data() -> dict[str, Any]:
    file = resources.files(__package__) / "data" / "llm_shapes.json"
    return json.loads(file.read_text(encoding="utf-8"))


def models() -> list[str]:
    """Names of the models whose layers are known."""
    return list(_data()["models"])


def model_shapes(name: str, tokens: int) -> list[Shape]:
    """Linear layers of a model at that many tokens.

    Raises
    ------
    ValueError
        The model is not known; the message lists those that are.
    """
    known = {model.lower(): model for model in models()}
    if name.lower() not in known:
        raise ValueError(f"there is no model {name!r}; known: {', '.join(models())}")
    layers = _data()["models"][known[name.lower()]]
    return [Shape(tokens, n, k, layer) for layer, (n, k) in layers.items()]


def quick_shapes() -> list[Shape]:
    """Eight shapes from these layers that a small machine multiplies in seconds."""
    return [Shape(*sizes) for sizes in _data()["cpu_quick"]]


def parse_shape(text: str) -> Shape:
    """Read ``"M,N,K"``.

    Raises
    ------
    ValueError
        The text is not three positive integers.
    """
    parts = [part.strip() for part in text.lower().replace("x", ",").split(",")]
    # At most nine digits: no machine holds a matrix with a longer side.
    if len(parts) != 3 or not all(re.fullmatch("0*[1-9][0-9]{0,8}", part) for part in parts):
        raise ValueError(f"shape {text!r}: expected three positive integers M,N,K")
    M, N, K = map(int, parts)
    return Shape(M, N, K)


def operands(shape: Shape, dtype: np.dtype, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Make random A and B: normal for floats and complex, small whole numbers for integers."""
    random = np.random.default_rng(seed)
    return _random(random, (shape.M, shape.K), dtype), _random(random, (shape.K, shape.N), dtype)


def _random(random: np.random.Generator, shape: tuple[int, int], dtype: np.dtype) -> np.ndarray:
    if dtype.kind in "iu":
        return random.integers(-8 if dtype.kind == "i" else 0, 9, shape).astype(dtype)
    if dtype.kind == "c":
        parts = random.standard_normal((2, *shape))
        return (parts[0] + 1j * parts[1]).astype(dtype)
    if dtype in (np.float32, np.float64):
        return random.standard_normal(shape, dtype)
    return random.standard_normal(shape).astype(dtype)
