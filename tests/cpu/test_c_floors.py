"""The C files form floors: an object uses symbols of lower floors only, kernels use none.

The table is in `falcon/_cpu/sources.py`; it is compared with the symbols of the object files.
"""

import platform
import shutil
import subprocess

import pytest

from ..support import HANG
from .support import SOURCES
from .test_c_driver import COMPILER, require_compiler, table, write_headers

SYMBOLS = shutil.which("nm")


def objects(folder):
    """Source -> (symbols that its object defines, those that it uses)."""
    require_compiler()
    if SYMBOLS is None:
        pytest.skip("nm is not installed")
    t = table()
    here = t.isas_for(platform.machine())
    flags = dict.fromkeys(t.BASELINE, t.OPENMP_FLAGS)
    flags |= {source: isa.flags for isa in here for source in isa.sources}
    write_headers(folder, here)
    found = {}
    for source, some in flags.items():
        out = folder / source.replace("/", "-").replace(".c", ".o")
        command = [COMPILER, "-O0", "-std=gnu11", "-I", folder, *some]
        command += ["-c", SOURCES / source, "-o", out]
        subprocess.run(command, check=True, timeout=HANG)
        words = subprocess.run([SYMBOLS, "-P", out], capture_output=True, text=True, check=True)
        symbols = [x.split()[:2] for x in words.stdout.splitlines()]
        found[source] = (
            {name for name, kind in symbols if kind in "TDRB"},
            {name for name, kind in symbols if kind == "U"},
        )
    return found


def test_floors(tmp_path):
    """No object uses its own floor or a higher one; what only its own file uses is static."""
    found, floors = objects(tmp_path), table().FLOORS
    owner = {name: source for source, (defined, _) in found.items() for name in defined}
    wrong = [
        f"{source} uses {name} of {owner[name]}"
        for source, (_, used) in found.items()
        for name in sorted(used)
        if name in owner
        and floors.get(source, -1) <= floors.get(owner[name], -1)
        and owner[name] != source
    ]
    assert not wrong
    public = (SOURCES / "src/falcon_cpu.h").read_text(encoding="utf-8")
    public += (SOURCES / "src/kernels/kernel.h").read_text(encoding="utf-8")
    used = set().union(*(names for _, names in found.values()))
    assert not {name for name in owner if name not in used and name not in public}
