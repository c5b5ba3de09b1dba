"""Pictures of a scheme: the coefficients of each product, and of C, as coloured grids."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Blue and orange, which the colour-blind tell apart; between them grey for 0.
_COLOURS = ("#0072b2", "#f0f0f0", "#e69f00")
# Grids in a row of the figure; coefficients are written into grids of at most so many.
_PER_ROW, _WRITTEN = 12, 25


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure, in inches, which notebooks show without ``%matplotlib inline``.

    Raises
    ------
    ImportError
        matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("drawing needs matplotlib: pip install matplotlib") from error

    class Shown(Figure):
        def _repr_png_(self) -> bytes:
            drawn = io.BytesIO()
            self.savefig(drawn, format="png")
            return drawn.getvalue()

    return Shown((width, height), layout="constrained")


def draw(scheme: Any, products: Sequence[int] | None = None) -> Figure:
    """Return a picture: for each product the coefficients of A, B and C as coloured grids.

    Blue is negative, orange positive, grey zero. Numbers are written if no grid has more than
    25 entries.

    Parameters
    ----------
    products : sequence of int, optional
        Those that are drawn, h1 being 1: all, or ``range(1, 20)`` for a slide.

    Returns
    -------
    matplotlib.figure.Figure
        ``figure.savefig("scheme.svg")`` writes it; notebooks show it.

    Raises
    ------
    ImportError
        matplotlib is not installed.
    ValueError
        The scheme has no such product.
    """
    shown = range(1, scheme.rank + 1) if products is None else products
    if isinstance(shown, str) or not shown or min(shown) < 1 or max(shown) > scheme.rank:
        raise ValueError(f"products is {products!r}; expected numbers from 1 to {scheme.rank}")
    factors = [np.asarray(x, float) for x in (scheme.U, scheme.V, scheme.W)]
    most = max(abs(x).max() for x in factors)
    is_written = max(x[0].size for x in factors) <= _WRITTEN
    across = min(len(shown), _PER_ROW)
    lines = -(-len(shown) // across)
    shape = sum(x.shape[1] for x in factors) / max(x.shape[2] for x in factors)
    figure = new_figure(0.9 * across + 0.6, lines * (0.75 * shape + 0.6))
    from matplotlib.colors import LinearSegmentedColormap

    colours = LinearSegmentedColormap.from_list("falcon", _COLOURS)
    figure.suptitle(
        f"{scheme.name} <{scheme._signature}>: coefficients of A, B and C in each product",
        fontsize=10,
    )
    heights = [y for _ in range(lines) for y in (x.shape[1] for x in factors)]
    grid = figure.subplots(3 * lines, across, squeeze=False, height_ratios=heights)
    for axes in grid.flat:
        axes.set_axis_off()
    for at, r in enumerate(shown):
        line, column = divmod(at, across)
        for i, (name, factor) in enumerate(zip("ABC", factors, strict=True)):
            axes, values = grid[3 * line + i, column], factor[r - 1]
            _grid(axes, values, most, colours, is_written)
            if i == 0:
                axes.set_title(f"h{r}", fontsize=9)
            if column == 0:
                axes.set_ylabel(name, rotation=0, ha="right", va="center")
    return figure


def _grid(axes: Any, values: np.ndarray, most: float, colours: Any, is_written: bool) -> None:
    """Draw a matrix of coefficients."""
    rows, columns = values.shape
    axes.set_axis_on()
    axes.imshow(values, cmap=colours, vmin=-most, vmax=most, aspect="equal")
    axes.set(xticks=np.arange(columns + 1) - 0.5, yticks=np.arange(rows + 1) - 0.5)
    axes.tick_params(length=0, labelbottom=False, labelleft=False)
    axes.grid(color="white", linewidth=1)
    axes.spines[:].set(visible=True, color="black", linewidth=0.8)  # whatever the style in use
    for (i, j), x in np.ndenumerate(values):
        if x and is_written:
            axes.text(j, i, f"{x:+.3g}", ha="center", va="center", fontsize=7,
                      color="white" if x < 0 else "black")  # fmt: skip
