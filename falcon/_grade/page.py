"""The page of grades: one HTML file, without scripts, that needs no other file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from string import Template

import numpy as np

from .grade import LETTERS, Grade


def page(grades: Iterable[Grade]) -> str:
    """Return the page: of each grade the letter, the table, and three plots."""
    template = Template((files(__package__) / "template.html").read_text("utf-8"))
    legend = "; ".join(f"{letter}: {text}" for letter, text in LETTERS.items())
    return template.substitute(grades="\n".join(map(_section, grades)), legend=legend)


def _section(x: Grade) -> str:
    head = f"<h1><b class={x.letter}>{x.letter}</b>{escape(x.of)}</h1>"
    head += f"<p>{escape(x.name)} ({x.dtype}, n = {x.size})"
    rows = (f"<tr><td>{y.letter}<td>{escape(y.what)}<i>{escape(y.found)}</i><td>{y.meaning}"
            for y in x.findings)  # fmt: skip
    plots = {
        "RMS error against K": _curves([k for k, *_ in x.curve], [y[1:] for y in x.curve]),
        "Errors of entries, sorted": _curves(range(1, len(x.entries) + 1), x.entries),
        "Errors beside a large diagonal: blocks of a fast algorithm": _squares(x.picture),
    }
    figures = (f'<figure><figcaption>{text}</figcaption><svg viewBox="0 0 320 170">{plot}</svg>'
               "</figure>" for text, plot in plots.items() if plot)  # fmt: skip
    return f"<section>{head}<table>{''.join(rows)}</table><div>{''.join(figures)}</div></section>"


def _curves(steps: Sequence[float], pairs: Sequence[tuple[float, ...]]) -> str:
    """Plot this product's errors and NumPy's, by logarithms."""
    if not steps:
        return ""
    y = np.log10(np.clip(np.array(pairs), 1e-4, 1e12))
    low, high = np.floor(y.min()), np.ceil(y.max())
    text = f'<text y="16">{10.0**high:g}</text><text y="148">{10.0**low:g}</text>'
    text += f'<text x="44" y="166">{steps[0]:.0f}</text>'
    text += f'<text x="316" y="166" text-anchor="end">{steps[-1]:.0f}</text>'
    across = np.linspace(44, 316, len(steps))
    for name, line in zip("ab", y.T, strict=True):
        at = zip(across, 148 - 136 * (line - low) / max(high - low, 1), strict=True)
        points = " ".join(f"{i:.1f},{j:.1f}" for i, j in at)
        text += f'<polyline class="{name}" points="{points}"/>'
    return f'{text}<path class="axis" d="M44 8V148H316"/>'


def _squares(picture: list[list[float]]) -> str:
    """Plot errors, darker where they are larger."""
    errors, text = np.array(picture), '<path class="axis" d="M80 4h160v160h-160z"/>'
    for i, j in zip(*np.nonzero(errors), strict=True):
        place = f'x="{80 + 5 * j}" y="{4 + 5 * i}" opacity="{errors[i, j] / errors.max():.2f}"'
        text += f'<rect class="a" {place} width="5" height="5"/>'
    return text if picture else ""
