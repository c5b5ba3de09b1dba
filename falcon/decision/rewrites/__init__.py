"""Products that are computed as other products: when, and which module plans them.

::

    Problem, Options --> the first rule that fits --> a plan with `parts`, and how they make it up
                         none: one method multiplies

    triangle.py    x.T @ x: a block off the diagonal, two triangles on it
    residues.py    modulo p: residues, as products of few bits, in slices of K
    quantised.py   floats as 8-bit integers: by name, or where an error that is named allows it
    falcon._core.reals    complex matrices on a GPU: a real product
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

from falcon._core.arithmetic import BY_INTEGERS
from falcon._core.ladder import may_be_integers
from falcon._core.options import Options
from falcon._core.problem import Problem
from falcon._tools.locks import importing


class Rule(NamedTuple):
    """When a product is made of others."""

    fits: Callable[[Problem, Options], bool]  # by their fields alone
    # A module, imported when it is first needed, with the function
    # ``plan(problem, options, backends, plan_for)`` and, if B may be packed,
    # ``plan_packed(problem, packed, options, plan_packed)``: the last argument plans the parts.
    home: str


RULES = (
    Rule(lambda x, _: x.operand.is_complex and x.device is not None, "falcon._core.reals"),
    Rule(lambda _, how: how.modulus is not None, "falcon.decision.rewrites.residues"),
    Rule(
        lambda x, how: how.arithmetic == BY_INTEGERS and may_be_integers(x),
        "falcon.decision.rewrites.quantised",
    ),
    Rule(
        lambda x, how: bool(x.symmetric) and how.scheme != "classical",
        "falcon.decision.rewrites.triangle",
    ),
)


def home_of(problem: Problem, options: Options) -> Any:
    """Return the module that plans a product as others; None: it is multiplied as it is."""
    for rule in RULES:
        if rule.fits(problem, options):
            with importing():
                return import_module(rule.home)
    return None
