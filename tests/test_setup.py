"""setup.py compiles the files of all extensions beside each other, then links each extension."""

import os
import runpy
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

setuptools = pytest.importorskip("setuptools", minversion="77")
NAMES = ("first", "second", "third")


class Compiler:
    """Of empty files; those named in `bad` fail."""

    def __init__(self, together=1, bad=()):
        self.events, self.bad = [], bad
        self.beside = threading.Barrier(together, timeout=60)

    def compile(self, sources, output_dir, **options):
        self.beside.wait()
        self.events.append(f"{output_dir}: compile {sources[0]} {options}")
        if sources[0] in self.bad:
            raise RuntimeError(f"{sources[0]} is wrong")

    def object_filenames(self, sources, output_dir):
        return [f"{output_dir}/{x}.o" for x in sources]

    def link_shared_object(self, objects, name):
        self.events.append(f"link {name} of {objects}")


@pytest.fixture
def build(monkeypatch):
    """Return the build of three extensions on a number of CPUs by a compiler."""
    monkeypatch.setattr(setuptools, "setup", lambda **_: None)
    monkeypatch.setitem(sys.modules, "sources", None)  # setup.py puts a module there
    monkeypatch.delenv("CFLAGS", raising=False)
    parts = runpy.run_path(str(Path(__file__).parents[1] / "setup.py"))["BuildOptional"]

    def each(self):
        for name in NAMES:
            objects = self.compiler.compile([f"{name}.c"], output_dir="out")
            self.compiler.link_shared_object(objects, name)

    def build(cpus, compiler):
        monkeypatch.setattr(parts.__base__, "build_extensions", each)
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(cpus), raising=False)
        made = parts(setuptools.Distribution())
        made.compiler = compiler
        return made

    return build


def test_files_are_compiled_at_once_and_then_linked(build):
    compiler = Compiler(together=3)
    build(3, compiler).build_extensions()
    flags = {"extra_preargs": ["-g0"]}
    assert sorted(compiler.events[:3]) == [f"out: compile {x}.c {flags}" for x in NAMES]
    assert compiler.events[3:] == [f"link {x} of ['out/{x}.c.o']" for x in NAMES]


def test_what_fails_is_raised_and_nothing_is_linked(build):
    compiler = Compiler(bad={"first.c"})
    with pytest.raises(RuntimeError, match=r"first\.c is wrong"):
        build(1, compiler).build_extensions()
    assert "link" not in str(compiler.events)


def test_an_editable_installation_compiles_what_has_changed(build, monkeypatch, tmp_path):
    """Adding an extra to a clone installs it again."""
    made, runs, codes = build(1, Compiler()), [], ["1"]
    names = type(made).run.__globals__
    monkeypatch.setitem(names, "ROOT", tmp_path)
    monkeypatch.setitem(names, "scheme_codes", lambda: codes[-1])
    monkeypatch.setitem(names, "MODE", "require")
    monkeypatch.setattr(type(made).__base__, "run", lambda self: runs.append(1))
    source, built = tmp_path / "falcon/x.c", tmp_path / "x.so"
    source.parent.mkdir()
    for path in source, built, tmp_path / "setup.py":
        path.write_text("1")
    made.editable_mode, made.extensions = True, [SimpleNamespace(name="x")]
    monkeypatch.setattr(made, "get_ext_filename", "{}.so".format)
    for change, count in (
        (None, 1),
        (None, 1),
        (source, 2),
        (None, 2),
        (codes, 3),
        (None, 3),
        (built, 4),
    ):
        if change == built:
            built.unlink()
        elif change is codes:
            codes.append("2")
        elif change:
            change.write_text("2")
        made.run()
        assert len(runs) == count


def test_an_installation_without_what_writes_schemes_as_c_goes_on(build, monkeypatch, tmp_path):
    """Such as one without NumPy; a reason is recorded, as of a compiler that fails."""
    made = build(1, Compiler())
    names = type(made).run.__globals__
    monkeypatch.setitem(names, "ROOT", tmp_path)
    monkeypatch.setitem(names, "MODE", "optional")
    made.editable_mode = True
    made.run()
    record = (tmp_path / "falcon/_cpu/_build.py").read_text()
    assert "compiling it failed: CalledProcessError" in record
    monkeypatch.setitem(names, "MODE", "require")
    with pytest.raises(subprocess.CalledProcessError):
        made.run()


def test_it_says_how_far_it_is(build, capsys):
    running, asked = build(1, Compiler()), iter([False, True])
    running.begun, running.jobs = ["generic", "avx512"], [None] * 3
    running._tell(SimpleNamespace(wait=lambda seconds: next(asked)))
    assert capsys.readouterr().out == "falcon: compiling 2 of 3 (avx512)\n"
