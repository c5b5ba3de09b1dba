"""Tables that falcon's options and record files make: ``python docs/_ext/tables.py``.

They stand in the pages, so that these can be read without building the site; a test holds them
current.
"""

import re
from functools import partial
from pathlib import Path
from statistics import median

from falcon._core.environment import OTHER_VARIABLES
from falcon._core.options import FIELDS, KEYWORDS, SETTINGS
from falcon.bench import records, tables

REFERENCE = Path(__file__).parents[1] / "reference"
BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
MACHINES = sorted(BENCHMARKS.glob("*/README.md"))
# README's first figures: machines, the folders of their records, and whom falcon is compared with.
KINDS = {
    "AMD Zen 4": ("zen4", records.NUMPY),
    "AMD Zen 5": ("zen5", records.NUMPY),
    "Intel Xeon with AMX": ("xeon_amx", records.NUMPY),
    "Intel Xeon without AMX": ("xeon", records.NUMPY),
    "NVIDIA H200": ("h200", "cublas"),
}
TYPES = ("float32", "float64", "gram", "complex64", "mod p")
# The squares of the table: the least and the largest.
SQUARES = {records.NUMPY: (2048, 4096), "cublas": (8192, 16384)}
# What tables and sentences of these pages say, in the brackets; with whom they compare.
QUOTED = {
    ("AMD Zen 4", "gram"): ("features.md", r"\| gram, float32 \| (\S+) ", "NumPy"),
    ("AMD Zen 4", "complex64"): ("features.md", r"\| complex64 \| (\S+) ", "NumPy"),
    ("AMD Zen 4", "mod p"): ("features.md", r"\| 2\^20 \+ 7 \|[^|]*\| (\S+) \|", "FLINT"),
    ("Intel Xeon with AMX", "complex64"): (
        "features.md", r"\| complex64 over torch\.mm (?:\| \S+ ){3}\| (\S+) \|", "torch",
    ),
    # Its whole record is of an earlier state of float32 by parts.
    ("NVIDIA H200", "float32"): ("h200/README.md", r"\| float32 \|[^|]*\| (\S+) ±", "cuBLAS"),
    ("NVIDIA H200", "gram"): ("h200/README.md", r"\| gram, float32 \|[^|]*\| (\S+) ", "cuBLAS"),
}  # fmt: skip
BEGIN, END = "<!-- table: python docs/_ext/tables.py -->\n", "<!-- end of table -->\n"


def environment() -> str:
    """Return the table of environment variables, those of options first."""
    lines = ["| variable | sets | means |", "| --- | --- | --- |"]
    for name in SETTINGS:
        option = FIELDS[name]
        _, text = _described(option.metadata["text"])
        lines.append(f"| `{option.metadata['variable']}` | `{name}` | {text} |")
    lines += [f"| `{name}` | | {text} |" for name, text in OTHER_VARIABLES.items()]
    return "\n".join(lines)


def settings() -> str:
    """Return the table of options: types, defaults, and whether a call takes them as keywords."""
    lines = ["| option | type | default | a keyword | means |", "| --- | --- | --- | --- | --- |"]
    for name, option in FIELDS.items():
        kind, text = _described(option.metadata["text"])
        keyword = "yes" if name in KEYWORDS else "no"
        lines.append(f"| `{name}` | {kind} | `{option.default!r}` | {keyword} | {text} |")
    return "\n".join(lines)


def _described(text: str) -> tuple[str, str]:
    """Split the documentation of an option into its type and one line, values as code."""
    kind, _, rest = text.partition("\n")
    line = " ".join(rest.split()).replace("|", "\\|")
    return kind.strip(), re.sub(r"(?<!`)(\"[^\"]*\")", r"`\1`", line)


def machine(page: Path) -> str:
    """Return what results.json, the record file beside a machine's page, says."""
    found = records.read(page.with_name("results.json"))
    cpu, caches = found["machine"]["cpu"], found["machine"]["caches"]
    sizes = ", ".join(f"{k} {v // 1024} KiB" for k, v in caches.items())
    started = sorted(x["started"][:10] for x in found["sessions"])
    commits = {x["falcon"]["commit"]: None for x in found["sessions"]}  # unknown in some records
    at = (
        ", ".join(f"falcon at {x[:10]}" for x in commits if x)
        or f"falcon {found['sessions'][-1]['falcon']['version']}"
    )
    what = f"{cpu}, {found['threads']} threads of {found['machine']['cpus']} CPUs; {sizes}"
    if "gpu" in found["machine"]:
        name, *libraries = found["machine"]["gpu"].items()
        what = f"{name[1]}; {', '.join(f'{x} {y}' for x, y in libraries)}"
    lines = [f"{what}; {started[-1]}, {at}.", ""]
    if found["peers"]:
        lines += ["| library | version | kernels |", "| --- | --- | --- |"]
    for x in found["peers"]:
        if not x["absent"]:
            kernels = tables.kernels_of(x)
            lines.append(f"| {x['peer']} | {x['library']} {x['version']} | {kernels} |")
    others = [x for x in tables.side_names(found["cases"]) if x != records.FALCON]
    head = ["product", "type", "choice", "GFLOP/s", *others]
    lines += ["", "Effective GFLOP/s of falcon, and the time of each other side over falcon's:", ""]
    lines += [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    for x in found["cases"]:
        sizes = x["M"], x["N"], x["K"]
        size = f"{x['M']}^3" if len(set(sizes)) == 1 else " x ".join(map(str, sizes))
        mine = x["sides"][records.FALCON]
        cells = [f"{x['label']} {size}".strip(), x["dtype"], mine["plan"]["scheme"]]
        cells += [f"{mine['gflops']:.0f}", *(_ratio(x["speedups"].get(name)) for name in others)]
        lines.append(f"| {' | '.join(cells)} |")
    lines.append("")
    lines += [f"- {group}: {won}." for group, won in tables.verdicts(found)]
    return "\n".join(lines)


def first_figures() -> str:
    """Return README's table: how many times as fast falcon is, by machine and type."""
    lines = [f"|falcon / NumPy|{'|'.join(TYPES)}|", f"|---|{'---|' * len(TYPES)}"]
    for title, (folder, side) in KINDS.items():
        cells = []
        for kind in TYPES:
            if (title, kind) in QUOTED:
                page, pattern, other = QUOTED[title, kind]
                (said,) = re.findall(pattern, (BENCHMARKS / page).read_text(encoding="utf-8"))
                cells.append(said if other == "NumPy" else f"{said} ({other})")
            else:
                cells.append(_of_squares(folder, side, kind) if folder else "")
        lines.append(f"|{title}|{'|'.join(cells)}|")
    return "\n".join(lines)


def _of_squares(folder: str, side: str, dtype: str) -> str:
    """Return falcon's speed over a side in a machine's record: the median and the range."""
    found, (least, most) = {}, SQUARES[side]
    for x in records.read(BENCHMARKS / folder / "results.json")["cases"]:
        if x["M"] == x["N"] == x["K"] and least <= x["M"] <= most and x["dtype"] == dtype:
            found[x["M"]] = records.estimate_of(x["speedups"][side]).median
    if not found:
        return ""
    shown, about = f"{median(found.values()):.2f}", [] if side == records.NUMPY else ["cuBLAS"]
    if len(found) > 1:
        about[:0] = [f"{min(found.values()):.2f}-{max(found.values()):.2f}"]
    return f"{shown} ({', '.join(about)})" if about else shown


def _ratio(entry: dict | None) -> str:
    return "" if entry is None else f"{entry['median']:.2f}{'' if entry['known'] else '*'}"


def updated(page: Path) -> str:
    """Return the text of one of `PAGES` with a new table."""
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    return f"{before}{BEGIN}\n{PAGES[page]()}\n\n{END}{after}"


PAGES = {
    REFERENCE / "environment.md": environment,
    REFERENCE / "settings.md": settings,
    Path(__file__).parents[2] / "README.md": first_figures,
    **{page: partial(machine, page) for page in MACHINES},
}

if __name__ == "__main__":
    for path in PAGES:
        path.write_text(updated(path), encoding="utf-8")
