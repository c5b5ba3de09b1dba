"""A report on a record file: one page that needs nothing else, and its pictures as files."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from . import records
from .identify import format_settings

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; background: #fff; margin: 2rem auto;
       max-width: 68rem; padding: 0 1rem; }
h1 { font-size: 1.7rem; margin-bottom: 0.2rem; } h2 { margin-top: 2.4rem; font-size: 1.25rem; }
p.note { color: #555; } figure { margin: 1rem 0; } img { max-width: 100%; height: auto; }
div.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.86rem; font-variant-numeric: tabular-nums; }
th, td { padding: 0.25rem 0.6rem; border-bottom: 1px solid #ddd; text-align: left;
         vertical-align: top; }
td.number, th.number { text-align: right; white-space: nowrap; }
.warning { background: #fff3cd; border-left: 4px solid #d39e00; padding: 0.4rem 0.8rem;
           margin: 0.4rem 0; }
.slower { color: #a33; } .faster { color: #176b2c; } .unsure { color: #777; }
"""


def write(found: dict[str, Any], folder: Path) -> Path:
    """Draw the pictures of a record file (SVG and PNG) and write the page; return its path.

    Parameters
    ----------
    found : dict
        A record file's content.
    folder : Path
        Made if it does not exist.

    Raises
    ------
    ValueError
        matplotlib is not installed.
    """
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ValueError(
            "matplotlib is missing: pip install 'falcon-gemm[report]' (or matplotlib)"
        ) from None
    from .figures import FIGURES, style

    folder.mkdir(parents=True, exist_ok=True)
    sections = []
    with style():
        for name, title, text, draw in FIGURES:
            figure = draw(found)
            if figure is None:
                continue
            drawn = io.BytesIO()
            figure.savefig(drawn, format="svg", metadata={"Date": None})
            figure.savefig(folder / f"{name}.png", dpi=130, metadata={"Software": None})
            plt.close(figure)
            (folder / f"{name}.svg").write_bytes(drawn.getvalue())
            sections.append((name, title, text, drawn.getvalue()))
    path = folder / "index.html"
    path.write_text(page(found, sections), encoding="utf-8")
    return path


def page(found: dict[str, Any], sections: Iterable[tuple[str, str, str, bytes]]) -> str:
    """Return the page: machine, peers, warnings, pictures, every figure."""
    machine = found["machine"]
    caches = ", ".join(f"{k} {v // 1024} KiB" for k, v in machine["caches"].items())
    started = [x["started"] for x in found["sessions"]]
    commits = list(dict.fromkeys(_version(x["falcon"]) for x in found["sessions"]))
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>falcon beside its peers</title><style>{_STYLE}</style></head><body>",
        "<h1>falcon beside its peers</h1>",
        _paragraph(
            f"{machine['cpu']}, {found['threads']} threads of {machine['cpus']} CPUs; {caches}; "
            f"{machine['system']}; Python {machine['python']}, NumPy {machine['numpy']}. "
            f"{', '.join(commits)}. Measured {_span(started)} UTC in {len(started)} sessions."
        ),
    ]
    parts += [f'<p class="warning">{html.escape(x)}</p>' for x in records.warnings(found)]
    parts.append(_checks(found["sessions"]))
    for _, title, text, drawn in sections:
        data = base64.b64encode(drawn).decode("ascii")
        parts += [
            f"<h2>{html.escape(title)}</h2>",
            _paragraph(text),
            f'<figure><img alt="{html.escape(title)}" src="data:image/svg+xml;base64,{data}">'
            "</figure>",
        ]
    parts += ["<h2>Libraries</h2>", _peers(found["peers"])]
    if found["cases"]:
        parts += ["<h2>All figures</h2>", _paragraph(
            "Effective GFLOP/s of falcon; then the time of each other side over falcon's, median "
            "of the pairs, with half its interval of confidence; grey: not known to 2 %."
        ), _cases(found["cases"])]  # fmt: skip
    return "\n".join([*parts, "</body></html>", ""])


def _version(found: dict[str, Any]) -> str:
    commit = f" ({found['commit']}{', modified' if found['modified'] else ''})"
    return f"falcon {found['version']}{commit if found['commit'] else ''}"


def _span(started: Sequence[str]) -> str:
    first, last = min(started)[:16], max(started)[:16]
    return (first if first == last else f"{first} to {last}").replace("T", " ")


def _paragraph(text: str) -> str:
    return f'<p class="note">{html.escape(text)}</p>'


def _checks(sessions: Sequence[dict[str, Any]]) -> str:
    medians = [x["self_check"]["median"] for x in sessions]
    return _paragraph(
        f"Self-check: NumPy against itself, in two processes, came out at {min(medians):.3f} to "
        f"{max(medians):.3f} (must be within 2 % of 1)."
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: int) -> str:
    """Return a table; columns from `numbers` on are right-aligned, cells are HTML."""

    def cells(tag: str, row: Sequence[str]) -> str:
        found = ""
        for i, x in enumerate(row):
            kind = ' class="number"' if i >= numbers else ""
            found += f"<{tag}{kind}>{x}</{tag}>"
        return f"<tr>{found}</tr>"

    lines = [cells("th", [html.escape(x) for x in head]), *(cells("td", row) for row in rows)]
    return '<div class="scroll"><table>' + "\n".join(lines) + "</table></div>"


def _peers(peers: Iterable[dict[str, Any]]) -> str:
    rows = []
    for x in peers:
        if x["absent"]:
            rows.append([x["peer"], "absent", x["absent"], "", "", ""])
            continue
        kernels = "; ".join(f"{k}: {v}" for k, v in x["kernels"].items())
        settings = format_settings(x["environment"])
        rows.append([x["peer"], x["library"], x["version"], str(x["threads"] or "?"),
                     f"{kernels} (by {x['evidence']})", settings])  # fmt: skip
    escaped = [[html.escape(x) for x in row] for row in rows]
    return _table(("peer", "library", "version", "threads", "kernels", "set"), escaped, 6)


def _cases(cases: Sequence[dict[str, Any]]) -> str:
    names = list(dict.fromkeys(name for x in cases for name in x["speedups"]))
    rows = []
    for x in cases:
        side = x["sides"].get("falcon") or {}
        plan = side.get("plan") or {"scheme": "?", "backend": "?"}
        row = [
            html.escape(x["label"] or x["workload"]),
            f"{x['M']} × {x['N']} × {x['K']}",
            x["dtype"],
            html.escape(f"{plan['scheme']} ({plan['backend']})"),
            f"{side.get('gflops', 0):.1f}",
        ]
        row += [_speedup(x["speedups"].get(name)) for name in names]
        error = side.get("error")
        row += ["?" if error is None else f"{error:.1e}", str(x["rounds"])]
        rows.append(row)
    head = ("workload", "M × N × K", "dtype", "falcon chose", "GFLOP/s", *names, "RMS error",
            "pairs")  # fmt: skip
    return _table(head, rows, 4)


def _speedup(spread: dict[str, Any] | None) -> str:
    if spread is None:
        return "–"
    text = f"{spread['median']:.3f} ± {spread['uncertainty'] * spread['median']:.3f}"
    kind = "faster" if spread["median"] > 1 else "slower"
    return f'<span class="{kind if spread["stable"] else "unsure"}">{text}</span>'
