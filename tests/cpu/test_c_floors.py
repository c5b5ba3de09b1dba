"""The C files form floors: an object uses symbols of lower floors only, kernels use none.

The table is in `falcon/_cpu/sources.py`; it is compared with the symbols of the object files.
"""

import platform
import shutil
import subprocess

import pytest

from falcon._core.dtypes import ENGINE_NAMES

from ..support import HANG
from .support import SOURCES
from .test_c_driver import COMPILER, require_compiler, table

SYMBOLS = shutil.which("nm")


@pytest.fixture(scope="module")
def objects(tmp_path_factory):
    """Source -> (symbols that its object defines, those that it uses)."""
    require_compiler()
    if SYMBOLS is None:
        pytest.skip("nm is not installed")
    folder, t = tmp_path_factory.mktemp("floors"), table()
    here = t.isas_for(platform.machine())
    flags = dict.fromkeys(t.BASELINE, t.OPENMP_FLAGS)
    flags |= {source: isa.flags for isa in here for source in isa.sources}
    (folder / t.TABLES).write_text(t.tables(ENGINE_NAMES, here))
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


def test_no_object_uses_its_own_floor_or_a_higher_one(objects):
    floors = table().FLOORS
    owner = {name: source for source, (defined, _) in objects.items() for name in defined}
    wrong = [
        f"{source} uses {name} of {owner[name]}"
        for source, (_, used) in objects.items()
        for name in sorted(used)
        if name in owner
        and floors.get(source, -1) <= floors.get(owner[name], -1)
        and owner[name] != source
    ]
    assert not wrong


def test_every_symbol_that_leaves_its_file_is_used_or_public(objects):
    """Functions that only their own file uses are static."""
    public = (SOURCES / "src/falcon_cpu.h").read_text(encoding="utf-8")
    public += (SOURCES / "src/kernels/kernel.h").read_text(encoding="utf-8")
    used = set().union(*(names for _, names in objects.values()))
    idle = {
        name
        for defined, _ in objects.values()
        for name in defined
        if name not in used and name not in public
    }
    assert not idle
