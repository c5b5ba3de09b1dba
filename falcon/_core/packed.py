"""`PackedOperand`: B combined and packed once, for many products with the same weights."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Protocol

import numpy as np

from falcon.schemes import Scheme

from .spread import Scaling

_log = logging.getLogger("falcon")


class Payload(Protocol):
    """A backend's packed data of B.

    A pickled payload holds what its layout depends on. When it is loaded, it checks whether this
    process would pack B in the same way; if not, `PackedOperand` packs `source` again, or refuses.
    """

    @property
    def nbytes(self) -> int:
        """Bytes held."""

    @property
    def stale(self) -> str | None:
        """Return why this process cannot use the loaded data; None if it can."""

    def remade(self, source: np.ndarray) -> Payload:
        """Return a payload packed from `source`, which is B in the dtype of the arithmetic."""


@dataclass(frozen=True, eq=False)
class PackedOperand:
    """The right operand of many products, prepared by `falcon.pack`.

    Depends on B, the scheme and the machine's instruction set, never on the number of rows of A.
    Can be used from several threads at once, and pickled. A loaded operand is checked: if this
    process would pack B differently (another instruction set or version of falcon), or the panels
    are damaged, `source` is packed again, which is logged at level debug.

    Attributes
    ----------
    shape : (int, int)
        K and N of the matrix that was packed.
    dtype : numpy.dtype
        Of the result.
    scheme : Scheme or None
        The scheme whose sums of B are held; None: B in the layout of the classical kernel.
    backend : str
        The backend that packed it and multiplies it.
    payload : Payload
        The backend's own data.
    source : ndarray or None
        B itself, by reference: needed to redo a product classically after a NaN or Inf in A or an
        overflow, and to pack a loaded operand again. Must not be changed while the packed operand
        is in use. None: not kept.
    scales : object, optional
        The backend's data on the norms of B's columns, to detect badly scaled operands
        (`falcon._core.spread`); None if the scheme was chosen by name.
    column_powers : ndarray of float64, optional
        Powers of two by which columns of different norms were multiplied when they were packed;
        `scales` are those of the multiplied columns. Products are divided by these powers.
    panels : numpy.dtype, optional
        Dtype of the packed B, if it is not `dtype`, and of A (int8 and uint8 go together, too).
    """

    shape: tuple[int, int]
    dtype: np.dtype
    scheme: Scheme | None
    backend: str
    payload: Any
    source: np.ndarray | None
    scales: Any = None
    column_powers: np.ndarray | None = None
    panels: np.dtype | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of the packed data, without `source`."""
        return int(self.payload.nbytes)

    def needed_source(self, what: str) -> np.ndarray:
        """Return `source`; raise ValueError with the reason `what` if it was not kept."""
        if self.source is None:
            raise ValueError(f"b was packed with keep_source=False: {what}")
        return self.source

    def source_to_redo(self, refused: bool = False) -> np.ndarray:
        """Return `source` to redo a product classically after a non-finite value.

        With `refused`, the scheme did not run at all, because the rows of A could not be scaled.
        """
        if refused:
            return self.needed_source(
                "norms of rows of a differ by too much for the scheme that 'auto' chose when b was "
                "packed, or cannot be measured; the product is then classical, with b itself; "
                "nothing was written. Keep the source, or pack for a scheme by name, which runs "
                "whatever the norms"
            )
        return self.needed_source(
            "a NaN or Inf came up (in a or b, or by overflow), and the product is then redone "
            "classically with b itself; out holds no result. Keep the source, or ask for "
            "check='none', with which a NaN or Inf may spread to other entries"
        )

    def is_for(self, scheme: Scheme | None) -> bool:
        """Whether it was packed for `scheme`, or for one with the same coefficients."""
        if scheme is None or self.scheme is None:
            return scheme is self.scheme
        return scheme.same_coefficients(self.scheme)

    def __repr__(self) -> str:
        scheme = "classical" if self.scheme is None else self.scheme.name
        kinds = self.dtype if self.panels is None else f"{self.panels} to {self.dtype}"
        return (
            f"<PackedOperand {self.shape[0]} x {self.shape[1]} {kinds} for {scheme} on "
            f"backend {self.backend}, {self.nbytes / 2**20:.1f} MiB>"
        )

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "checksum": _checksum_of_fields(self.__dict__)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        if state.pop("checksum") != _checksum_of_fields(state):
            raise ValueError(
                "the packed operand is damaged: b or its description differs from what was "
                "stored; load another copy, or pack b again"
            )
        self.__dict__.update(state)
        reason = self.payload.stale
        if reason is None:
            return
        source = self.needed_source(
            f"its {self.shape[0]} x {self.shape[1]} {self.dtype} cannot be used here, nor be made "
            f"again without b itself, because {reason}; pack b in this process, or keep the source"
        )
        _log.debug("falcon: a packed operand is made again: %s", reason)
        kind = self.dtype if self.panels is None else self.panels
        source = Scaling(columns=self.column_powers).of_columns(source, kind)
        self.__dict__["payload"] = self.payload.remade(np.asarray(source, kind))


# Pickles store the public name of the class, so that this file may move.
PackedOperand.__module__ = "falcon"


class ArrayPayload:
    """B as a plain array: it has no machine-dependent layout, so only damage makes it stale.

    Attributes
    ----------
    array : ndarray
    stale : str or None
    """

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.stale: str | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of the array."""
        return self.array.nbytes

    def remade(self, source: np.ndarray) -> ArrayPayload:
        """Return a copy of `source`."""
        return ArrayPayload(np.array(source, order="C"))

    def __getstate__(self) -> dict[str, Any]:
        return {"array": self.array, "checksum": _checksum(_bytes_of(self.array))}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["array"])  # type: ignore[misc]
        if _checksum(_bytes_of(self.array)) != state["checksum"]:
            self.stale = "its copy of B is damaged"


# Rows that are not contiguous are read this many bytes at a time.
_STRIP_BYTES = 2**20


def _checksum_of_fields(fields: dict[str, Any]) -> str:
    """Return a checksum of all fields but scheme and payload, which check themselves."""
    return _checksum(
        part
        for name, value in sorted(fields.items())
        if name not in ("scheme", "payload")
        for part in (name.encode(), *_bytes_of(value))
    )


def _checksum(parts: Any) -> str:
    digest = sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def _bytes_of(value: Any) -> Iterator[Any]:
    """Yield the contents of an array (whatever its strides) or plain value; nothing for others."""
    if not isinstance(value, np.ndarray):
        if isinstance(value, str | bytes | int | float | tuple | np.dtype | None):
            yield repr(value).encode()
        return
    native = value.dtype.newbyteorder("=")  # NumPy loads pickles in native byte order
    yield repr((native.str, value.shape)).encode()
    rows = max(1, _STRIP_BYTES // max(value[:1].nbytes, 1)) if value.ndim else 1
    for start in range(0, len(value) if value.ndim else 1, rows):
        strip = np.ascontiguousarray(value[start : start + rows] if value.ndim else value, native)
        if strip.nbytes:
            yield strip.view(np.uint8).reshape(-1)
