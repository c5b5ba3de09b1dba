"""`check`: the self-test."""

from __future__ import annotations

from collections.abc import Callable

from .result import CheckResult


def check(*, speeds: bool = True, tick: Callable[[str], None] | None = None) -> CheckResult:
    """Test this installation on this machine, in a minute or two; print nothing.

    Parameters
    ----------
    speeds : bool
        Compare three products with NumPy's as well, which takes most of the time.
    tick : callable, optional
        Called with the name of each step before it.

    Returns
    -------
    CheckResult
        ``result.ok`` says whether all products were right, ``print(result)`` shows a table, and
        ``result.to_dict()`` is what a bug report needs.

    Notes
    -----
    Every kernel of every instruction set that runs here multiplies odd sizes, by the classical
    algorithm and by Strassen's: whole numbers, whose products must be right in every bit, and
    random ones, against more precision and the promised bound. With 1, 2, all and more threads than
    CPUs the bits are the same. Then whole calls on each backend that runs here (a GPU's too), NaN
    and Inf, batches, a packed B, and a product larger than the caches, as far as the memory allows
    it. Times are shown and never judged. Settings (`falcon.config`) do not matter, except
    `threads`; nor do stored choices change.

    Examples
    --------
    >>> import falcon
    >>> result = falcon.check(speeds=False)  # doctest: +SKIP
    >>> result.ok  # doctest: +SKIP
    True
    """
    from .steps import steps  # and what only a check needs

    result = CheckResult()
    for step in steps(speeds=speeds):
        if tick is not None:
            tick(step.name)
        step(result)
    return result
