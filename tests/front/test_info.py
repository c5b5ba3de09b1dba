"""`falcon.show_config` and the import notice the web framework of the same name."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import falcon

PACKAGE = Path(falcon.__file__).parent


@pytest.mark.parametrize("other", ["same folder", "another folder", "absent"])
def test_the_web_framework_is_noticed(tmp_path, other):
    (tmp_path / "falcon").mkdir()
    for file in PACKAGE.iterdir():
        (tmp_path / "falcon" / file.name).symlink_to(file)
    framework = tmp_path if other == "same folder" else tmp_path / "site"
    if other != "absent":
        (framework / "falcon").mkdir(parents=True, exist_ok=True)
        for name in {"app.py", "__init__.py"} - {x.name for x in (framework / "falcon").iterdir()}:
            (framework / "falcon" / name).touch()
        (framework / "falcon-4.2.0.dist-info").mkdir()
        (framework / "falcon-4.2.0.dist-info" / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: falcon\nVersion: 4.2.0\n"
        )
    program = "import falcon, json; print(json.dumps(falcon.show_config('dict')['distributions']))"
    path = os.pathsep.join(map(str, (tmp_path, framework)))
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert found["imported"] == str(tmp_path / "falcon")
    assert ("RuntimeWarning: the web framework falcon" in done.stderr) == (other == "same folder")
    assert ("uninstall both" in found["falcon"]) == (other == "same folder")
    assert found["falcon"].startswith("not installed" if other == "absent" else "4.2.0, a web fra")
