"""What is compiled: safe without the GIL; what is said where it is missing."""

import sys
from pathlib import Path

import pytest

import falcon

from ..support import python

PACKAGE = Path(falcon.__file__).parent


@pytest.mark.parametrize(
    "source",
    [
        "_cpu/_core.pyx",
        "_core/formulas.py",
        "_tools/uninterrupted.py",
        "discover/walk/_core.pyx",
        "discover/numerical/_fit.pyx",
    ],
)
def test_what_falcon_imports_leaves_the_gil_off(source):
    """A module that does not declare it turns the GIL on again on a free-threaded Python."""
    if not (PACKAGE / source).exists():
        pytest.skip("the Cython sources are not part of this installation")
    with (PACKAGE / source).open(encoding="utf-8") as file:
        directives = file.readline()
    assert directives.startswith("# cython: ")
    assert "freethreading_compatible=True" in directives


@pytest.mark.skipif(not hasattr(sys, "_is_gil_enabled"), reason="before Python 3.13")
def test_importing_falcon_leaves_the_gil_as_it_was():
    script = (
        "import sys; a = sys._is_gil_enabled(); import falcon; assert a == sys._is_gil_enabled()"
    )
    python("-W", "error", "-c", script)


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
