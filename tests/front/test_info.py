"""`show_config` asks every backend; the import notices the web framework of the same name."""

import os
from pathlib import Path

import pytest

import falcon
from falcon._backends import BACKENDS

from ..support import python

PACKAGE = Path(falcon.__file__).parent


class Added(type(BACKENDS["numpy"])):
    """A backend that is no more than an entry of the table."""

    name, is_released = "added", False

    def describe(self):
        return {"BLAS": "its own"}

    def release_workspace(self):
        self.is_released = True


def test_every_backend_of_the_table_is_asked(monkeypatch):
    backend = Added()
    monkeypatch.setitem(BACKENDS, "added", backend)
    found = falcon.show_config("dict")
    assert found["backends"]["added"] == "available"
    assert found["added kernels"] == {"BLAS": "its own"}
    assert found["rates"]["added float32"] == "measured here when first needed"
    falcon.release_workspace()
    assert backend.is_released


@pytest.mark.parametrize("other", ["same folder", "another folder"])
def test_the_web_framework_is_noticed(tmp_path, other):
    (tmp_path / "falcon").mkdir()
    for file in PACKAGE.iterdir():
        (tmp_path / "falcon" / file.name).symlink_to(file)
    framework = tmp_path if other == "same folder" else tmp_path / "site"
    (framework / "falcon").mkdir(parents=True, exist_ok=True)
    (framework / "falcon" / "app.py").touch()
    path = os.pathsep.join(map(str, (tmp_path, framework)))
    done = python("-c", "import falcon", where={"cwd": tmp_path}, PYTHONPATH=path)
    assert ("RuntimeWarning: the web framework falcon" in done.stderr) == (other == "same folder")
    assert ("uninstall both" in done.stderr) == (other == "same folder")
