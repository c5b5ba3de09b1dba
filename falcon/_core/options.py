"""`Options`: keywords, settings and environment variables of a call, as one frozen value.

Environment variables are read by `environment.py` only. To add an option: a field of
`Options`, its type in `keywords.py`, and the code that uses it. Settings then set it, functions
that `taken_by` names take it as a keyword, and what plans also as a flag of the command line.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, get_args

from falcon._tools import checks
from falcon._tools.checks import parse_bool
from falcon._tools.text import did_you_mean, unexpected
from falcon._tools.threads import within_limits
from falcon.schemes import Scheme

from .arithmetic import NAMES
from .environment import OTHER_VARIABLES, openmp_threads, oversubscribes, read
from .method import check_scheme

_log = logging.getLogger("falcon")

DEFAULT_MAX_GROWTH = 8.0  # RMS growth of the error that "auto" allows: three bits

# Functions that take an option as a keyword; the last two have fewer (`torch.LinearConfig`).
CALLS, PLANS, PACKS, TUNES, LAYERS = "calls", "plans", "packs", "tunes", "layers"
_ALL = (CALLS, PLANS, PACKS)


def _option(
    default: Any,
    variable: str,
    text: str,
    check: Callable[[str, Any], Any],
    parse: Callable[[str], Any] = str,
    taken_by: tuple[str, ...] = (),
) -> Any:
    """Describe an option: `text` is its documentation, with the type in the first line.

    `variable`: of the environment; empty: it is no setting, but a keyword alone.
    `parse` reads the environment variable, or a flag; `check` see `checks`.
    """
    about = {"variable": variable, "text": text, "check": check, "parse": parse}
    return field(default=default, metadata={**about, "taken_by": taken_by})


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a call, from keywords, settings (`falcon.config`) and environment variables.

    Once the name of a scheme is looked up, `scheme` is "auto", "classical" or a Scheme.
    """

    backend: str = _option(
        "auto",
        "FALCON_BACKEND",
        """str
        "auto" or the name of a backend ("cpu", "numpy", "gpu").""",
        checks.check_backend,
        taken_by=(*_ALL, TUNES),
    )
    scheme: str | Scheme = _option(  # noqa: RUF009
        "auto",
        "FALCON_SCHEME",
        """str or Scheme
        "auto" chooses by predicted time, and scales rows of `a` and columns of `b` by powers of two
        where their norms differ too much; "classical" uses no LCMA; a name such as "strassen",
        "3x4x4:38" or "strassen@winograd", or a `falcon.schemes.Scheme`, is used as given, without
        scaling. `falcon.gram` uses such a scheme for the blocks off the diagonal.""",
        check_scheme,
        taken_by=(*_ALL, LAYERS),
    )
    arithmetic: str = _option(
        "auto",
        "FALCON_ARITHMETIC",
        """{"auto", "native", "int8", "float32", "float64", "bf16", "bf16x6", "bf16x3", "fp16x3", "tf32", "fixed"}
        "float32": float64 and complex128 as float32; "float64": float32 and complex64 as float64;
        "bf16": float32 and float64 as bfloat16; "int8": these as integers of 8 bits, row by row and
        column by column; all in host memory. Of float32, three bfloat16
        parts, as accurate, or two (`max_growth` 16); on a GPU two float16 parts, or TF32; "fixed":
        float64 there, in cuBLAS's fixed point.
        "auto" is "bf16x6", on a GPU "fp16x3", where that is faster, and "native" for a scheme by
        name. A keyword raises TypeError for products that it does not fit, a setting is for those
        that it fits.""",  # noqa: E501
        partial(checks.check_choice, NAMES),
        taken_by=(*_ALL, TUNES),
    )
    max_growth: float = _option(
        DEFAULT_MAX_GROWTH,
        "FALCON_MAX_GROWTH",
        """float
        Largest predicted RMS error, relative to the classical algorithm, that "auto" allows
        (default 8.0: three bits; 1.0 forbids every LCMA).""",
        checks.check_growth,
        float,
        taken_by=(*_ALL, TUNES, LAYERS),
    )
    error: float | None = _option(
        None,
        "FALCON_ERROR",
        """float
        Largest error of c_ij over ``norm(a_i) norm(b_j)``: "auto" takes the fastest arithmetic that
        promises it (docs/howto/error.md). None: the elements' own. Nothing for integers, a scheme
        or an arithmetic by name.""",
        checks.check_error,
        float,
        taken_by=(*_ALL, LAYERS),
    )
    threads: int | None = _option(
        None,
        "FALCON_NUM_THREADS",
        """int
        Threads of the call, falcon's own and those of NumPy's BLAS; None: OMP_NUM_THREADS, or all
        CPUs that this process may use. Never more than these CPUs, nor than `threadpoolctl`
        allows.""",
        checks.check_count,
        int,
        taken_by=(*_ALL, TUNES),
    )
    workspace_limit: int | None = _option(
        None,
        "FALCON_WORKSPACE_LIMIT",
        """int or str
        Bytes that the call may allocate beyond its result, or a size such as "64MiB". None:
        falcon's own kernels use what is usually kept between calls (`release_workspace`), and up
        to 1/16 of the memory where that is faster; NumPy's use what they need. With a larger
        limit, falcon's kernels use and keep at most a quarter of the memory.""",
        checks.check_size,
        taken_by=_ALL,
    )
    reproducible: bool | str = _option(
        False,
        "FALCON_REPRODUCIBLE",
        """bool or "rows"
        The same bits whatever the number of threads, NumPy's BLAS, the profile and the load: by
        falcon's own kernels in host memory, with FALCON_ISA also on other processors of the
        architecture (docs/reliability.md); on one kind of GPU (docs/gpu.md). "rows": besides, an
        entry has the same bits whatever the other rows and columns, by the classical algorithm, in
        host memory (docs/howto/reproducible.md).""",
        checks.check_reproducible,
        checks.parse_reproducible,
        taken_by=_ALL,
    )
    check: str = _option(
        "finite",
        "FALCON_CHECK",
        """{"finite", "verify", "none"}
        "finite": if an LCMA meets a non-finite value (in the input, or by overflow of a sum), the
        product is redone classically, so that a NaN or Inf spreads no further than it would there.
        "verify": also check the result, and make it again where it is wrong. "none": neither.""",
        partial(checks.check_choice, get_args(checks.Check)),
        taken_by=(CALLS,),
    )
    verbose: bool = _option(
        False,
        "FALCON_VERBOSE",
        """bool
        Log every new plan, with the table of its candidates, to the logger "falcon"; to standard
        error if the program has not configured logging.""",
        checks.check_switch,
        parse_bool,
    )
    tuned: bool = _option(
        True,
        "FALCON_TUNED",
        """bool
        Use what `falcon.tune` has measured for a problem instead of the prediction.""",
        checks.check_switch,
        parse_bool,
    )
    share_threads: bool = _option(
        True,
        "FALCON_SHARE_THREADS",
        """bool
        Run the jobs of NumPy's and SciPy's OpenBLAS on falcon's threads, in the whole process, once
        falcon's kernels have run with several threads: products of both libraries in turn then do
        not compete for CPUs. Products of `falcon.torch` run on torch's threads while they spin.""",
        checks.check_switch,
        parse_bool,
    )
    memory_limit: int | None = _option(
        None,
        "FALCON_MEMORY_LIMIT",
        """int or str
        Bytes that the panels of a packed operand may hold, without padding, or a size such as
        "64MiB". None: 2.5 times those of `b`, and for a scheme by name what it takes.""",
        checks.check_size,
        taken_by=(PACKS, LAYERS),
    )
    centre: bool | None = _option(
        None,
        "FALCON_CENTRE",
        """bool
        Subtract means from rows of `a`, or columns of `b`, and add their product exactly: errors
        of data with a mean, such as counts or pixels, fall by half and more. None: where "auto"
        chose a scheme; True: always, with the classical algorithm too; False: never. In host
        memory, of real floats: for others True raises TypeError, but as a setting is ignored.""",
        checks.check_choice_of_switch,
        parse_bool,
        taken_by=_ALL,
    )
    modulus: int | tuple[int, ...] | None = _option(
        None,
        "",
        """int or list[int] or tuple[int, ...]
        p, from 2 to 2^62: integers of any values are multiplied exactly and reduced to 0 <= x < p.
        The result is of `dtype`, or of the type of `out`, or of the operands' common type, which
        must hold p - 1; `alpha` and `beta` are integers. `matmul` takes a list of p too, and its
        result has their axis first (docs/modular.md).""",
        checks.check_moduli,
        int,
        taken_by=(*_ALL, TUNES),
    )
    overflow: str = _option(
        "wrap",
        "FALCON_OVERFLOW",
        """{"wrap", "raise", "widen"}
        Integers wrap, as NumPy's; or raise OverflowError, which names the first entry that does not
        fit; or have results of 32 or 64 bits, or more, that hold them (docs/types.md).""",
        partial(checks.check_choice, get_args(checks.Overflow)),
        taken_by=(CALLS,),
    )
    # Which of these are keywords of the call: such a one raises for products that it does not fit,
    # a setting is for those that it fits.
    given: frozenset[str] = field(default=frozenset(), repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        values = tuple(getattr(self, name) for name in FIELDS)
        return _loaded, (values, tuple(sorted(self.given)))  # equal options give equal bytes

    @property
    def one_modulus(self) -> int | None:
        """The modulus of a call that takes one: but for matmul, others are refused before."""
        assert not isinstance(self.modulus, tuple)
        return self.modulus


def _loaded(values: tuple[Any, ...], given: tuple[str, ...]) -> Options:
    return Options(**dict(zip(FIELDS, values, strict=True)), given=frozenset(given))


FIELDS = {x.name: x for x in fields(Options) if x.metadata}
SETTINGS = tuple(name for name, x in FIELDS.items() if x.metadata["variable"])
KEYWORDS, PLANNING, PACKING, TUNING, LINEAR = (
    tuple(name for name, x in FIELDS.items() if function in x.metadata["taken_by"])
    for function in (CALLS, PLANS, PACKS, TUNES, LAYERS)
)


# Of functions that take options, their other keywords: words that may be misspelt.
arguments: dict[str, tuple[str, ...]] = {}


def merge_keywords(function: str, names: tuple[str, ...], keywords: Mapping[str, Any]) -> Options:
    """Return the settings in force, changed by the keywords of a call other than "auto" and None.

    Raises TypeError: `function` takes no such keyword, or its value has the wrong type.
    Raises ValueError: a value is out of range.
    """
    current = settings()
    if not keywords:
        return current
    unknown = keywords.keys() - set(names)
    if unknown:
        raise unexpected(function, min(unknown), names, arguments.get(function, ()))
    given = {
        name: value
        for name, value in keywords.items()
        if value is not None and not (type(value) is str and value == "auto")
    }
    return replace(current, **validated(given), given=frozenset(given)) if given else current


_DEFAULTS = Options()
# Settings of `falcon.config`, per thread or task.
active: ContextVar[Options | None] = ContextVar("falcon_settings", default=None)
_base: Options | None = None


def settings() -> Options:
    """Return the settings in force here; the environment is read once, when first needed."""
    inside = active.get()
    return inside if inside is not None else base()


def base() -> Options:
    """Return the settings of the process: those of `set_config`, else of the environment."""
    global _base
    if _base is None:
        _notice_misspelt()
        _base = _from_environment()
    return _base


def are_default() -> bool:
    """Whether no setting was changed, by the program or the environment (a fast test)."""
    return _base is _DEFAULTS and active.get() is None


def _from_environment() -> Options:
    variables = {name: x.metadata["variable"] for name, x in FIELDS.items()}
    made = Options(
        **{
            name: read(variable, partial(parsed, name))
            for name, variable in variables.items()
            if variable in os.environ
        }
    )
    return _DEFAULTS if made == _DEFAULTS else made


def _notice_misspelt() -> None:
    """Log variables that look like a misspelt one of falcon's; others may be another program's."""
    known = {x.metadata["variable"] for x in FIELDS.values()} | OTHER_VARIABLES.keys()
    for name in os.environ:
        if name.startswith("FALCON_") and name not in known:
            hint = did_you_mean(name, known, "FALCON_")
            if hint:
                _log.warning("falcon: environment variable %s is ignored%s", name, hint)


def changed(function: str, changes: Mapping[str, Any], *, process: bool = False) -> Options:
    """Return the settings in force here (or in the process) with some changes.

    Raises as `merge_keywords` does, for `function`.
    """
    for name in changes:
        if name not in SETTINGS:
            raise TypeError(
                f"{function}() has no setting {name!r}{did_you_mean(name, SETTINGS)}; known: "
                f"{', '.join(sorted(SETTINGS))}"
            )
    return replace(base() if process else settings(), **validated(changes))


def set_base(options: Options) -> None:
    """Make these the settings of the process; ``with`` blocks keep theirs.

    Processes that start with `falcon.accelerate` on are told what differs from the environment.
    """
    global _base
    _base = _DEFAULTS if options == _DEFAULTS else options
    if "FALCON_ACCELERATE" in os.environ:
        mine, given = ({x: getattr(y, x) for x in SETTINGS} for y in (_base, _from_environment()))
        told = {name: value for name, value in mine.items() if value != given[name]}
        os.environ["FALCON_SETTINGS"] = json.dumps(told, default=lambda scheme: scheme.name)


def validated(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the checked values of options; raises ValueError or TypeError."""
    return {name: FIELDS[name].metadata["check"](name, value) for name, value in values.items()}


def parsed(name: str, text: str) -> Any:
    """Return the checked value of an option that is given as text; raises as `validated`."""
    about = FIELDS[name].metadata
    parse, value = about["parse"], text
    with suppress(ValueError) if parse in (int, float) else nullcontext():  # the check says more
        value = parse(text)
    return about["check"](name, value)


def as_variables(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the environment variables that set options, those of None left out."""
    given = {name: value for name, value in values.items() if value is not None}
    return {FIELDS[name].metadata["variable"]: str(value) for name, value in given.items()}


def thread_count(requested: int | None = None) -> int:
    """Threads that a call uses: by argument, settings, OMP_NUM_THREADS, or all usable CPUs.

    Never more than the usable CPUs, nor than threadpoolctl allows.
    """
    options = settings()
    return threads_of(options if requested is None else replace(options, threads=requested))


def threads_of(options: Options) -> int:
    """Threads that a call with these options uses: see `thread_count`."""
    return within_limits(options.threads, openmp_threads(), oversubscribed=oversubscribes())
