"""Where an LCMA pays: ``python studies/crossover.py [FILE] [--draw PICTURE]``.

Compares two schemes with falcon's classical path for pairs (M = N, K), and adds the speed-ups to a
record file of ``bench --peers`` (a new one where there is none). ``--draw`` only draws such a file.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

import numpy as np
from common import operands, write
from figures import columns, dtypes_of, legend, style

import falcon
from falcon._core.options import thread_count
from falcon._tools.timing import Side, interleave
from falcon.bench import records
from falcon.bench.records import estimate_of
from falcon.bench.system import describe_machine

SIZES = (512, 1024, 1536, 2048, 3072, 4096)
INNER = (256, 512, 1024, 2048, 4096)
# The others are compared with the first.
SCHEMES = ("classical", "strassen", "strassen@strassen")


def measure(size, K, dtype, threads, case_seconds):
    """Compare schemes with falcon's classical path; also return what "auto" would choose."""
    a, b, out = operands((size, size, K), dtype)
    call = partial(falcon.gemm, a, b, out=out, threads=threads, backend="cpu")
    sides = [Side.of(name, partial(call, scheme=name)) for name in SCHEMES]
    classical, *others = interleave(sides, seconds=case_seconds)
    return {
        **{"M": size, "N": size, "K": K, "dtype": dtype},
        "speedups": {x.name: x.over(classical).document() for x in others},
        "chosen": falcon.plan(a, b, threads=threads).method.label,
    }


def picture(found):
    """Draw the best scheme's speed-up over falcon's classical path, over (M = N, K)."""
    from matplotlib.colors import TwoSlopeNorm
    from matplotlib.patches import Patch, Rectangle

    cells = found["crossover"]
    dtypes = dtypes_of(cells)
    values = [max(y["median"] for y in x["speedups"].values()) for x in cells]
    norm = TwoSlopeNorm(1.0, min(0.7, *values), max(1.3, *values))
    figure, axes = columns(dtypes, 5.2)
    for axis, dtype in zip(axes, dtypes, strict=True):
        part = [x for x in cells if x["dtype"] == dtype]
        sizes = sorted({x["M"] for x in part})
        inner = sorted({x["K"] for x in part})
        image = np.full((len(inner), len(sizes)), np.nan)
        for x in part:
            column, row = sizes.index(x["M"]), inner.index(x["K"])
            name = max(x["speedups"], key=lambda name: x["speedups"][name]["median"])
            best = estimate_of(x["speedups"][name])
            # A ratio whose interval includes 1 has the colour of 1.
            level = abs(best.median - 1) <= best.uncertainty * best.median
            image[row, column] = 1.0 if level else best.median
            short = {"strassen": "S", "strassen@strassen": "S@S"}.get(name, name)
            dark = abs(float(norm(image[row, column])) - 0.5) > 0.36
            text = f"{best.median:.2f}\n±{best.uncertainty * best.median:.2f}"
            axis.text(column, row, f"{text}\n{short}", ha="center", va="center", fontsize=8.5,
                      color="white" if dark else "#555555" if level else "black")  # fmt: skip
            if x["chosen"] != "classical":
                axis.add_patch(Rectangle((column - 0.46, row - 0.46), 0.92, 0.92, fill=False,
                                         edgecolor="black", linewidth=1.8))  # fmt: skip
        shown = axis.imshow(image, norm=norm, cmap="PuOr_r", origin="lower", aspect="auto")
        axis.set_xticks(range(len(sizes)), map(str, sizes))
        axis.set_yticks(range(len(inner)), map(str, inner))
        axis.grid(visible=False)
        axis.set(title=dtype, xlabel="M = N", ylabel="K")
    bar = figure.colorbar(shown, ax=axes, label="speed-up over falcon's classical path")
    bar.outline.set_visible(False)
    frame = Patch(fill=False, edgecolor="black", linewidth=1.8)
    nothing = Patch(alpha=0)
    legend(figure, [(frame, "falcon chooses an LCMA by itself"), (nothing, "S: Strassen"),
                     (nothing, "S@S: two levels of it")])  # fmt: skip
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", type=Path, default=Path("crossover.json"))
    parser.add_argument("--draw", type=Path, metavar="PICTURE", help="measure nothing, draw")
    parser.add_argument("--dtype", nargs="+", default=["float32", "float64"])
    parser.add_argument("--threads", type=int)
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES, help="M = N")
    parser.add_argument("--inner", nargs="+", type=int, default=INNER, help="K")
    parser.add_argument("--case-seconds", type=float, default=5.0, help="after five rounds")
    options = parser.parse_args()
    if options.draw:
        with style():
            drawn = picture(records.read(options.file))
            drawn.savefig(options.draw, dpi=130, metadata={"Software": None})
        return
    threads = thread_count(options.threads)
    found = records.empty(describe_machine(), threads)
    found["sessions"] = [records.session()]
    if options.file.exists():
        found = records.read(options.file)
    found["crossover"] = []
    for case in ((m, k, x) for x in options.dtype for m in options.sizes for k in options.inner):
        found["crossover"].append(measure(*case, threads, options.case_seconds))
        print(*case, flush=True)
        write(options.file, found)


if __name__ == "__main__":
    main()
