"""Tables that falcon's options and record files make: ``python docs/_ext/tables.py``.

They stand in the pages, so that these can be read without building the site; a test holds them
current.
"""

import re
from functools import partial
from pathlib import Path

from falcon._core.options import FIELDS, KEYWORDS, OTHER_VARIABLES, SETTINGS
from falcon.bench import records, tables

REFERENCE = Path(__file__).parents[1] / "reference"
MACHINES = sorted((Path(__file__).parents[1] / "benchmarks").glob("*/README.md"))
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
    commits = ", ".join(dict.fromkeys(str(x["falcon"]["commit"])[:10] for x in found["sessions"]))
    lines = [
        f"{cpu}, {found['threads']} threads of {found['machine']['cpus']} CPUs; {sizes}; "
        f"{started[-1]}, falcon at {commits}.",
        "",
        "| library | version | kernels |",
        "| --- | --- | --- |",
    ]
    for x in found["peers"]:
        if not x["absent"]:
            kernels = f"{tables.by_dtype(x['kernels'])} {tables.format_settings(x['environment'])}"
            lines.append(f"| {x['peer']} | {x['library']} {x['version']} | {kernels.strip()} |")
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
    lines += [f"- {x.group}: {x.winner()}." for x in tables.verdicts(found)]
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
    **{page: partial(machine, page) for page in MACHINES},
}

if __name__ == "__main__":
    for path in PAGES:
        path.write_text(updated(path), encoding="utf-8")
