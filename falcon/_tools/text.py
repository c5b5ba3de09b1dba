"""Format tables, and suggest a known word for a misspelt one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .locks import importing


def format_table(rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Align the columns of a table: the first `left` and the last one left, the others right."""
    last = len(rows[0]) - 1
    widths = [max(len(row[i]) for row in rows) for i in range(last + 1)]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if i < left or i == last else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def unexpected(
    function: str, name: str, known: Sequence[str], more: Iterable[str] = ()
) -> TypeError:
    """Return the error of an unknown keyword; `more`: arguments that are no options."""
    return TypeError(
        f"{function}() got an unexpected keyword argument {name!r}"
        f"{did_you_mean(name, (*known, *more))}; its options are {', '.join(known)}"
    )


def did_you_mean(word: str, known: Iterable[str], prefix: str = "") -> str:
    """Return ``" (did you mean 'strassen'?)"`` for a word like a known one, else "".

    `prefix` is common to all words and is not compared.
    """
    with importing():  # it is rarely needed
        from difflib import get_close_matches

    lower = {x.removeprefix(prefix).lower(): x for x in known}
    close = get_close_matches(word.removeprefix(prefix).lower(), lower, 1, 0.75)
    return f" (did you mean {lower[close[0]]!r}?)" if close else ""
