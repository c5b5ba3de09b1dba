"""A report on a record file: one self-contained page, and its pictures as files.

The page is the template ``data/report.html.j2``.
"""

from __future__ import annotations

import base64
import io
from importlib import resources
from pathlib import Path
from typing import Any

from falcon._core.timing import Estimate

from . import tables
from .records import estimate_of


def write(found: dict[str, Any], folder: Path) -> Path:
    """Draw the pictures of a record file (SVG and PNG) and write the page; return its path.

    `found`: a record file's content.
    `folder`: made if it does not exist.
    Raises ValueError: matplotlib or Jinja2 is not installed.
    """
    try:
        import jinja2  # noqa: F401 (`page` needs it: fail before drawing)
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ValueError(
            f"{error.name} is missing: pip install 'falcon-gemm[report]' (matplotlib and Jinja2)"
        ) from None
    from .figures import FIGURES, style

    folder.mkdir(parents=True, exist_ok=True)
    pictures = []
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
            data = base64.b64encode(drawn.getvalue()).decode("ascii")
            pictures.append({"title": title, "text": text, "data": data})
    path = folder / "index.html"
    path.write_text(page(found, pictures), encoding="utf-8")
    return path


def page(found: dict[str, Any], pictures: list[dict[str, str]]) -> str:
    """Return the page: verdicts, warnings, pictures, libraries, all figures."""
    from jinja2 import Environment, StrictUndefined

    file = resources.files(__package__) / "data" / "report.html.j2"
    environment = Environment(
        autoescape=True, trim_blocks=True, keep_trailing_newline=True, undefined=StrictUndefined
    )
    template = environment.from_string(file.read_text(encoding="utf-8"))
    said = tables.doubts(found)
    judged = tables.verdicts(found)
    return template.render(
        setting=_setting(found),
        severe=[x.text for x in said if x.severe],
        warnings=[x.text for x in said if not x.severe],
        self_check=_self_check(found),
        verdicts=judged,
        peers_measured=list(dict.fromkeys(name for x in judged for name in x.means)),
        figures=pictures,
        peers=found["peers"],
        cases=found["cases"],
        others=[x for x in tables.side_names(found["cases"]) if x != "falcon"],
        mean=_mean,
        speedup=_speedup,
        choice=tables.choice,
        by_dtype=tables.by_dtype,
        settings=tables.format_settings,
    )


def _setting(found: dict[str, Any]) -> str:
    machine, sessions = found["machine"], found["sessions"]
    caches = ", ".join(f"{k} {v // 1024} KiB" for k, v in machine["caches"].items())
    versions = ", ".join(dict.fromkeys(_version(x["falcon"]) for x in sessions))
    times = sorted(x["started"][:16].replace("T", " ") for x in sessions)
    span = times[0] if times[0] == times[-1] else f"{times[0]} to {times[-1]}"
    count = f"{len(sessions)} sessions" if len(sessions) > 1 else "one session"
    return (
        f"{machine['cpu']}, {found['threads']} threads of {machine['cpus']} CPUs; {caches}; "
        f"{machine['system']}; Python {machine['python']}, NumPy {machine['numpy']}. "
        f"{versions}. Measured {span} UTC in {count}."
    )


def _version(found: dict[str, Any]) -> str:
    commit = f" ({found['commit']}{', modified' if found['modified'] else ''})"
    return f"falcon {found['version']}{commit if found['commit'] else ''}"


def _self_check(found: dict[str, Any]) -> str:
    medians = [x["self_check"]["median"] for x in found["sessions"] if x["self_check"]]
    if not medians:
        return ""
    span = " to ".join(dict.fromkeys(f"{x(medians):.3f}" for x in (min, max)))
    return (
        f"Self-check: NumPy against itself, in two processes, came out at {span} (must be within "
        "2 % of 1)."
    )


def _speedup(entry: dict[str, Any] | None) -> Any:
    if entry is None:
        return "–"
    estimate = estimate_of(entry)
    return _coloured(estimate.median, estimate.uncertainty, estimate)


def _mean(found: tuple[float, float] | None) -> Any:
    return "–" if found is None else _coloured(*found)


def _coloured(ratio: float, uncertainty: float, estimate: Estimate | None = None) -> Any:
    """Return a ratio in a colour for faster, slower, or not known."""
    from markupsafe import Markup

    text = str(estimate) if estimate else f"{ratio:.3f} ±{uncertainty * ratio:.3f}"
    kind = "unsure"
    if abs(ratio - 1) > uncertainty * ratio:
        kind = "faster" if ratio > 1 else "slower"
    return Markup('<span class="{}">{}</span>').format(kind, text)
