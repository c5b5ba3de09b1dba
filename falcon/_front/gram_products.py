"""The products of `gram`: one triangle, or several products, real ones or of weighted panels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from falcon._backends import host_engine
from falcon._core.dtypes import FLOAT32, DType, dtype_of
from falcon._core.options import Options
from falcon._core.problem import Problem
from falcon._core.symmetric import copy_triangle, mirror
from falcon._numpy.classical import store

from .adapters import Adapter
from .buffers import without
from .execute import Product, multiply

# Complex matrices of so few rows, or so few products M^2 K, are multiplied as any others: then half
# of the operations is less than the passes over C between real products (Zen 4, 2 threads: equal
# at K = 60 to 100 for M = 1000, and at M = K = 180 to 300).
FEW_ROWS, FEW_PRODUCTS = 64, 8e6
STRIP = 128  # rows that are mirrored at a time
_PANEL = 2**20  # elements of x that are copied with their weights at a time


@dataclass(frozen=True, slots=True)
class Products:
    """What is the same for all matrices of a batch."""

    adapter: Adapter
    dtype: DType
    options: Options
    alpha: Any
    beta: Any
    symmetric: str
    transpose: bool
    hermitian: bool
    weights: np.ndarray | None = None  # of one matrix, contiguous, of the real type of `summed`

    @property
    def summed(self) -> DType:
        """The type of sums of weighted panels."""
        is_half = self.dtype.itemsize < 4 and not self.dtype.is_exact
        return FLOAT32 if is_half else self.dtype

    def weighing(self) -> Options | None:
        """Return the options of products that the engine weighs; None: they are of panels."""
        options, engine = self.options, host_engine()
        plain = options.arithmetic in ("auto", "native") and options.check != "verify"
        plain = plain and options.scheme in ("auto", "classical") and not options.centre
        able = plain and not engine.is_library and options.backend in ("auto", engine.name)
        problem = Problem(1, 1, 1, self.dtype.part or self.dtype, weighted=True)
        if not able or engine.why_not(problem) is not None:
            return None
        arithmetic = "native" if options.error is None else options.arithmetic
        return replace(options, backend=engine.name, scheme="classical", arithmetic=arithmetic)

    def multiply_all(
        self, x: np.ndarray, c: np.ndarray | None, out: np.ndarray, weights: Any
    ) -> None:
        """Multiply a matrix, or a batch, with weights of each or None."""
        if weights is not None:
            weights = np.array(weights, (self.summed.part or self.summed).numpy, order="C")
        whole = self.is_small(x) or not self.dtype.is_complex
        if (whole and weights is None) or self.alpha == 0:
            self.multiply(x, c, out)
            return
        for at in np.ndindex(*out.shape[:-2]):
            one = self if weights is None else replace(self, weights=weights[at])
            one.multiply(x[at], None if c is None else c[at], out[at])

    def multiply(self, x: np.ndarray, c: np.ndarray | None, out: np.ndarray) -> None:
        if self.dtype.is_complex and self.adapter.device is not None:
            self._on_device(x, c, out)
            return
        options = self.options if self.weights is None else self.weighing()
        if (self.dtype.is_complex or options is None) and self.alpha != 0:
            self._of_several(x, c, out, options)
            return
        options = options or self.options
        across = x.swapaxes(-1, -2)
        a, b = (x, across) if self.transpose else (across, x)
        whole = Product(
            *(self.adapter, a, b, c, out, self.dtype, self.dtype, options),
            *(self.alpha, self.beta),
            symmetric=self.symmetric,
            weights=self.weights,
        )
        elsewhere = self.options.check == "verify" or a.shape[-1] == 0 or self.alpha == 0
        if self.symmetric == "full" or not elsewhere:
            multiply(whole)
            return
        # Freivalds' test, and beta * c alone, need all of C.
        options = without(options, out.shape, self.dtype)
        full = self.adapter.empty(out.shape, self.dtype)
        multiply(replace(whole, out=full, options=options, symmetric="full"))
        copy_triangle(full, out, self.symmetric)

    def _on_device(self, x: Any, c: Any, out: Any) -> None:
        """Multiply complex matrices in GPU memory as any others."""
        across = x.swapaxes(-1, -2)
        turned = self.adapter.array("x", across.conj()) if self.hermitian else across
        a, b = (x, turned) if self.transpose else (turned, x)
        types, factors = (self.dtype, self.dtype), (self.alpha, self.beta)
        made = Product(self.adapter, a, b, c, out, *types, self.options, *factors)
        multiply(replace(made, symmetric=self.symmetric))

    def _of_several(
        self, x: np.ndarray, c: np.ndarray | None, out: np.ndarray, given: Options | None
    ) -> None:
        """Add up several products: real ones, by options `given`, or those of weighted panels."""
        kind, options = self.summed, self.options if given is None else given
        if given is not None:
            x = x if x.dtype == kind.numpy else x.astype(kind.numpy)
            options = without(options, out.shape, dtype_of(x.real.dtype))  # for P'Q
        written, *read = (self.adapter.matrix(y) for y in (out, x, c) if y is not None)
        overlaps = any(written.overlaps(y) for y in read)
        if self.symmetric == "full" and written.holds(kind) and not overlaps:
            full = out
        else:
            options = without(options, out.shape, kind)
            full = np.empty(out.shape, kind.numpy)
        if given is None:
            self._by_panels(x, full, options)
        elif self.is_small(x) and self.weights is None:
            self._by_complex(x, full)
        else:
            self._by_real(x, full, options)
        with np.errstate(all="ignore"):
            if self.alpha != 1:
                np.multiply(full, self.alpha, out=full)
            store(full, c, self.beta, out, self.symmetric)

    def is_small(self, x: np.ndarray) -> bool:
        """Whether complex matrices are so small that one complex product is the faster way."""
        options, (K, M) = self.options, x.shape[-2:][:: -1 if self.transpose else 1]
        if not self.dtype.is_complex or self.alpha == 0 or 0 in x.shape:
            return False
        able = options.scheme in ("auto", "classical") and options.check != "verify"
        able = able and options.workspace_limit is options.modulus is None
        return able and (K <= FEW_ROWS or M * M * K <= FEW_PRODUCTS)

    def _by_complex(self, x: np.ndarray, out: np.ndarray) -> None:
        """Multiply as any other matrices, and copy one triangle to the other."""
        across = x.swapaxes(-1, -2)
        turned = across.conj() if self.hermitian else across
        a, b = (x, turned) if self.transpose else (turned, x)
        multiply(Product(self.adapter, a, b, None, out, self.dtype, self.dtype, self.options))
        mirror(out, self.hermitian)

    def _by_panels(self, x: np.ndarray, out: np.ndarray, options: Options) -> None:
        """Multiply panels of `x`, and add up; a panel that has weights is a copy."""
        rows, kind, weights = x.T if self.transpose else x, dtype_of(out.dtype), self.weights
        steps = max(STRIP, _PANEL // max(len(out), 1))
        options = without(options, (2 * min(steps, len(rows)), len(out)), kind)
        assert weights is not None  # for type checkers
        out[...] = 0
        for start in range(0, len(rows), steps):
            some = slice(start, start + steps)
            part = rows[some].astype(kind.numpy, copy=False)
            with np.errstate(all="ignore"):
                b = weights[some, None] * part
            if self.hermitian and self.transpose:
                np.conjugate(b, out=b)
            a = part.conj().T if self.hermitian and not self.transpose else part.T
            multiply(Product(self.adapter, a, b, out, out, kind, kind, options, 1, 1))
        mirror(out, self.hermitian)

    def _by_real(self, x: np.ndarray, full: np.ndarray, options: Options) -> None:
        """Compute P'P + Q'Q and P'Q - Q'P for x = P + iQ; unconjugated: P'P - Q'Q, P'Q + Q'P."""
        kind = dtype_of(x.real.dtype)
        real = replace(self, dtype=kind, options=options, alpha=1, beta=0, symmetric="full")
        real.multiply(x.real, None, full.real)
        sign = 1 if self.hermitian else -1
        replace(real, alpha=sign, beta=1).multiply(x.imag, full.real, full.real)
        a, b = (x.real, x.imag.T) if self.transpose else (x.real.T, x.imag)
        mixed = self.adapter.empty(full.shape, kind)
        mix = Product(self.adapter, a, b, None, mixed, kind, kind, options, weights=self.weights)
        multiply(mix)
        with np.errstate(all="ignore"):
            if not self.hermitian:
                np.add(mixed, mixed.T, out=full.imag)
            elif self.transpose:
                np.subtract(mixed.T, mixed, out=full.imag)
            else:
                np.subtract(mixed, mixed.T, out=full.imag)
