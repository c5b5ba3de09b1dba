"""Modules in Python that are compiled as well: what runs is what the source says."""

import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import falcon

PACKAGE = Path(falcon.__file__).parent
MODULES = ("_core/formulas", "_front/small")
PROBE = """
import falcon
from falcon import _core, _front
from falcon._front import gemm, small
from falcon._core import formulas, model
assert model.stages is formulas.stages and gemm.is_small is small.is_small
print(_core.__compiled__, getattr(formulas, "EDITED", 0))
print(_front.__compiled__, getattr(small, "EDITED", 0))
"""


def compiled(folder, module):
    """The compiled files of a module."""
    path = folder / module
    return [x for x in path.parent.glob(f"{path.name}.*") if x.suffix in (".so", ".pyd")]


@pytest.fixture
def copy(tmp_path):
    """A copy of the tree, to be edited."""
    left_out = shutil.ignore_patterns("__pycache__", "bench", "discover", "src")
    shutil.copytree(PACKAGE, tmp_path / "falcon", ignore=left_out)
    return tmp_path / "falcon"


def probe(copy):
    """Whether each module is compiled, and whether it is the edited one; and what was logged."""
    environment = {**os.environ, "FALCON_CACHE_DIR": str(copy.parent / "none")}
    done = subprocess.run(
        [sys.executable, "-c", PROBE],
        capture_output=True, text=True, check=True, cwd=copy.parent, env=environment,
    )  # fmt: skip
    return [tuple(map(eval, line.split())) for line in done.stdout.splitlines()], done.stderr


@pytest.mark.parametrize("module", MODULES)
def test_what_is_compiled_here_is_current(module):
    """If not: python setup.py build_ext --inplace."""
    package = importlib.import_module(f"falcon.{Path(module).parent}")
    assert package.__compiled__ == bool(compiled(PACKAGE, module))


def test_a_copy_runs_as_it_is(copy):
    found, log = probe(copy)
    assert found == [(bool(compiled(copy, x)), 0) for x in MODULES]
    assert log == ""


def test_an_edited_source_runs_instead_of_what_was_compiled_before(copy):
    for module in MODULES:
        with (copy / f"{module}.py").open("a", encoding="utf-8") as file:
            file.write("\nEDITED = 1\n")
    found, log = probe(copy)
    assert found == [(False, 1), (False, 1)]
    for file in (file for module in MODULES for file in compiled(copy, module)):
        assert f"falcon: {file} is out of date: it was compiled from another " in log


def test_a_compiled_file_that_cannot_be_imported(copy):
    for module in MODULES:
        (copy / module).with_suffix(".so").write_bytes(b"of another day")
        for file in compiled(copy, module):
            file.write_bytes(b"of another day")
    found, log = probe(copy)
    assert found == [(False, 0), (False, 0)]
    assert log.count("python setup.py build_ext --inplace") == len(MODULES)


def test_without_the_source_the_compiled_file_runs(copy):
    files = [compiled(copy, module) for module in MODULES]
    if not all(files):
        pytest.skip("nothing is compiled here")
    for module in MODULES:
        (copy / f"{module}.py").unlink()
    assert probe(copy) == ([(True, 0), (True, 0)], "")


@pytest.mark.parametrize("source", ["_cpu/_core.pyx", *(f"{module}.py" for module in MODULES)])
def test_what_falcon_imports_leaves_the_gil_off(source):
    """A module that does not declare it turns the GIL on again on a free-threaded Python."""
    with (PACKAGE / source).open(encoding="utf-8") as file:
        directives = file.readline()
    assert directives.startswith("# cython: ")
    assert "freethreading_compatible=True" in directives


def test_a_source_tree_that_hides_an_installed_falcon_says_so(tmp_path, monkeypatch):
    from falcon._cpu import extension

    monkeypatch.syspath_prepend(tmp_path)
    tree = Path(extension.__file__).parents[2]
    assert extension._compiled_elsewhere(tree) != tmp_path
    parts = tmp_path / "falcon" / "_cpu"
    parts.mkdir(parents=True)
    (parts / "_core.cpython-311-x86_64-linux-gnu.so").touch()
    assert extension._compiled_elsewhere(tree) == tmp_path
    monkeypatch.setitem(sys.modules, "falcon._cpu._build", None)
    said = extension.why_missing()
    assert f"source tree {tree}, which is not compiled, and not from {tmp_path}" in said
    assert "compiler" not in said
