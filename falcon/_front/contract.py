"""`dot`, `tensordot`, `einsum` and `multi_dot`: sums over products, reduced to `matmul`.

::

    einsum --> subscripts.py: labels of axes, order of pairs --> pairs.py: each pair --> matmul
    tensordot, dot --> labels ---------------------------------> pairs.py
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import is_
from typing import Any, Literal, Unpack

import numpy as np
import numpy.typing as npt

from falcon._core.arrays import to_array
from falcon._core.keywords import CallOptions, takes_options
from falcon._core.options import KEYWORDS, settings

from .adapters import adapt_operands
from .calls import forms, keep, key_of_form
from .fallback import any_type, einsum_operands, is_taken_over
from .matmul import matmul
from .pairs import Pairs
from .planner import resolve_options
from .subscripts import Steps, as_text, is_view, labels_of, planned
from .validate import check_shape

_CASTINGS = "no", "equiv", "safe", "same_kind", "unsafe"


@takes_options(*KEYWORDS)
def dot(a: Any, b: Any, out: Any = None, **options: Unpack[CallOptions]) -> Any:
    """Multiply as `numpy.dot` does: over the last axis of `a` and the second to last of `b`.

    Parameters
    ----------
    a, b : array_like (`b` may also be a `PackedOperand`)
        Of any number of axes; scalars are multiplied with all entries.
    out : array, optional
        Receives the result; as for `matmul`.
    {options}

    Returns
    -------
    array or scalar
        Shape and dtype of ``np.dot(a, b)``.

    Notes
    -----
    Errors are those of `matmul`.

    Examples
    --------
    >>> import falcon, numpy as np
    >>> falcon.dot(np.ones((5, 2, 3)), np.ones((4, 3, 7))).shape
    (5, 2, 4, 7)
    """
    named = (("a", a), ("b", b))
    axes = [x.ndim if hasattr(x, "ndim") else len(_shape(name, x)) for name, x in named]
    if axes[0] and 1 <= axes[1] <= 2 and not isinstance(options.get("modulus"), list | tuple):
        return matmul(a, b, out, **options)
    return _tensordot("dot", a, b, ([-1], [-2]) if min(axes) else 0, out, options)


@takes_options(*KEYWORDS)
def tensordot(
    a: Any,
    b: Any,
    axes: int | tuple[int | Sequence[int], int | Sequence[int]] = 2,
    **options: Unpack[CallOptions],
) -> Any:
    """Sum products over several axes, as `numpy.tensordot` does.

    Parameters
    ----------
    a, b : array_like
    axes : int, or two sequences of int
        The axes of `a` and those of `b` to sum over; a number n: the last n and the first n.
    {options}

    Returns
    -------
    array
        Shape and dtype of ``np.tensordot(a, b, axes)``.

    Raises
    ------
    ValueError, TypeError
        The axes do not match; and as `matmul`.

    Notes
    -----
    The axes that are summed, and those that are kept, become one each, in the order in which they
    lie in memory: one matrix product, without a copy where the strides allow it.

    Examples
    --------
    >>> import falcon, numpy as np
    >>> falcon.tensordot(np.ones((3, 4, 5)), np.ones((4, 3, 2)), axes=([1, 0], [0, 1])).shape
    (5, 2)
    """
    return _tensordot("tensordot", a, b, axes, None, options)


@takes_options(*KEYWORDS)
def einsum(
    *operands: Any,
    out: Any = None,
    dtype: npt.DTypeLike | None = None,
    order: Literal["K", "C", "F", "A"] = "K",
    casting: Literal["no", "equiv", "safe", "same_kind", "unsafe"] = "safe",
    optimize: bool | str | Sequence[Any] = True,
    **options: Unpack[CallOptions],
) -> Any:
    """Evaluate an Einstein sum, as `numpy.einsum` does, by matrix products.

    Parameters
    ----------
    *operands
        ``subscripts, array, ...``, or ``array, labels, ..., [labels of the result]``.
    out : array, optional
        Receives the result; may overlap any operand.
    dtype, casting
        As for `numpy.einsum`: all operands are cast to `dtype`, by default their common type.
    order : {"K", "C", "F", "A"}
        Layout of the result; "K": any. Arrays in GPU memory take "K" only.
    optimize : bool, str or path
        How to choose the order of pairs for three operands and more: True, the name of a method
        of `opt_einsum.contract_path`, or a path, as that or `numpy.einsum_path` returns it. False:
        three operands and more go to the array library's own einsum.
    {options}

    Returns
    -------
    array or scalar
        Shape and dtype of ``np.einsum(...)``; the sum over one operand alone may be a view.

    Raises
    ------
    ValueError
        The subscripts, shapes or an argument are wrong.
    TypeError
        An operand does not cast to `dtype` by `casting`; and as `matmul`.

    Notes
    -----
    In each pair the axes are sorted into those of a batch, those that are summed and those kept in
    the result; the sorted views are multiplied by `matmul`. Diagonals, sums over one operand, and
    products without a sum or of pairs of vectors are left to the array library. Arrays whose class
    overrides NumPy's functions (units) are handed to `numpy.einsum`. Source of the
    method: D. G. A. Smith and J. Gray, opt_einsum, JOSS 3 (26), 753, 2018.

    ``opt_einsum.contract(..., backend="falcon")`` uses `falcon.einsum` and `falcon.tensordot`, for
    NumPy and CuPy arrays.

    Examples
    --------
    >>> import falcon, numpy as np
    >>> x, w = np.ones((8, 5, 3)), np.ones((3, 4))
    >>> falcon.einsum("bik,kj->bij", x, w).shape
    (8, 5, 4)
    """
    is_plain = out is dtype is None and order == "K" and casting == "safe" and optimize is True
    is_plain = is_plain and not options and settings().overflow == "wrap"
    form = _form(operands) if is_plain else None
    if (known := forms.get(form)) is not None:
        return known(*operands[1:])
    text, given = as_text(operands)
    named = {f"operand {i}": x for i, x in enumerate(given)}
    _check_words(order, casting)
    adapter, *views, target = adapt_operands(**named, out=out)
    named = dict(zip(named, views, strict=True))
    chosen = resolve_options("einsum", KEYWORDS, options, adapter.device)
    if is_taken_over(adapter, {**named, "out": target}, chosen):
        how = {"dtype": dtype, "order": order, "casting": casting, "out": out}
        return _by_its_class(text, views, optimize, how)
    target = None if out is None else adapter.target(target)
    if len(given) == 1 and out is None and is_view(text):  # whose elements stay as they are
        _check_type(adapter, dtype)
        dtype, casting = None, "unsafe"
    about = adapter, named, target, dtype, casting, chosen.one_modulus
    arrays, common = einsum_operands(*about, widens=chosen.overflow == "widen")
    if order != "K" and not isinstance(arrays[0], np.ndarray):
        raise ValueError(f"einsum: order is {order!r}; arrays in GPU memory take 'K' only")
    plan = _planned(text, arrays, optimize)
    check_shape("einsum: out", target, plan.shape)
    lies = _memory_order(order, arrays)
    pairs = Pairs(adapter, common, options, chosen.overflow)
    is_whole = all(map(is_, arrays, given)) and not any(plan.indices)
    with adapter.current():
        result = _evaluated(plan, pairs, arrays, None if casting == "unsafe" else target)
        if target is not None:
            if result is not target:
                adapter.copy(result, target, casting)
            return out
    if form is not None and is_whole and all(pairs.ways):
        keep(forms, form, _way(plan, pairs, result))
    if len(result.shape) == 0:
        return adapter.wrap(adapter.scalar(result))
    return adapter.wrap(result if lies is None else np.asarray(result, order=lies))


def _check_type(adapter: Any, dtype: Any) -> None:
    """Raise TypeError for what names no dtype, of a view, which has that of its operand."""
    if dtype is not None and adapter.device is None:
        any_type(dtype)


def _form(operands: Sequence[Any]) -> tuple | None:
    """Return what is equal in calls by subscripts that are evaluated alike; None: not kept."""
    by_text = len(operands) > 0 and type(operands[0]) is str
    return key_of_form(tuple(operands[:1]), operands[1:]) if by_text else None


def _check_words(order: Any, casting: Any) -> None:
    """Raise ValueError for words that NumPy does not know."""
    if order not in ("K", "C", "F", "A"):
        raise ValueError(f"einsum: order is {order!r}; expected 'K', 'C', 'F' or 'A'")
    if casting not in _CASTINGS:
        raise ValueError(f"einsum: casting is {casting!r}; expected one of {', '.join(_CASTINGS)}")


def _by_its_class(text: str, operands: Sequence[Any], optimize: Any, how: dict[str, Any]) -> Any:
    """Return NumPy's sum, which the class of an operand computes."""
    given = {k: x for k, x in how.items() if x is not None}
    return np.einsum(text, *operands, optimize=optimize, **given)


def _memory_order(order: str, operands: Sequence[Any]) -> Literal["C", "F"] | None:
    """Return in which order the result lies; None: in any."""
    if order == "K":
        return None
    by_columns = order == "F" or (order == "A" and all(x.flags.f_contiguous for x in operands))
    return "F" if by_columns else "C"


def _planned(text: str, arrays: Sequence[Any], optimize: Any) -> Steps:
    """Return the steps of a sum, for `optimize` as NumPy takes it."""
    if not isinstance(optimize, bool | str):
        optimize = tuple(tuple(x) if isinstance(x, list) else x for x in optimize)
    return planned(text, tuple(tuple(x.shape) for x in arrays), optimize)


def _evaluated(plan: Steps, pairs: Pairs, operands: Sequence[Any], out: Any) -> Any:
    """Contract the operands step by step; the last result is `out`, if it can be written there."""
    labels = list(plan.inputs)
    arrays = [x if at is None else x[at] for x, at in zip(operands, plan.indices, strict=True)]
    for step in plan.path:
        taken = [(arrays.pop(i), labels.pop(i)) for i in sorted(step, reverse=True)][::-1]
        rest = {*plan.output}.union(*labels)
        found = dict.fromkeys("".join(own for _, own in taken))
        labels.append("".join(x for x in found if x in rest) if labels else plan.output)
        factors, owned = zip(*taken, strict=True)
        direct = out if len(labels) == 1 else None
        arrays.append(pairs.contracted(factors, owned, labels[-1], direct))
    return arrays[0]


def _way(plan: Steps, pairs: Pairs, result: Any) -> Callable[..., Any]:
    """Return what evaluates the sum again, for operands alike."""
    steps = [sorted(step, reverse=True) for step in plan.path]
    way = pairs.ways[0] if len(steps) == 1 and len(result.shape) else None
    return way or partial(_again, [*zip(steps, pairs.ways, strict=True)])


def _again(steps: Sequence[tuple[Sequence[int], Any]], *operands: Any) -> Any:
    """Evaluate a sum again: `steps` are its path, and `Pairs.ways`."""
    arrays = list(operands)
    for step, way in steps:
        arrays.append(way(*[arrays.pop(i) for i in step][::-1]))
    return arrays[0] if arrays[0].ndim else arrays[0][()]


@takes_options(*KEYWORDS)
def multi_dot(arrays: Sequence[Any], *, out: Any = None, **options: Unpack[CallOptions]) -> Any:
    """Multiply a chain of matrices in the cheapest order, as `numpy.linalg.multi_dot` does.

    Parameters
    ----------
    arrays : sequence of array_like
        At least two matrices; the first may be a row vector, the last a column vector.
    out : array, optional
        Receives the result; as for `matmul`.
    {options}

    Returns
    -------
    array or scalar
        Shape and dtype of ``np.linalg.multi_dot(arrays)``.

    Raises
    ------
    ValueError, TypeError
        There are fewer than two, one is not a matrix (`numpy.linalg.LinAlgError`); as `matmul`.

    Notes
    -----
    The order has the fewest multiplications of the classical algorithm. Source of the method:
    Cormen, Leiserson, Rivest and Stein, Introduction to Algorithms, matrix-chain multiplication.

    Examples
    --------
    >>> import falcon, numpy as np
    >>> falcon.multi_dot([np.ones((9, 2)), np.ones((2, 8)), np.ones(8)]).shape
    (9,)
    """
    chain = list(arrays)
    adapter, *_ = adapt_operands(**{f"array {i}": x for i, x in enumerate(chain)}, out=out)
    resolve_options("multi_dot", KEYWORDS, options, adapter.device)  # raises
    shapes = [_shape(f"array {i}", x) for i, x in enumerate(chain)]
    if len(chain) < 2:
        raise ValueError(f"multi_dot: expected at least two arrays; got {len(chain)}")
    for i, shape in enumerate(shapes):
        if len(shape) != 2 and not (len(shape) == 1 and i in (0, len(chain) - 1)):
            raise np.linalg.LinAlgError(
                f"multi_dot: array {i} has shape {shape}; expected a matrix"
            )
    ends = [1 if len(shapes[0]) == 1 else shapes[0][0], *(x[0] for x in shapes[1:])]
    ends[1] = shapes[0][-1]
    ends.append(1 if len(shapes[-1]) == 1 else shapes[-1][1])
    splits = _cheapest(ends)

    def product(first: int, last: int, out: Any = None) -> Any:
        if first == last:
            return chain[first]
        split = splits[first, last]
        return matmul(product(first, split), product(split + 1, last), out, **options)

    return product(0, len(chain) - 1, out)


def _shape(name: str, x: Any) -> tuple[int, ...]:
    """Return the shape of an operand, which may have no such attribute."""
    if not hasattr(x, "shape"):
        _, x = adapt_operands(**{name: x})
        x = to_array(name, x)
    return tuple(x.shape)


def _cheapest(sizes: list[int]) -> dict[tuple[int, int], int]:
    """Return per part of a chain the last array of its left factor; array i has sizes i, i + 1."""
    count = len(sizes) - 1
    cost, splits = {(i, i): 0 for i in range(count)}, {}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            cost[i, j], splits[i, j] = min(
                (cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            )
    return splits


def _tensordot(name: str, a: Any, b: Any, axes: Any, out: Any, options: CallOptions) -> Any:
    form, given = None, (a, b)
    is_plain = not options and settings().overflow == "wrap"
    if out is None and is_plain and type(axes) in (int, list, tuple):
        form = key_of_form((name, repr(axes)), given)
        if (known := forms.get(form)) is not None:
            return known(a, b)
    adapter, a, b, target = adapt_operands(a=a, b=b, out=out)
    chosen = resolve_options(name, KEYWORDS, options, adapter.device)
    if is_taken_over(adapter, {"a": a, "b": b, "out": target}, chosen):
        if name == "tensordot":
            return np.tensordot(a, b, axes=axes)
        return np.dot(a, b) if out is None else np.dot(a, b, out=out)
    (x, y), _ = einsum_operands(adapter, {"a": a, "b": b}, None, None, "safe")
    xs, ys, kept = labels_of(name, axes, tuple(x.shape), tuple(y.shape))
    sums = len(kept) < x.ndim + y.ndim
    target = None if out is None else adapter.target(target)
    sizes = dict(zip(xs + ys, (*x.shape, *y.shape), strict=True))
    shape = tuple(sizes[z] for z in kept)
    check_shape(f"{name}: out", target, shape)
    with adapter.current():
        pairs = Pairs(adapter, None, options, chosen.overflow)
        if sums:
            result = pairs.contracted((x, y), (xs, ys), kept, target)
        else:  # two axes: einsum has letters for 52
            result = pairs.contracted((x.reshape(-1), y.reshape(-1)), ("a", "b"), "ab")
            result = result.reshape(shape)
        if target is not None and result is not target:
            adapter.copy(result, target)
    if out is not None:
        return out
    way: Any = pairs.ways[0]
    if form is not None and way and (sums or shape) and x is given[0] and y is given[1]:
        outer = lambda x, y: way(x.reshape(-1), y.reshape(-1)).reshape(shape)  # noqa: E731
        keep(forms, form, way if sums else outer)
    return adapter.wrap(adapter.scalar(result) if name == "dot" and not shape else result)
