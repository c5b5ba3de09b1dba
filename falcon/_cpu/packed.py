"""`Payload`: the CPU engine's packed B, which can be pickled."""

from __future__ import annotations

import numpy as np

from falcon.schemes import Scheme

from . import _core
from .programs import engine_scheme


class Payload:
    """Panels of B, or of its sums, for one instruction set.

    Attributes
    ----------
    engine : _core.PackedB
    scheme : Scheme or None
    isa : str
    nbytes : int
    """

    def __init__(self, engine: _core.PackedB, scheme: Scheme | None) -> None:
        self.engine = engine
        self.scheme = scheme
        self.isa = engine.isa
        self.nbytes = engine.nbytes

    @classmethod
    def of(cls, b: np.ndarray, scheme: Scheme | None, threads: int, isa: str) -> Payload:
        """Pack a matrix."""
        engine = _core.pack_b(b, isa=isa, scheme=engine_scheme(scheme), threads=threads)
        return cls(engine, scheme)

    def __reduce__(self) -> tuple:
        p = self.engine
        sizes = (p.K, p.N, p.dtype, p.isa, p.kb, p.nb, p.kc)
        return _restored, (sizes, self.scheme, bytes(p.memory))


def _restored(sizes: tuple, scheme: Scheme | None, data: bytes) -> Payload:
    K, N, dtype, isa, kb, nb, kc = sizes
    engine = _core.PackedB(K, N, dtype, isa, engine_scheme(scheme), kb, nb, kc, data=data)
    return Payload(engine, scheme)
