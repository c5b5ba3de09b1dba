"""Squares and layers of a record of `records.py`, as `bench -o` would have kept them.

python studies/as_results.py FILE results.json

`python studies/report.py results.json` then draws the choice of that day beside falcon's classical
algorithm and NumPy's. Errors were not measured. Records in `records/` no longer hold the choice:
it is the one by the rates that ship today. The medians of two halves stand for the rounds there.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import regret

from falcon._tools.timing import Record
from falcon.bench import records
from falcon.bench.records import CLASSICAL, FALCON, NUMPY
from falcon.bench.workloads import Case, Shape, model_shapes

LAYERS = {(x.M, x.N, x.K): f"Qwen2.5-7B {x.label}"
          for tokens in (512, 2048) for x in model_shapes("Qwen2.5-7B", tokens)}  # fmt: skip
LEAST_FLOPS = 1e9


def kept(path: Path) -> dict[str, Any]:
    """Return a record of `records/` as it was before `records.py --keep` shortened it."""
    problems = []
    for case in regret.load(path):
        chosen = regret.choice(case, *(regret.rates_of(case, backend=x) for x in ("cpu", "numpy")))
        methods = [
            {"backend": x.backend, "scheme": x.label, "seconds": list(halves), "workspace": None,
             "growth": x.growth}
            for x, halves in zip(case.options, case.halves, strict=True)
        ]  # fmt: skip
        methods.append(methods[chosen])  # of several cuts by a scheme the last one counts
        x = case.problem
        problems.append({
            "dtype": x.operand.name, "threads": x.threads, "shape": [x.M, x.N, x.K],
            "choice": f"{methods[-1]['backend']} {methods[-1]['scheme']}", "methods": methods,
        })  # fmt: skip
    machine = json.loads(path.read_text(encoding="utf-8"))["machine"]
    return {"machine": machine, "problems": problems}


def document(found: dict[str, Any], threads: int = 2) -> dict[str, Any]:
    """Return the record file."""
    machine = found["machine"]
    version, blas, kernels = machine["numpy"].split(", ")
    of_machine = {
        "cpu": machine["cpu"], "cpus": 2, "caches": machine["caches"],
        "memory": machine["memory"] * 2**30, "system": "?", "python": "?", "numpy": version,
    }  # fmt: skip
    made = records.empty(of_machine, threads)
    session = {"version": machine["falcon"], "commit": None, "modified": None}
    made["sessions"].append({"started": machine["date"], "falcon": session})
    dtypes = ("float32", "float64")
    about = {
        FALCON: ("falcon", machine["falcon"], machine["kernels"]["cpu"]),
        CLASSICAL: ("falcon", machine["falcon"], machine["kernels"]["cpu"]),
        NUMPY: ("NumPy", f"{version} ({blas})", kernels.removesuffix(" kernels")),
    }
    for name, (library, version, kernel) in about.items():
        made["peers"].append({
            "peer": name, "absent": "", "library": library, "version": version,
            "threads": threads,
            "kernels": dict.fromkeys(dtypes, kernel), "environment": {}, "tried": {},
        })  # fmt: skip
    for x in sorted(found["problems"], key=_order):
        shape = Shape(*x["shape"], LAYERS.get(tuple(x["shape"]), ""))
        is_square = shape.M == shape.N == shape.K and shape.M % 512 == 0
        if x["threads"] != threads or x["dtype"] not in dtypes or shape.flops < LEAST_FLOPS:
            continue
        methods = {f"{y['backend']} {y['scheme']}": y for y in x["methods"]}
        names = {FALCON: x["choice"], CLASSICAL: "cpu classical", NUMPY: "numpy classical"}
        if not (is_square or shape.label) or not methods.keys() >= set(names.values()):
            continue
        sides = {}
        for name, method in names.items():
            library, version, kernel = about[name]
            side = {"library": library, "version": version, "kernel": kernel,
                    "threads": threads, "error": None, "correct": True}  # fmt: skip
            if name != NUMPY:
                facts = ("backend", "scheme", "workspace", "growth")
                side["plan"] = {fact: methods[method][fact] for fact in facts}
            sides[name] = side
        measured = [Record(name, tuple(methods[y]["seconds"])) for name, y in names.items()]
        case = Case("squares" if is_square else "llm", shape, x["dtype"])
        entry = records.case_entry(case, measured, sides, sessions=[0], note="", failed={})
        made["cases"].append(entry)
    return made


def _order(problem: dict[str, Any]) -> Any:
    """Sort squares before layers."""
    return problem["dtype"], len(set(problem["shape"])) > 1, problem["shape"]


def main() -> None:
    """Read one file, write the other."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("record", type=Path)
    parser.add_argument("results", type=Path)
    options = parser.parse_args()
    found = json.loads(options.record.read_text(encoding="utf-8"))
    made = document(kept(options.record) if "schemes" in found else found)
    options.results.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
