"""Read and write schemes: falcon's JSON and the formats that researchers publish.

docs/reference/files.md lists the formats, docs/reliability.md what a file may hold. Files may be
wrong about W: a loader tries it for C and for C transposed and keeps the one that satisfies the
Brent equations.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from falcon._tools.files import read_file

from . import brent, published, sms
from ._checks import BrentError
from ._coefficients import exact_array
from ._scheme import Scheme, SchemeError
from .records import FORMULAS, MOST_WORK, SUFFIXES, assembled, from_record
from .repair import proving

# Most bytes of a file. JSON takes up to 30 times as many in memory; no published archive has more.
_MOST_TEXT, _MOST_JSON = 2**18, 2**23
_MOST_BYTES = 2**24
_TOO_LARGE = f"{{}}: it has more than {_MOST_JSON} bytes (archives: {_MOST_BYTES})"
_KEY = re.compile(r"\s*(\d{1,3})\s*,\s*(\d{1,3})\s*,\s*(\d{1,3})\s*", re.ASCII)


def load(path: str | PathLike[str], format: tuple[int, int, int] | None = None) -> Scheme:
    """Load the one scheme that a file holds, whichever of the known formats it is in.

    Parameters
    ----------
    path : path
        A file of falcon's own, or in one of the formats that researchers publish; of a scheme in
        three ``.sms`` files one of them.
    format : (m, k, n), optional
        The format that is expected; needed where an .npz file holds several schemes. The others
        are not verified.

    Returns
    -------
    Scheme
        Verified, W oriented for C.

    Raises
    ------
    SchemeError
        The file is no scheme file, is damaged, too large (Notes), has other dimensions, or violates
        a Brent equation (the first one is named).
    OSError
        The file cannot be read.

    Notes
    -----
    Whatever a file holds, reading it takes half a minute and 500 MB at most (docs/reliability.md).

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from falcon.schemes import dump, get, load
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     dump(get("strassen"), Path(folder, "mine.json"))
    ...     load(Path(folder, "mine.json"))
    <Scheme strassen <2,2,2;7>>
    """
    members = _members(Path(path))
    held = ", ".join(str(x.format or "") for x in members)
    if format is not None and any(x.format is not None for x in members):
        members = [x for x in members if x.format == tuple(format)]
    elif len(members) > 1:
        raise SchemeError(f"{path}: {len(members)} schemes ({held}); say which by format=(m, k, n)")
    scheme = members[0].scheme(MOST_WORK) if members else None
    if scheme is None or (format is not None and scheme.format != tuple(format)):
        held = held if scheme is None else str(scheme.format)
        raise SchemeError(f"{path}: no scheme of format {tuple(format or ())}; it holds {held}")
    return scheme


def load_all(path: str | PathLike[str]) -> list[Scheme]:
    """Load every scheme that a file holds; raises as `load` does.

    Examples
    --------
    >>> import tempfile
    >>> from falcon.schemes import dump, get
    >>> with tempfile.NamedTemporaryFile(suffix=".json") as file:
    ...     dump(get("strassen"), file.name)
    ...     load_all(file.name)
    [<Scheme strassen <2,2,2;7>>]
    """
    schemes = []
    for x in load_each(path):
        if isinstance(x, SchemeError):
            raise x
        schemes.append(x)
    return schemes


def load_each(path: str | PathLike[str]) -> Iterator[Scheme | SchemeError]:
    """Yield each scheme of a file, or what is wrong of it; raises as `load` for the whole file."""
    left = MOST_WORK
    for x in _members(Path(path)):
        try:
            made = x.scheme(left)
        except SchemeError as error:
            yield error
        else:
            left -= brent.work(made.U, made.V, made.W)
            yield made


def is_name(text: str) -> bool:
    """Whether a text is the name of a file that `load` reads, not formulas."""
    return "\n" not in text and text.lower().endswith(SUFFIXES)


def factors_of(path: Path) -> tuple[np.ndarray, ...]:
    """Return U, V and W of a file of one scheme, or of what is nearly one; raises as `load`."""
    members = _members(path)
    if len(members) != 1:
        raise SchemeError(f"{path}: {len(members)} schemes; expected one")
    try:
        scheme = members[0].make(MOST_WORK)
    except BrentError as error:
        return error.factors
    except (TypeError, ValueError) as error:
        raise SchemeError(f"{path}: {error}") from None
    return scheme.U, scheme.V, scheme.W


class _Member(NamedTuple):
    """A scheme in a file: its format, if known before it is verified, and what verifies it."""

    where: str
    format: tuple[int, int, int] | None
    make: Callable[[int], Scheme]  # of the most work

    def scheme(self, most_work: int) -> Scheme:
        try:
            return self.make(most_work)
        except (TypeError, ValueError) as error:
            raise SchemeError(f"{self.where}: {error}") from None


def _members(path: Path) -> list[_Member]:
    data = content_of(path)
    if data[:2] == b"PK":
        return _from_npz(data, path)
    suffix, where, source = path.suffix.lower(), str(path), f"file {path.name}"
    if suffix == ".sms" and len(data) <= _MOST_JSON:
        return [_Member(where, None, partial(_from_sms, path))]
    if suffix != ".json" and len(data) <= _MOST_JSON:
        try:
            held = published.of_text(data.decode("utf-8-sig", "replace"))
        except (TypeError, ValueError) as error:
            raise SchemeError(f"{path}: no three matrices of numbers ({error})") from None
        if held is not None:
            return [_Member(where, None, partial(assembled, *held, path.stem, source, True))]
    if suffix in FORMULAS:
        return [_Member(where, None, partial(_from_text, text_of(data, path), path.stem, source))]
    if len(data) > _MOST_JSON:
        raise SchemeError(_TOO_LARGE.format(path))
    try:
        record = json.loads(data)
    except (ValueError, RecursionError) as error:
        why: Any = "binary data" if isinstance(error, UnicodeDecodeError) else error
        why = why if data.strip() else "it is empty"
        raise SchemeError(f"{path}: neither JSON nor an .npz archive ({why})") from None
    return [_Member(where, None, lambda _: from_record(record, path.stem))]


def content_of(path: Path) -> bytes:
    """Read a file, of no more bytes than any scheme file may have; raises as `load`."""
    try:
        return read_file(path, _MOST_BYTES)
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no file {path}") from None
    except ValueError:
        raise SchemeError(_TOO_LARGE.format(path)) from None


def text_of(data: bytes, path: Path) -> str:
    """Return the formulas of a file; raises SchemeError."""
    if len(data) > _MOST_TEXT:
        raise SchemeError(f"{path}: it has more than {_MOST_TEXT} bytes of formulas")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SchemeError(f"{path}: no UTF-8 ({error})") from None


def dump(scheme: Scheme, path: str | PathLike[str]) -> None:
    """Write a scheme as `Scheme.save` does; in JSON fractions become strings such as ``"1/2"``.

    `load` returns an equal scheme, except for a composition: it is written as flat coefficients,
    whose sums are then searched again.

    Examples
    --------
    >>> import tempfile
    >>> from falcon.schemes import get
    >>> with tempfile.NamedTemporaryFile(suffix=".json") as file:
    ...     dump(get("strassen"), file.name)
    ...     load(file.name)
    <Scheme strassen <2,2,2;7>>
    """
    scheme.save(path)


def _from_npz(data: bytes, path: Path) -> list[_Member]:
    # Object arrays are pickles: only NumPy arrays are unpickled, nothing in the file is trusted.
    from ._unpickle import load_object_arrays

    try:
        entries = load_object_arrays(BytesIO(data))
    except Exception as error:  # whatever a damaged archive or pickle may raise
        raise SchemeError(f"{path}: a damaged or foreign .npz archive ({error})") from None
    if not entries:
        raise SchemeError(f"{path}: the archive is empty")
    if entries.keys() == {"U", "V", "W"}:  # of np.savez(path, U=..., V=..., W=...)
        rows = [np.asarray(entries[x]) for x in "UVW"]
        made = partial(assembled, None, None, rows, path.stem, f"file {path.name}", False)
        return [_Member(str(path), None, made)]
    members = []
    for key, factors in entries.items():
        where = f"{path}[{key!r}]"
        match = _KEY.fullmatch(key)
        if not match:
            raise SchemeError(f'{where}: expected a key such as "4,4,5", or U, V and W')
        if len(factors) != 3 or any(np.ndim(x) != 2 for x in factors):
            raise SchemeError(f"{where}: expected three arrays of shape (entries, R)")
        m, k, n = (int(size) for size in match.groups())
        rows = [np.asarray(x).T for x in factors]
        name = f"{m}x{k}x{n}:{rows[0].shape[0]}-{path.stem}"
        about = [m, k, n], None, rows, name, f"file {path.name}", True
        members.append(_Member(where, (m, k, n), partial(assembled, *about)))
    return members


def _from_sms(path: Path, most_work: int) -> Scheme:
    name, rows = sms.factors(path)
    return assembled(None, None, rows, name, f"file {path.name}", False, most_work)


def _from_text(text: str, name: str, source: str, most_work: int) -> Scheme:
    with proving(text) as (U, V, W):
        brent.check_work("it", brent.work(*map(exact_array, (U, V, W), "UVW")), most_work)
        return Scheme(U, V, W, name, source=source)
