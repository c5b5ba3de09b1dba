"""`accelerate`: let NumPy's own products run on falcon, and stop it."""

from __future__ import annotations

import inspect
import os
import sys
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import numpy as np

from falcon import config, gram, matmul, plan
from falcon._front.surface import (
    FIELDS,
    is_hermitian,
    keep_original,
    limits_of_loops,
    observe,
    settings,
    tell_children,
)
from falcon._tools.checks import check_choice, check_error, check_switch
from falcon._tools.locks import ForkLock
from falcon._tools.uninterrupted import Block, forgetful, insist

try:
    from . import _loops
except ImportError:  # `accelerate` says so
    _loops = None  # type: ignore[assignment]

_lock = ForkLock()
# What calls have set, and what ``with`` blocks have set since: the last one counts. Calls whose
# switch may still begin a block, which takes the call back, are kept one by one, in their order.
# A state: whether it is on, or "raise", which checks products of integers; and the error of floats.
_State = tuple[bool | Literal["raise"], float | None]
_base: _State = False, None
_calls: list[tuple[weakref.ref[Switch], _State]] = []
_blocks: dict[object, _State] = {}
_now: _State | None = False, None  # None: being changed
_of_integers: dict[str, Any] = {}  # options of their products
_error: float | None = None  # of products of floats
_was_told = False
# Values of np.errstate with which nobody asks for overflow: others are NumPy's to obey.
_NOT_ASKED = {"ignore", "warn"}
_TOLD = 5000  # rows and columns of the product whose error is told
# Operations from which a call of Python pays where NumPy multiplies in loops.
_LEAST_OF_LOOPS = 1e5
# Python imports ``sitecustomize`` when it starts: this folder holds one, which obeys the variable.
# Only child processes find it, by their PYTHONPATH.
_SITE, _VARIABLE = str(Path(__file__).with_name("site")), "FALCON_ACCELERATE"


class Switch(Block["Switch"]):
    """What `accelerate` returns: as a context manager it restores, at the end, what it found."""

    def __init__(self, state: _State, quiet: bool) -> None:
        super().__init__()
        self._state, self._quiet = state, quiet

    def put(self) -> None:
        """Set what holds outside of blocks."""
        with _lock.lock:
            _settle()
            _calls.append((weakref.ref(self), self._state))
            _update(self._quiet)

    def undo(self) -> None:
        """Take back what `put` has set."""
        with _lock.lock:
            self._take_back()
            _update(quiet=True)

    def begin(self, key: object) -> Switch:
        """Set what holds in the block, and no longer outside of it."""
        with _lock.lock:
            self._take_back()
            _blocks[key] = self._state
            _update(self._quiet)
        return self

    def _take_back(self) -> None:
        _settle()
        _calls[:] = [x for x in _calls if x[0]() is not self]

    def end(self, key: object) -> None:
        """Take back what held in the block."""
        with _lock.lock:
            _blocks.pop(key, None)
            _update(quiet=True)

    def __repr__(self) -> str:
        return f"<falcon.accelerate: {'on' if is_on() else 'off'}>"


def accelerate(
    on: bool = True,
    *,
    error: float | None = None,
    quiet: bool = False,
    inherit: bool = False,
    overflow: Literal["wrap", "raise"] = "wrap",
    **options: Any,
) -> Switch:
    """Run NumPy's own products on falcon: ``a @ b``, np.matmul, np.dot and what is built on them.

    Large products of floats, complex numbers and integers are then multiplied as by
    `falcon.matmul`, with its settings (`falcon.config`); small ones, vectors, objects and other
    types as before. It holds for the whole process, all its threads, and forked children.

    Parameters
    ----------
    on : bool
        False: NumPy's own loops are put back.
    error : float, optional
        Largest error of an entry of a product over the norms of its row and its column, as
        `falcon.matmul` takes it: 1e-6 lets float64 programs multiply as float32.
    quiet : bool
        Do not say on standard error that it is on, and what it costs in accuracy.
    inherit : bool
        Child processes that start Python anew (spawned by multiprocessing, joblib, subprocess) also
        switch it on, when they import NumPy, with the settings of `set_config` as they are when
        the process starts. It sets FALCON_ACCELERATE and FALCON_SETTINGS, and changes PYTHONPATH.
    overflow : {"wrap", "raise"}
        "raise": products of two arrays of one integer type, of any size, raise OverflowError where
        a result does not fit, as with ``falcon.matmul(a, b, overflow="raise")``.

    Returns
    -------
    context manager
        ``with falcon.accelerate():`` restores what it found at the end of the block; a call alone
        inside a block has its effect after the block.

    Raises
    ------
    RuntimeError
        falcon was built without the compiled part of this, NumPy's loops are not as expected, or
        this is a subinterpreter (mod_wsgi, uWSGI): exceptions would be lost there.
    TypeError
        `on` is not a bool, or an option is given that `falcon.config` takes; or `error` with
        `inherit`, which passes on what ``set_config(error=...)`` sets.

    Notes
    -----
    Reached: ``@``, np.matmul, np.linalg.matrix_power, np.dot, ``ndarray.dot``, np.tensordot,
    np.linalg.multi_dot, np.einsum with ``optimize=``, np.cov, np.corrcoef, and libraries that call
    them. Not reached: np.einsum without ``optimize``, which `falcon.profile` names with its time,
    np.inner, np.vdot, LAPACK and SciPy's BLAS. No object of NumPy is replaced by another one.

    As for `falcon.matmul`, errors are bounded by norms, not entry by entry, and overflow shows in
    the result without a warning. Where np.errstate asks for more than a warning ("raise", "call",
    "print", "log"), products of floats stay with NumPy.

    Examples
    --------
    >>> import falcon, numpy as np
    >>> a = np.ones((300, 300))
    >>> with falcon.accelerate(quiet=True):
    ...     c = a @ a
    """
    check_switch("on", on)
    error = check_error("error", error)
    if error is not None and inherit:
        raise TypeError("inherit passes on falcon.set_config(error=...), not the error of a call")
    checks = on and check_choice(("wrap", "raise"), "overflow", overflow) == "raise"
    state: _State = "raise" if checks else on, error
    for name in options:
        known = "its options are on, quiet, inherit, overflow and error"
        if name in FIELDS:
            known = f"settings hold here: falcon.set_config({name}=...), in a block falcon.config"
        raise TypeError(f"accelerate takes no {name!r}; {known}")
    if _loops is None:
        raise RuntimeError(
            "falcon.accelerate needs a compiled part that was not built here; see "
            "falcon.show_config()"
        )
    switch = Switch(state, quiet)
    try:
        switch.put()
        if inherit:
            _inherit(state[0])
        return switch
    except BaseException:
        insist(switch.undo)
        raise


def load_ipython_extension(_shell: object) -> None:
    """Let NumPy's products run on falcon: ``%load_ext falcon``."""
    accelerate()


def unload_ipython_extension(_shell: object) -> None:
    """Put NumPy's own back: ``%unload_ext falcon``."""
    accelerate(on=False)


def is_on() -> bool:
    """Whether NumPy's products run on falcon now."""
    return bool(_now and _now[0])


def _inherit(on: bool | str) -> None:
    """Change the environment of child processes."""
    paths = [x for x in os.environ.get("PYTHONPATH", "").split(os.pathsep) if x and x != _SITE]
    variable = "1" if on is True else on or ""
    values = {_VARIABLE: variable, "PYTHONPATH": os.pathsep.join([_SITE] * bool(on) + paths)}
    values["FALCON_SETTINGS"] = ""
    for name, value in values.items():
        os.environ.pop(name, None)
        if value:
            os.environ[name] = value
    if on:
        tell_children()


@forgetful  # no array owns the memory of the operands, which NumPy frees
def _product(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> Any:
    if a.dtype.kind in "iu":
        return matmul(a, b, out, **_of_integers)
    if _of_integers and min(*a.shape[-2:], b.shape[-1]) < limits_of_loops()[0]:
        return NotImplemented  # only products of integers are asked for
    if a.dtype.kind in "fc":
        if not _NOT_ASKED.issuperset(np.geterr().values()):
            return NotImplemented
        if is_hermitian(a, b):  # as BLAS's loops leave it
            return _as_named(gram, a, transpose=True, out=out)
    return _as_named(matmul, a, b, out)


def _as_named(multiply: Callable[..., Any], *operands: Any, **how: Any) -> Any:
    """Multiply with the error of a switch as a setting, which holds for what can keep it."""
    if _error is None or settings().error is not None:
        return multiply(*operands, **how)
    with config(error=_error):
        return multiply(*operands, **how)


def _missed(subscripts: Any, seconds: float) -> None:
    for told in observe.of_misses:
        told(subscripts, seconds)


def _settle() -> None:
    """Let the last call that no block can take back stand for all before it."""
    global _base
    for i in reversed(range(len(_calls))):
        call, state = _calls[i]
        if call() is None:
            _base = state
            del _calls[: i + 1]
            return


def _update(quiet: bool) -> None:
    """Bring NumPy into the state that calls and blocks ask for."""
    global _now, _was_told, _of_integers, _error
    wanted = next(reversed(_blocks.values()), _calls[-1][1] if _calls else _base)
    if wanted == _now:
        return
    on, named = wanted
    if on:
        keep_original(_loops.original)
        _now = None
        try:
            checks = on == "raise"
            thinnest, smallest, batch = limits_of_loops()
            thinnest, least = (0, 0.0) if checks else (thinnest, _LEAST_OF_LOOPS)
            einsum = getattr(inspect.unwrap(np.einsum), "__globals__", {}).get("c_einsum")
            to = _product, _missed
            _loops.replace(np.matmul, np.dot, einsum, *to, thinnest, smallest, least, batch)
            _of_integers = {"overflow": "raise"} if checks else {}
            _error = named
        except RuntimeError as error:
            _now = False, None
            raise RuntimeError(f"NumPy {np.__version__} is left alone: {error}") from None
    else:
        _loops.restore(np.matmul)
    _now = wanted
    if on and not quiet and not _was_told:
        _was_told = True
        lines = ["NumPy's matrix products run on falcon (off: falcon.accelerate(on=False))"]
        with suppress(Exception):  # where settings allow no such product, those that come say so
            growth = plan((_TOLD, _TOLD), (_TOLD, _TOLD), "float64").growth
            lines += [f"entries may err by {named} of the norms"] * (named is not None)
            lines += [
                f"it costs accuracy: the error of a {_TOLD} x {_TOLD} float64 product grows "
                f"{growth:.1f} times (FALCON_MAX_GROWTH=2 or falcon.set_config(max_growth=2.0) "
                "bounds it)"
            ] * (growth > 1 and named is None)
        print(*(f"falcon: {x}" for x in lines), sep="\n", file=sys.stderr)
