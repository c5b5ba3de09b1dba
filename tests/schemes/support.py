"""A scheme of fractions; archives of scheme files as other programs write them, or would not."""

import zipfile
from fractions import Fraction

import numpy as np

from falcon import Scheme
from falcon.schemes import get

_KNOWN = get("hopcroft-kerr")
FRACTIONAL = Scheme(
    _KNOWN.U * Fraction(1, 2),
    _KNOWN.V * Fraction(-2, 3),
    _KNOWN.W * -3,
    "fractional",
    source="a test",
)


def archive(path, members, shape=(3,), descr="|O"):
    """Write an .npz archive: keys -> the bytes that follow the header of an array."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, payload in members.items():
            with file.open(f"{name}.npy", "w") as stream:
                header = {"descr": descr, "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(stream, header)
                stream.write(payload)
    return path
