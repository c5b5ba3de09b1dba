"""`Payload`: the CPU engine's packed B, which can be pickled."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any, cast

import numpy as np

from falcon._core.dtypes import of
from falcon._core.options import thread_count
from falcon.schemes import Scheme

from .extension import isa, seen, why_unavailable

try:
    from . import _core
    from .programs import engine_form, engine_scheme
except ImportError:  # a pickle may come to a machine where the extension was not built
    _core = None  # type: ignore[assignment]

# To be raised when the engine (`src/`) changes the order, padding or alignment of panels, which
# nothing else in the fingerprint covers.
LAYOUT = 1

# K, N, dtype, isa, kb, nb, kc: what the sizes of the panels depend on.
Sizes = tuple[int, int, str, str, int, int, int]


class Payload:
    """Panels of B, or of its sums, for one instruction set.

    Attributes
    ----------
    engine : _core.PackedB
    scheme : Scheme or None
    isa : str
    nbytes : int
    """

    stale: str | None = None

    def __init__(self, engine: _core.PackedB, scheme: Scheme | None) -> None:
        self.engine = engine
        self.scheme = scheme
        self.isa = engine.isa
        self.nbytes = engine.nbytes

    @classmethod
    def of(cls, b: np.ndarray, scheme: Scheme | None, threads: int, isa: str) -> Payload:
        """Pack a matrix."""
        b = seen(b, of(b.dtype))
        engine = _core.pack_b(b, isa=isa, scheme=engine_scheme(scheme), threads=threads)
        return cls(engine, scheme)

    def remade(self, source: np.ndarray) -> Payload:
        """Return B packed as this process does it."""
        return _packed_here(source, self.scheme)

    @property
    def sizes(self) -> Sizes:
        """What the sizes of the panels depend on."""
        p = self.engine
        return p.K, p.N, p.dtype, p.isa, p.kb, p.nb, p.kc

    @property
    def fingerprint(self) -> str:
        """Digest of all that the layout of the panels depends on."""
        return _fingerprint(self.sizes, self.scheme)

    def __reduce__(self) -> tuple:
        data, fingerprint = bytes(self.engine.memory), self.fingerprint
        checksum = _checksum(self.sizes, data, fingerprint)
        return _restored, (self.sizes, self.scheme, data, fingerprint, checksum)


class Unusable:
    """A payload that was loaded but cannot be used here: `stale` says why.

    Attributes
    ----------
    stale : str
    scheme : Scheme or None
    nbytes : int
    """

    nbytes = 0

    def __init__(self, stale: str, scheme: Scheme | None) -> None:
        self.stale = stale
        self.scheme = scheme

    def remade(self, source: np.ndarray) -> Payload:
        """Return B packed as this process does it."""
        return _packed_here(source, self.scheme)


def _packed_here(source: np.ndarray, scheme: Scheme | None) -> Payload:
    reason = why_unavailable()
    if reason is not None:
        raise ValueError(
            f"b was packed for backend 'cpu', which is not available here: {reason}; pack b again "
            "for another backend"
        )
    return Payload.of(np.ascontiguousarray(source), scheme, thread_count(), isa())


def _restored(
    sizes: Sizes,
    scheme: Scheme | None,
    data: bytes,
    fingerprint: str,
    checksum: str,
) -> Payload | Unusable:
    """Load a payload, if its panels are what this process would have made of B."""
    reason = _why_stale(sizes, scheme, data, fingerprint, checksum)
    if reason is not None:
        return Unusable(reason, scheme)
    K, N, dtype, isa, kb, nb, kc = sizes
    engine = _core.PackedB(K, N, dtype, isa, engine_scheme(scheme), kb, nb, kc, data=data)
    return Payload(engine, scheme)


def _why_stale(
    sizes: Sizes,
    scheme: Scheme | None,
    data: bytes,
    fingerprint: str,
    checksum: str,
) -> str | None:
    """Return why stored panels cannot be used in this process; None where they can."""
    if checksum != _checksum(sizes, data, fingerprint):
        return "its panels are damaged"
    unavailable = why_unavailable()
    if unavailable is not None:
        return f"backend 'cpu' is not available ({unavailable})"
    used = _core.kernel_info(sizes[2], isa())["isa"]
    if sizes[3] != used:
        return f"its panels are for the instruction set {sizes[3]}; this process uses {used}"
    if fingerprint != _fingerprint(sizes, scheme):
        return "its panels have another layout than in this version of falcon"
    return None


def _fingerprint(sizes: Sizes, scheme: Scheme | None) -> str:
    """Digest the layout's version, the kernel, the sizes, and the scheme as the engine runs it."""
    _, _, dtype, isa, *_ = sizes
    classical = scheme is None or engine_scheme(scheme) is None
    form = None if classical else engine_form(cast(Scheme, scheme))
    known = _core.kernel_info(dtype, isa)
    kernel = {x: known[x] for x in ("name", "isa", "mr", "nr", "vlen", "kr", "kc")}
    found: list[Any] = [LAYOUT, sizes, kernel, form]
    return sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()


def _checksum(sizes: Sizes, data: bytes, fingerprint: str) -> str:
    """Digest what was stored, to notice a damaged file."""
    digest = sha256(repr((sizes, fingerprint)).encode())
    digest.update(data)
    return digest.hexdigest()
