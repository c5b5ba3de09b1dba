"""Shapes to measure: the linear layers of language models, or what the user gives."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any


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
    parts = text.lower().replace("x", ",").split(",")
    if len(parts) != 3 or not all(part.strip().isdigit() and int(part) > 0 for part in parts):
        raise ValueError(f"shape {text!r}: expected three positive integers M,N,K")
    return Shape(*(int(part) for part in parts))
