"""What changed between two record files by more than the noise of both: ``compare.py OLD NEW``.

Compared are the speed-ups over each other side, which do not depend on how fast the machine was at
the time, and falcon's time itself. A change counts if it exceeds the two confidence intervals
together, and 2 %.
"""

from __future__ import annotations

import argparse

from common import show

from falcon._tools.timing import Estimate
from falcon.bench.records import estimate_of, read


def comparable(old, new):
    for name in new["speedups"].keys() & old["speedups"].keys():
        yield name, estimate_of(old["speedups"][name]), estimate_of(new["speedups"][name])
    times = [x["sides"].get("falcon", {}).get("seconds") for x in (old, new)]
    if all(times):
        yield "seconds", Estimate.of(times[0]), Estimate.of(times[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs=2, metavar="FILE")
    files = [read(x) for x in parser.parse_args().files]
    for name in ("cpu", "cpus", "system", "numpy"):
        before, after = (x["machine"].get(name) for x in files)
        if before != after:
            print(f"{name}: {before} -> {after}")
    old, new = ({x["key"]: x for x in file["cases"]} for file in files)
    rows, compared = [("case", "compared with", "old", "new", "change", "noise", "")], 0
    for key in sorted(new.keys() & old.keys()):
        for name, before, after in comparable(old[key], new[key]):
            compared += 1
            change = after.median / before.median - 1
            noise = (before.uncertainty**2 + after.uncertainty**2) ** 0.5
            if abs(change) > max(noise, 0.02):
                word = "faster" if (change > 0) != (name == "seconds") else "slower"
                rows.append((key, name, f"{before.median:.4g}", f"{after.median:.4g}",
                             f"{change:+.1%}", f"{noise:.1%}", word))  # fmt: skip
    show(rows, left=2)
    print(f"{len(rows) - 1} of {compared} figures changed beyond the noise and 2 %; 'seconds' are "
          "falcon's own, the others are speed-ups over that side")  # fmt: skip


if __name__ == "__main__":
    main()
