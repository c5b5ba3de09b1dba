"""Pages with pictures of record files: ``python studies/report.py RECORD... [-o DIR]``.

Per record file of ``bench -o`` one self-contained page, and its pictures as files (SVG and PNG), in
a folder named as the record. ``--overview`` draws what docs/benchmarks shows of all machines.
"""

from __future__ import annotations

import argparse
import base64
import io
from collections.abc import Iterable
from html import escape
from pathlib import Path
from string import Template
from typing import Any

import matplotlib.pyplot as plt
from figures import FIGURES, over_numpy, per_core, points_over_numpy, style
from matplotlib.figure import Figure
from PIL import Image

from falcon._tools.progress import Progress
from falcon.bench import records, tables
from falcon.decision.rates import shipped

BENCHMARKS = Path(__file__).parents[1] / "docs" / "benchmarks"
# Machines of README's picture, and the folders of their records.
OVER = {"AMD Zen 4": "zen4", "AMD Zen 5": "zen5", "Intel Xeon with AMX": "xeon_amx",
        "Intel Xeon without AMX": "xeon"}  # fmt: skip


def write(document: dict[str, Any], folder: Path) -> Path:
    """Draw the pictures of a record file and write the page; return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    pictures = []
    with style():
        for name, title, text, draw in FIGURES:
            figure, narrow = draw(document), draw(document, narrow=True)
            if figure is None:
                continue
            wide = saved(figure, folder / f"{name}.png")
            small = saved(narrow, folder / f"{name}-narrow.png")
            (folder / f"{name}.svg").write_bytes(wide)
            data = [f"data:image/svg+xml;base64,{base64.b64encode(x).decode('ascii')}"
                    for x in (small, wide)]  # fmt: skip
            pictures.append(f'<h2>{title}</h2>\n<p>{text}</p>\n<picture>'
                            f'<source media="(max-width: 46em)" srcset="{data[0]}">'
                            f'<img alt="{title}" src="{data[1]}"></picture>')  # fmt: skip
    path = folder / "index.html"
    path.write_text(page(document, pictures), encoding="utf-8")
    return path


def saved(figure: Figure, path: Path) -> bytes:
    """Save a figure as PNG, close it and return it as SVG."""
    drawn, pixels = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="svg", metadata={"Date": None})
    figure.savefig(pixels, format="png", dpi=130)
    plt.close(figure)
    few = Image.open(pixels).convert("RGB").quantize(40, Image.Quantize.MAXCOVERAGE)
    few.save(path, optimize=True)  # a third of the bytes
    return drawn.getvalue()


def drawn_over_numpy(machines: dict[str, dict[str, Any]]) -> str:
    """Return in words what README's picture shows; the picture holds it."""
    return "falcon over NumPy, float32: " + "; ".join(
        f"{title} {', '.join(f'{size}: {x.median:.2f}' for size, x in points_over_numpy(document))}"
        for title, document in machines.items()
    )


def overview(folder: Path) -> None:
    """Draw what pages show of all machines: README's picture, and GFLOP/s per core."""
    import as_results  # needs ml_dtypes, which readers of a page do not

    machines = {title: records.read(folder / name / "results.json") for title, name in OVER.items()}
    about = {"Date": None, "Description": drawn_over_numpy(machines)}
    with style(), plt.rc_context({"svg.fonttype": "none"}):  # text, not its outlines
        for dark, theme in enumerate(("light", "dark")):
            figure = over_numpy(machines, bool(dark))
            figure.savefig(folder / f"over_numpy-{theme}.svg", metadata=about)
            plt.close(figure)
        for path in sorted(Path(__file__).with_name("records").glob("*.json")):
            found = as_results.kept(path)
            each = [as_results.document(found, threads) for threads in (1, 2)]
            peaks = {(x.dtype, x.threads): x.rates.multiply / 1e9 for x in shipped()
                     if (x.machine, x.kernels) == (found["machine"]["name"],
                                                   found["machine"]["kernels"]["cpu"])}  # fmt: skip
            for narrow in (False, True):
                name = f"per_core{'-narrow' * narrow}.png"
                saved(per_core(each, peaks, narrow), folder / path.stem / name)


def page(document: dict[str, Any], pictures: list[str]) -> str:
    """Return the page: verdicts, warnings, pictures, and what `bench` prints of the file."""
    won = [f"<b>{escape(group)}</b>. Fastest: {escape(side)}."
           for group, side in tables.verdicts(document)]  # fmt: skip
    wrong, others = (map(escape, said) for said in tables.doubts(document))
    template = Path(__file__).with_suffix(".template").read_text(encoding="utf-8")
    return Template(template).substitute(
        setting=escape(_setting(document)),
        verdicts=_paragraphs(won, "verdict"),
        severe=_paragraphs(wrong, "severe"),
        warnings=_paragraphs(others, "warning"),
        pictures="\n".join(pictures),
        tables=escape(tables.text(document)),
    )


def _paragraphs(texts: Iterable[str], kind: str) -> str:
    return "\n".join(f'<p class="{kind}">{x}</p>' for x in texts)


def _setting(document: dict[str, Any]) -> str:
    """Return on which machine, with which versions and when it was measured."""
    machine, sessions = document["machine"], document["sessions"]
    caches = "".join(f"; {k} {v // 1024} KiB" for k, v in machine["caches"].items())
    known = [x["falcon"] for x in sessions]
    versions = dict.fromkeys(
        f"falcon {x['version']}" + (f" ({x['commit']}{', modified' * x['modified']})"
                                    if x["commit"] else "") for x in known)  # fmt: skip
    times = sorted(x["started"][:16].replace("T", " ") for x in sessions)
    return (
        f"{tables.describe_machine(document)}{caches}; {machine['system']}; Python "
        f"{machine['python']}. {', '.join(versions)}. Measured "
        f"{' to '.join(dict.fromkeys((times[0], times[-1])))} UTC in {len(sessions)} sessions."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("records", nargs="*", type=Path, metavar="RECORD")
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", help="the folder of one record")
    parser.add_argument("--overview", action="store_true", help="draw what all machines share")
    options = parser.parse_args()
    if options.overview:
        overview(BENCHMARKS)
    if options.output and len(options.records) > 1:
        parser.error(f"{len(options.records)} records were given; --output takes one")
    for path in options.records:
        try:
            document = records.read(path)
        except (ValueError, OSError) as error:
            parser.error(str(error))
        with Progress("drawing"):
            written = write(document, options.output or path.with_suffix(""))
        print(written)


if __name__ == "__main__":
    main()
