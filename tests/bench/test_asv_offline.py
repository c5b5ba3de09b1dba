"""Making asv's site work without the internet: every address of the page becomes a local file."""

import base64
import hashlib
import importlib.util
import io
import subprocess
import sys
import tarfile
import urllib.error
import urllib.request
from pathlib import Path

import pytest

FILE = Path(__file__).parents[2] / "asv_bench" / "offline.py"
CONTENT = {"jquery-3.3.1.min.js": b"jquery();", "bootstrap.min.css": b"a { color: red }"}


def digest(content):
    return "sha256-" + base64.b64encode(hashlib.sha256(content).digest()).decode()


PAGE = f"""<html><head>
<script src="https://code.jquery.com/jquery-3.3.1.min.js"
 integrity="{digest(CONTENT["jquery-3.3.1.min.js"])}"
 crossorigin="anonymous" onerror="f()"></script>
<link rel="stylesheet" crossorigin="anonymous"
 href="https://cdn.jsdelivr.net/npm/bootstrap@3.1.1/dist/css/bootstrap.min.css">
<script src="asv.js"></script>
</head><body><a href="https://example.org/">a link stays a link</a></body></html>"""


@pytest.fixture
def offline(monkeypatch, tmp_path):
    spec = importlib.util.spec_from_file_location("asv_offline", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (tmp_path / "index.html").write_text(PAGE, encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["offline.py", str(tmp_path)])
    return module


def check(folder):
    text = " ".join((folder / "index.html").read_text(encoding="utf-8").split())
    assert '<script src="vendor/jquery-3.3.1.min.js" onerror="f()">' in text
    assert 'href="vendor/bootstrap.min.css">' in text
    assert '<script src="asv.js">' in text
    assert '<a href="https://example.org/">' in text
    assert "integrity" not in text
    for name, content in CONTENT.items():
        assert (folder / "vendor" / name).read_bytes() == content


def served(address, timeout):
    return io.BytesIO(CONTENT[address.rsplit("/", 1)[1]])


def packed(command, cwd, **options):
    """`npm pack`, with the file of either package."""
    package = command[-1].partition("@")[0]
    path = {"jquery": "dist/jquery.min.js", "bootstrap": "dist/css/bootstrap.min.css"}[package]
    content = next(x for name, x in CONTENT.items() if name.startswith(package))
    with tarfile.open(Path(cwd) / "x.tgz", "w:gz") as archive:
        member = tarfile.TarInfo(f"package/{path}")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return subprocess.CompletedProcess(command, 0, "x.tgz\n", "")


def unreachable(address, timeout):
    raise urllib.error.URLError("no network")


def test_from_the_addresses(offline, monkeypatch, tmp_path):
    monkeypatch.setattr(urllib.request, "urlopen", served)
    offline.main()
    check(tmp_path)
    offline.main()  # nothing is left to do
    check(tmp_path)


def test_from_npm(offline, monkeypatch, tmp_path):
    monkeypatch.setattr(urllib.request, "urlopen", unreachable)
    monkeypatch.setattr(subprocess, "run", packed)
    offline.main()
    check(tmp_path)


def test_a_file_with_another_checksum_is_not_used(offline, monkeypatch, tmp_path):
    def other(address, timeout):
        return io.BytesIO(b"harm") if "jquery" in address else served(address, timeout)

    monkeypatch.setattr(urllib.request, "urlopen", other)
    monkeypatch.setattr(subprocess, "run", packed)
    offline.main()
    check(tmp_path)


def test_unknown_files_are_refused(offline, monkeypatch, tmp_path):
    page = '<script src="https://example.org/new.js"></script>'
    (tmp_path / "index.html").write_text(page, encoding="utf-8")
    monkeypatch.setattr(urllib.request, "urlopen", unreachable)
    with pytest.raises(SystemExit, match=r"example\.org/new\.js cannot be reached"):
        offline.main()
    assert (tmp_path / "index.html").read_text(encoding="utf-8") == page
