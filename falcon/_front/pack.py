"""`pack`: pack the right operand of many products once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from falcon._backends import available_backends, get_backend
from falcon._core.centring import may_centre
from falcon._core.keywords import PackingOptions, takes_options
from falcon._core.ladder import is_bound
from falcon._core.options import FIELDS, PACKING, Options
from falcon._core.packed import PackedOperand
from falcon._core.plan import Plan
from falcon._core.policy import panel_bytes
from falcon._core.problem import Problem
from falcon._core.sampled import Lines, needs_sample
from falcon._core.scaling import scale_packed
from falcon._core.settle import row_norms_to_pack
from falcon._core.units import NONE, to_pack
from falcon._tools.checks import check_count, check_switch
from falcon.decision.ways import unfit

from .adapters import adapt_operands
from .arithmetic import operand_type, result_type
from .execute import Product
from .matmul import matmul
from .planner import compared_seconds_of, plan_for, resolve_options
from .scaled import widened
from .validate import check_matrix

# Rows for which "auto" chooses by default: packing gains most for few rows (docs/howto/weights.md).
_USUAL_ROWS = 512
# Options that products by a B that is not packed take from `pack`, unless they are given their own.
_KEPT = "backend", "arithmetic", "max_growth", "error", "reproducible", "centre"


@takes_options(*PACKING)
def pack(
    b: npt.ArrayLike,
    *,
    rows: int | None = None,
    dtype: npt.DTypeLike | None = None,
    keep_source: bool = True,
    **options: Unpack[PackingOptions],
) -> PackedOperand:
    """Combine and pack B once, for many products with the same weights.

    ``gemm(a, packed)``, ``matmul(a, packed)`` and ``a @ packed`` then skip Combine B (or the
    packing of B). Where "auto" predicts that panels within `memory_limit` gain nothing, as for many
    rows, which take schemes of two levels, B is not packed, and products are those of a copy of it.

    Parameters
    ----------
    b : array_like, shape (K, N)
        Must not be changed while the packed operand is in use, unless `keep_source` is False. Of
        float8, it is packed as bfloat16, for float32 results, as `scaled_matmul` takes it.
    rows : int, optional
        Expected rows of A; only affects what "auto" chooses. Default: 512.
    dtype : dtype, optional
        Of the result, as in `gemm`; default: b's own. If falcon's kernels can write it for operands
        of b's dtype (int32 for int8, float32 for bfloat16), products take an A of b's dtype; for
        int32 an A of int8 or uint8, whichever of these b has.
    keep_source : bool
        False saves the memory of B. Without B, a ValueError is raised in four cases: a product must
        be redone classically because a scheme met a NaN or Inf (``check="none"`` does not test for
        them), or products of bfloat16 parts did; or because A is too badly scaled for what "auto"
        chose; a product with ``check="verify"``; the operand is pickled or copied. Products then
        treat B as an array of `dtype`. In GPU memory B is always kept.
    {options}

    Returns
    -------
    PackedOperand
        Printable, usable from several threads, can be pickled.

    Raises
    ------
    ValueError, TypeError
        As `gemm`.

    Notes
    -----
    With a scheme, the packed data has R/(kn) times the bytes of B (Strassen: 1.75 times; with
    bfloat16 parts, 1.5 times as many), and a reference to B is kept, unless `keep_source` is False.
    A B that is not packed (`PackedOperand.is_packed`) is copied, and the copy is always kept.
    If "auto" chooses the scheme, columns of too different norms are scaled by powers of two when
    they are packed. Source of the method: FalconGEMM's offline Combine B.

    A pickle holds B and the options, those set by `falcon.config` included; B is packed again where
    it is loaded, which is faster than reading the panels. There "auto" may choose another scheme or
    backend; a backend by name must be available.

    Examples
    --------
    >>> import falcon, numpy as np
    >>> w = falcon.pack(np.eye(64), scheme="strassen")
    >>> bool((falcon.gemm(np.ones((3, 64)), w) == 1).all())
    True
    """
    return make_packed(b, options, rows, dtype, keep_source)


def make_packed(
    b: Any,
    options: Mapping[str, Any],
    rows: int | None = None,
    dtype: Any = None,
    keep_source: bool = True,
    *,
    always: bool = False,
) -> PackedOperand:
    """Pack B as `pack` does; with `always`, also where panels are predicted to gain nothing."""
    check_count("rows", rows)
    check_switch("keep_source", keep_source)
    b, is_float8 = widened(b)
    if is_float8 and dtype is None:
        dtype = "float32"  # for `scaled_matmul`
    adapter, b = adapt_operands(b=b)
    if adapter.device is not None and not keep_source:
        raise ValueError(
            "keep_source is False, but b is in GPU memory, where b itself is always kept for "
            "products that are redone classically; leave it out"
        )
    source = check_matrix("b", adapter.array("b", b))
    chosen = resolve_options("pack", PACKING, options, adapter.device)
    native = result_type(adapter, {"b": source}, dtype, None, chosen.one_modulus)
    types = operand_type(adapter, [source], native, chosen), native
    with adapter.current():
        a = rows or _USUAL_ROWS, source.shape[0]
        product = Product(adapter, a, source, None, None, *types, chosen, packed=True)
        problem = product.problem
        factor = source if adapter.device is None else adapter.matrix(source)
        plan = plan_for(problem, _for_one_backend(chosen, problem))
        _check_limit(plan)
        pack_again = partial(pack, rows=rows, dtype=native.name, **_kept(plan, chosen))
        always = always or chosen.modulus is not None
        if chosen.scheme == "auto" and adapter.device is None and not always:
            plain = plan_for(replace(problem, packed=False), chosen)
            if compared_seconds_of(plain) < compared_seconds_of(plan):
                return _not_packed(plain, source, pack_again)
        chosen = plan.options
        units = NONE if adapter.device is not None else to_pack(plan, source)
        factor = units.times(factor, 1, plan.problem.operand.right.numpy)
        packed = replace(_packed(plan, source, factor, pack_again), units=units.of_b)
        if packed.scheme is not None and isinstance(packed.column_norms, np.ndarray):
            columns = packed.column_norms
            packed = _scaled(plan, packed, factor, chosen)
            if packed.scheme is not None:
                packed = replace(packed, row_norms=row_norms_to_pack(factor, columns))
    return packed if keep_source else replace(packed, source=None)


def _kept(plan: Plan, options: Options) -> dict[str, Any]:
    """Return the keywords by which B is packed again, in a process of other settings and threads.

    What was set, but does nothing for B, is none of them.
    """
    kept = {name: getattr(options, name) for name in PACKING if name != "threads"}
    idle = {*unfit((plan.reals or plan).problem, options)}
    if plan.method.arithmetic is None and options.arithmetic != "native":
        idle.add("arithmetic")
    return kept | {name: FIELDS[name].default for name in idle}


def _check_limit(plan: Plan) -> None:
    limit = plan.options.memory_limit
    needed = panel_bytes((plan.reals or plan).problem, plan.scheme, plan.method.compute_type)
    if limit is not None and needed > limit:
        raise ValueError(
            f"memory_limit is {limit} bytes; the panels of b for {plan.label} multiplication hold "
            f"{needed}"
        )


def _packed(plan: Plan, source: Any, factor: Any, pack_again: Callable) -> PackedOperand:
    problem, arithmetic = plan.problem, plan.method.arithmetic
    is_judged = plan.guarded or (plan.method.splits > 1 and plan.scheme is None)
    is_judged = is_judged or may_centre(plan)
    known: tuple[Any, Any] = plan.backend.column_norms(factor, plan) if is_judged else (None, None)
    how = plan.rewrite
    payload = plan.backend.pack(factor, plan) if how is None else how.pack(plan, factor)
    about = tuple(source.shape), problem.result.numpy, plan.scheme, plan.backend.name
    panels = problem.operand.numpy if problem.is_wide else None
    made = PackedOperand(*about, payload, source, pack_again, matmul, *known, panels=panels)
    made = replace(made, modulus=plan.options.one_modulus)
    if is_bound(problem, plan.options):
        lines = Lines.of(plan, source, 1).kept() if needs_sample(plan) else None
        made = replace(made, error=plan.options.error, lines=lines)
    return made if arithmetic is None else replace(made, arithmetic=arithmetic.name)


def _not_packed(plan: Plan, source: np.ndarray, pack_again: partial) -> PackedOperand:
    """Return an operand whose products are those of a copy of B, by the same options."""
    problem = plan.problem
    own = np.array(source, problem.operand.right.numpy, order="K")
    panels = problem.operand.numpy if problem.is_wide else None
    kept = tuple((name, pack_again.keywords[name]) for name in _KEPT)
    about = source.shape, problem.result.numpy, None, plan.backend.name
    return PackedOperand(*about, None, own, pack_again, matmul, panels=panels, kept=kept)


def _for_one_backend(options: Options, problem: Problem) -> Options:
    """Choose the first backend that can multiply; NumPy, where packing saves nothing, is last.

    Residues modulo p, which are of other types than the problem's, have their own choice.
    """
    if options.backend != "auto" or options.modulus is not None:
        return options
    first = next(x for x in available_backends() if x.why_not(problem) is None)
    return replace(options, backend=first.name)


def _scaled(plan: Plan, packed: PackedOperand, b: np.ndarray, options: Options) -> PackedOperand:
    """Return `packed`, or B packed again if its columns must be scaled or it must be classical.

    Not for GPUs, whose backend scales columns in `pack`.
    """
    # The chunks by which B was packed, not those of the plan.
    chunks = get_backend(packed.backend).packed_method(plan.problem, packed, None).chunks
    scaling = scale_packed(packed.column_norms, plan, chunks[1])
    if scaling is None:
        plan = plan_for(plan.problem, replace(options, scheme="classical"))
        return _packed(plan, packed.source, packed.source, packed.pack_again)
    if not scaling:
        return packed
    scaled = scaling.of_columns(b, plan.problem.dtype)
    again = _packed(plan, packed.source, scaled, packed.pack_again)
    totals = packed.column_totals  # of the columns as they are
    known: Any = {"column_totals": totals, "column_powers": scaling.columns, "units": packed.units}
    return replace(again, **known)
