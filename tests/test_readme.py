"""The examples of the README and of examples/ run; CI runs the command that the README gives."""

import re
import runpy
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


@pytest.mark.parametrize("file", sorted((ROOT / "examples").glob("*.py")), ids=lambda x: x.name)
def test_example_files_run(file, capsys, monkeypatch):
    if file.stem in NEEDED:
        pytest.importorskip(NEEDED[file.stem])
    arguments = ["--size", "0.1", "--pairs", "1"] if file.stem == "accelerated" else []
    monkeypatch.setattr("sys.argv", [str(file), *arguments])
    runpy.run_path(str(file), run_name="__main__")
    assert capsys.readouterr().out
