"""Print the errors by type, scheme and size that docs/types.md shows; with a path, draw them too.

python examples/accuracy_types.py [docs/types.png]

Errors are those of products of normal matrices, relative to the root mean square of the exact
product. "to float32" is the product of the same operands with dtype="float32". FALCON_ISA selects
other kernels, some of which round more often. The picture needs matplotlib and takes two minutes;
without it sizes are smaller.
"""

import sys

import ml_dtypes
import numpy as np

import falcon
from falcon import schemes

PICTURE = sys.argv[1] if len(sys.argv) > 1 and sys.argv[1].endswith(".png") else None
SIZE = 720 if PICTURE else 144
SIZES = (128, 256, 512, 1024, 2048, 4096) if PICTURE else (64, 128)
NAMED = ("classical", "strassen", "winograd", "3x3x3:23", "4x4x4:49", "strassen@strassen")
# Types of the operands and of the result.
KINDS = {
    "float32": (np.float32, np.float32),
    "float16": (np.float16, np.float16),
    "bfloat16": (ml_dtypes.bfloat16, ml_dtypes.bfloat16),
    "float16 to float32": (np.float16, np.float32),
    "bfloat16 to float32": (ml_dtypes.bfloat16, np.float32),
}
RANDOM = np.random.default_rng(0)


class Products:
    """Random operands of one type, and their product in float64."""

    def __init__(self, kind, size):
        self.operand, self.result = KINDS[kind]
        shape = size, size
        self.a, self.b = (RANDOM.standard_normal(shape).astype(self.operand) for _ in "ab")
        self.exact = self.a.astype(float) @ self.b.astype(float)

    def errors(self, scheme):
        """Return RMS and largest error of a scheme, and the growth that its plan predicts."""
        given = {"scheme": scheme, "dtype": self.result}
        wrong = falcon.gemm(self.a, self.b, **given).astype(float) - self.exact
        size = np.sqrt(np.square(self.exact).mean())
        growth = falcon.plan(self.a, self.b, **given).growth
        return np.sqrt(np.square(wrong).mean()) / size, abs(wrong).max() / size, growth


def by_size(kind):
    """Yield per size and scheme: RMS and largest error, measured and predicted growth."""
    for size in SIZES:
        products = Products(kind, size)
        classical = products.errors("classical")[0]
        for name in NAMED:
            rms, worst, growth = products.errors(name)
            yield size, name, rms, worst, rms / classical, growth


def all_schemes(kind):
    """Return the measured and predicted growth of the schemes of the catalogue."""
    products = Products(kind, SIZE)
    classical = products.errors("classical")[0]
    found = []
    for name in schemes.names()[:: 1 if PICTURE else 20]:
        rms, _, growth = products.errors(name)
        found.append((name, rms / classical, growth))
    return found


def draw(sizes, catalogue):
    """Draw the picture."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 5))
    for kind, found in catalogue.items():
        left.loglog([x[2] for x in found], [x[1] for x in found], ".", label=kind, markersize=4)
    ends = np.array([0.9, 20])
    left.loglog(ends, ends, "k-", linewidth=0.8)
    for factor in (0.5, 2):
        left.loglog(ends, factor * ends, "k:", linewidth=0.8)
    left.set(xlabel="growth that Plan.growth predicts", ylabel="RMS error over classical",
             title=f"all schemes of the catalogue, {SIZE}³")  # fmt: skip
    for kind, rows in sizes.items():
        for name, style in (("classical", "-"), ("strassen", "--"), ("strassen@strassen", ":")):
            mine = [x for x in rows if x[1] == name]
            colour = f"C{list(KINDS).index(kind)}"
            label = kind if name == "classical" else None
            right.loglog(
                [x[0] for x in mine], [x[2] for x in mine], style, color=colour, label=label
            )
            right.loglog([x[0] for x in mine], [x[3] for x in mine], style, color=colour, alpha=0.3)
    right.set(xlabel="n", ylabel="error over the RMS of the product",
              title="RMS (worst: pale); classical, strassen (dashed), twice (dotted)")  # fmt: skip
    right.set_xticks(SIZES, SIZES)
    right.minorticks_off()
    for axis in (left, right):
        axis.legend(fontsize=8)
        axis.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(PICTURE, dpi=90)


def main():
    """Print the figures; draw them if a path is given."""
    sizes, catalogue = {}, {}
    for kind in KINDS:
        sizes[kind], catalogue[kind] = list(by_size(kind)), all_schemes(kind)
        print(f"\n{kind}: RMS and largest error, measured and predicted growth")
        for size, name, rms, worst, found, growth in sizes[kind]:
            row = f"{rms:9.2e} {worst:9.2e} {found:6.2f} {growth:6.2f}"
            print(f"  {size:5} {name:18} {row}")
        ratios = sorted((found / growth, name) for name, found, growth in catalogue[kind])
        (least, first), (most, last) = ratios[0], ratios[-1]
        outside = sum(not 0.5 < ratio < 2 for ratio, _ in ratios)
        print(f"  all schemes, {SIZE}: measured over predicted {least:.2f} ({first}) to {most:.2f} "
              f"({last}); {outside} of {len(ratios)} off by more than 2")  # fmt: skip
    if PICTURE:
        draw(sizes, catalogue)


main()
