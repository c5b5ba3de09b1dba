"""What type checkers see of the public functions."""

from importlib.metadata import entry_points
from pathlib import Path

import pytest

import falcon

from ..support import python

CODE = """
import numpy as np
import falcon
a = np.ones((3, 3))
reveal_type(falcon.gemm(a, a))
reveal_type(falcon.matmul(a, a))
reveal_type(falcon.matmul(a, a, out=a))
reveal_type(falcon.gemm([[1.0]], [[1.0]], threads=2))
reveal_type(falcon.plan(a, a, workspace_limit="64MiB"))
falcon.gemm(a, a, check="yes")
falcon.matmul(a, a, threads="2")
falcon.plan(a, a, treads=1)
falcon.config(threads=1, check="maybe")
falcon.set_config(treads=1)
reveal_type(falcon.gram(a))
falcon.gram(a, symmetric="left")
"""
EXPECTED = {
    5: 'Revealed type is "numpy.ndarray[',
    6: 'Revealed type is "numpy.ndarray[',
    7: 'Revealed type is "numpy.ndarray[',
    8: 'Revealed type is "Any"',
    9: 'Revealed type is "falcon._core.plan.Plan"',
    10: "No overload variant",
    11: "No overload variant",
    12: 'Unexpected keyword argument "treads"',
    13: "has incompatible type \"Literal['maybe']\"",
    14: 'Unexpected keyword argument "treads"',
    15: 'Revealed type is "numpy.ndarray[',
    16: "No overload variant",
}


@pytest.mark.slow
def test_types(tmp_path):
    pytest.importorskip("mypy")
    file = tmp_path / "user.py"
    file.write_text(CODE)
    how = "-m", "mypy", "--config-file", "", "--cache-dir", tmp_path, file
    done = python(*how, status=None)
    said = {}
    for line in done.stdout.splitlines():
        name, _, rest = line.partition(":")
        number, _, message = rest.partition(":")
        if name.endswith("user.py") and number.isdigit():
            said.setdefault(int(number), message)
    for number, message in EXPECTED.items():
        assert message in said.get(number, ""), (number, done.stdout)
    assert said.keys() == EXPECTED.keys()


def test_the_console_script():
    """falcon-gemm is `python -m falcon`."""
    text = (Path(falcon.__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    assert '[project.scripts]\nfalcon-gemm = "falcon.__main__:main"\n' in text
    for script in entry_points(group="console_scripts", name="falcon-gemm"):
        assert script.load() is __import__("falcon.__main__").__main__.main
