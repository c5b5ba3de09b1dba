"""New schemes from old ones: symmetries, direct sums, the classical algorithm."""

from __future__ import annotations

import numpy as np

from ._scheme import Scheme
from .additions import Pair


def classical(m: int, k: int, n: int) -> Scheme:
    """Return the classical algorithm as a scheme of rank m*k*n.

    Examples
    --------
    >>> classical(2, 3, 4).rank
    24
    """
    rank = m * k * n
    i, l, j = (x.ravel() for x in np.indices((m, k, n)))
    r = np.arange(rank)
    U = np.zeros((rank, m, k), np.int64)
    V = np.zeros((rank, k, n), np.int64)
    W = np.zeros((rank, m, n), np.int64)
    U[r, i, l] = V[r, l, j] = W[r, i, j] = 1
    return Scheme(U, V, W, f"{m}x{k}x{n}:{rank}", source="definition of the matrix product")


def compose(outer: Scheme, inner: Scheme) -> Scheme:
    """Two levels as one flat scheme, ``outer @ inner``: the Kronecker product of the factors.

    Raises
    ------
    ValueError
        The composition would be too large to be verified.

    Examples
    --------
    >>> import falcon
    >>> strassen = falcon.schemes.get("strassen")
    >>> compose(strassen, strassen)
    <Scheme strassen@strassen <4,4,4;49>>
    """
    return outer @ inner


def cyclic(scheme: Scheme) -> Scheme:
    """Turn <m,k,n> into <k,n,m>: the trace of ABC does not change when the factors rotate.

    Examples
    --------
    >>> cyclic(classical(2, 3, 4)).format
    (3, 4, 2)
    """
    return _moved(scheme, ("V", False), ("W", True), ("U", True))


def transposed(scheme: Scheme) -> Scheme:
    """Turn <m,k,n> into <n,k,m>, because the transpose of AB is B'A'.

    Examples
    --------
    >>> transposed(classical(2, 3, 4)).format
    (4, 3, 2)
    """
    return _moved(scheme, ("V", True), ("U", True), ("W", True))


def symmetries(scheme: Scheme) -> list[Scheme]:
    """All six images of a scheme under rotation and transposition, the scheme itself first.

    Examples
    --------
    >>> [x.format for x in symmetries(classical(1, 2, 3))]
    [(1, 2, 3), (2, 3, 1), (3, 1, 2), (3, 2, 1), (1, 3, 2), (2, 1, 3)]
    """
    rotated = [scheme, cyclic(scheme)]
    rotated.append(cyclic(rotated[1]))
    return rotated + [transposed(x) for x in rotated]


def symmetry(scheme: Scheme, number: int) -> Scheme:
    """Return one of the images that `symmetries` lists."""
    for _ in range(number % 3):
        scheme = cyclic(scheme)
    return transposed(scheme) if number >= 3 else scheme


def formats(m: int, k: int, n: int) -> list[tuple[int, int, int]]:
    """Return the formats of the images of a scheme <m,k,n>, in the order of `symmetries`."""
    return [(m, k, n), (k, n, m), (n, m, k), (n, k, m), (m, n, k), (k, m, n)]


def permuted(scheme: Scheme, m: int, k: int, n: int) -> Scheme:
    """Return the image of `scheme` that has the format (m, k, n).

    Raises
    ------
    ValueError
        (m, k, n) is not a permutation of the scheme's format.

    Examples
    --------
    >>> import falcon
    >>> permuted(falcon.schemes.get("3x4x4:38"), 4, 3, 4).name
    '4x3x4:38'
    """
    images = formats(*scheme.format)
    if (m, k, n) not in images:
        raise ValueError(f"{scheme!r} has no permutation of the format {(m, k, n)}")
    return symmetry(scheme, images.index((m, k, n)))


def direct_sum(first: Scheme, second: Scheme, axis: str) -> Scheme:
    """Cut one dimension in two parts and use a scheme for each.

    Parameters
    ----------
    first, second : Scheme
        Equal in the two dimensions other than `axis`.
    axis : {"m", "k", "n"}
        The dimension that is cut: <m1,k,n> + <m2,k,n> gives <m1+m2,k,n>.

    Examples
    --------
    >>> import falcon
    >>> strassen = falcon.schemes.get("strassen")
    >>> direct_sum(strassen, classical(2, 2, 1), "n")
    <Scheme (strassen+n+2x2x1:4) <2,2,3;11>>
    """
    if axis not in ("m", "k", "n"):
        raise ValueError(f"axis is {axis!r}; expected 'm', 'k' or 'n'")
    for name in {"m", "k", "n"} - {axis}:
        if getattr(first, name) != getattr(second, name):
            raise ValueError(f"{first!r} and {second!r} differ in {name}; cut along it instead")
    factors = []
    for factor, axes in (("U", "mk"), ("V", "kn"), ("W", "mn")):
        x, y = getattr(first, factor), getattr(second, factor)
        offset = [size if name == axis else 0 for name, size in zip(axes, x.shape[1:], strict=True)]
        whole = np.zeros(
            (x.shape[0] + y.shape[0], y.shape[1] + offset[0], y.shape[2] + offset[1]),
            object if object in (x.dtype, y.dtype) else np.int64,
        )
        whole[: x.shape[0], : x.shape[1], : x.shape[2]] = x
        whole[x.shape[0] :, offset[0] :, offset[1] :] = y
        factors.append(whole)
    U, V, W = factors
    source = f"direct sum of {first.name} and {second.name} along {axis}"
    name = f"({first.name}+{axis}+{second.name})"
    return Scheme(U, V, W, name, source=source, levels=max(first.levels, second.levels))


# Which factor of a scheme to take, and whether its blocks are to be transposed.
_From = tuple[str, bool]


def _moved(scheme: Scheme, u: _From, v: _From, w: _From) -> Scheme:
    """Return the image whose U, V and W are these factors; their sums are carried over."""
    factors: list[np.ndarray] = []
    sums: dict[str, tuple[Pair, ...]] = {}
    for new, (old, flipped) in zip("UVW", (u, v, w), strict=True):
        x = getattr(scheme, old)
        factors.append(x.transpose(0, 2, 1) if flipped else x)
        if old in scheme._programs:
            # Products keep their order: only the inputs have new numbers.
            places = np.arange(x[0].size)
            if flipped:
                places = places.reshape(x.shape[:0:-1]).T.ravel()
            sums[new] = scheme._programs[old].with_inputs(places.tolist()).temporaries
    U, V, W = factors
    name = _renamed(scheme, (U.shape[1], U.shape[2], V.shape[2]))
    return Scheme(
        *(U, V, W, name),
        source=scheme.source,
        kind=scheme.kind,
        levels=scheme.levels,
        sums=sums or None,
    )


def _renamed(scheme: Scheme, new: tuple[int, int, int]) -> str:
    """Return the image's name: its format replaces that in a catalogue name, or is appended."""
    if new == scheme.format:
        return scheme.name
    old = "x".join(map(str, scheme.format))
    head = "x".join(map(str, new))
    if scheme.name.startswith(f"{old}:"):
        return head + scheme.name[len(old) :]
    base = scheme.name.removesuffix(f"[{old}]")
    if "@" in base and not base.startswith("("):
        base = f"({base})"  # the format is that of the whole
    return f"{base}[{head}]"
