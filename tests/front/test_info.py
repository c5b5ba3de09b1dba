"""The import notices the web framework of the same name."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import falcon

PACKAGE = Path(falcon.__file__).parent


@pytest.mark.parametrize("other", ["same folder", "another folder"])
def test_the_web_framework_is_noticed(tmp_path, other):
    (tmp_path / "falcon").mkdir()
    for file in PACKAGE.iterdir():
        (tmp_path / "falcon" / file.name).symlink_to(file)
    framework = tmp_path if other == "same folder" else tmp_path / "site"
    (framework / "falcon").mkdir(parents=True, exist_ok=True)
    (framework / "falcon" / "app.py").touch()
    path = os.pathsep.join(map(str, (tmp_path, framework)))
    done = subprocess.run(
        [sys.executable, "-c", "import falcon"], capture_output=True, text=True, check=True,
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert ("RuntimeWarning: the web framework falcon" in done.stderr) == (other == "same folder")
    assert ("uninstall both" in done.stderr) == (other == "same folder")
