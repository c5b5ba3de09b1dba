"""The examples of the README and of examples/ run; CI runs the command that the README gives."""

import re
import runpy
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
# Examples and packages that they are about.
NEEDED = {"dask_products": "distributed", "flint_products": "flint", "galois_products": "galois"}


def test_python_examples_run(capsys):
    examples = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert len(examples) >= 2
    for example in examples:
        exec(example.replace("4096", "520"), {})
    assert "h1 = (a11 + a22)(b11 + b22)" in capsys.readouterr().out


def test_the_commands_are_the_ones_that_ci_runs():
    command = re.search(r'^TEST="(.*)"$', (ROOT / ".ci/run").read_text(encoding="utf-8"), re.M)
    assert command is not None
    assert command[1] in README


def test_ci_installs_what_tests_need_beyond_this_command():
    """A file that asks for a package that the extra `test` lacks is run where CI installs it."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    held = re.findall(r"[a-z_]+", " ".join(extras["optional-dependencies"]["test"]))
    known = {"falcon", "tests", "_testcapi", *held, *sys.stdlib_module_names}
    run = (ROOT / ".ci/run").read_text(encoding="utf-8").partition("tests packages ")[2]
    listed = {x.strip("'").partition("::")[0] for x in run.partition("\n.ci/skips")[0].split()}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        asked = re.findall(r'importorskip\("(\w+)', path.read_text(encoding="utf-8"))
        file = path.relative_to(ROOT)
        if {*asked} - known:
            assert {file.as_posix(), file.parent.as_posix()} & listed, file


@pytest.mark.parametrize("file", sorted((ROOT / "examples").glob("*.py")), ids=lambda x: x.name)
def test_example_files_run(file, capsys, monkeypatch):
    if file.stem in NEEDED:
        pytest.importorskip(NEEDED[file.stem])
    arguments = ["--size", "0.1", "--pairs", "1"] if file.stem == "accelerated" else []
    monkeypatch.setattr("sys.argv", [str(file), *arguments])
    runpy.run_path(str(file), run_name="__main__")
    assert capsys.readouterr().out
