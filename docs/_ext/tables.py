"""Tables that falcon's options and record files make: ``python docs/_ext/tables.py``.

They stand in the pages, so that these can be read without building the site; a test holds them
current.
"""

import re
from functools import partial
from pathlib import Path

from falcon._core.environment import OTHER_VARIABLES
from falcon._core.options import FIELDS, KEYWORDS, SETTINGS
from falcon.bench import records, tables

REFERENCE = Path(__file__).parents[1] / "reference"
BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
MACHINES = sorted(BENCHMARKS.glob("*/README.md"))
# README's first figures: kinds of machines and the folders of their records, types, products.
KINDS = {"AMD Zen 4": "zen4", "Intel Xeon (AMX)": "xeon_amx"}
TYPES = ("float32", "float64")
FIRST = {
    "1024^3": (1024,) * 3,
    "2048^3": (2048,) * 3,
    "4096^3": (4096,) * 3,
    "2048 x 4608 x 3584": (2048, 4608, 3584),
}
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
    """Return README's table: falcon's speed over NumPy's on each kind of machine, in both types."""
    found = {
        title: records.read(BENCHMARKS / name / "results.json") for title, name in KINDS.items()
    }
    lines = [f"| falcon / NumPy | {' | '.join(f'{x}, {y}' for x in KINDS for y in TYPES)} |"]
    lines.append(f"|---|{'---|' * len(KINDS) * len(TYPES)}")
    for what, sizes in FIRST.items():
        cells = []
        for document in found.values():
            for dtype in TYPES:
                (ratio,) = [
                    x["speedups"][records.NUMPY]["median"]
                    for x in document["cases"]
                    if (x["M"], x["N"], x["K"]) == sizes and x["dtype"] == dtype
                ] or [None]
                cells.append("" if ratio is None else f"{ratio:.2f}")
        lines.append(f"| {what} | {' | '.join(cells)} |")
    return "\n".join(lines)


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
