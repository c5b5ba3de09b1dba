"""Files that users name: pipes, which may wait for ever, devices, which may not end, large ones."""

import os
import signal

import numpy as np
import pytest

import falcon
from falcon import __main__ as cli
from falcon._tools.files import read_file
from falcon.bench import records
from falcon.decision import machine

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")


@pytest.fixture
def pipe(tmp_path):
    """A function that makes a pipe into which nobody writes; who waits for it fails."""

    def make(name):
        os.mkfifo(tmp_path / name)
        return tmp_path / name

    def fail(*_):
        raise AssertionError("waits for a pipe")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(120)
    yield make
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def test_only_regular_files_of_limited_size(tmp_path, pipe):
    path = tmp_path / "some"
    path.write_bytes(b"12345")
    assert read_file(path, 5) == b"12345"
    os.truncate(path, 2**40)  # a hole
    with pytest.raises(ValueError, match="some has more than 5 bytes"):
        read_file(path, 5)
    os.symlink(pipe("none"), tmp_path / "link")
    for other in (tmp_path, tmp_path / "link", type(path)("/dev/zero")):
        with pytest.raises(OSError, match="expected a regular file"):
            read_file(other, 5)
    with pytest.raises(FileNotFoundError):
        read_file(tmp_path / "absent", 5)


@pytest.mark.parametrize("name", ["x.json", "x.txt", "x.npz", "x_L.sms", "x"])
def test_schemes(pipe, name, capsys):
    path = str(pipe(name))
    for load in (falcon.schemes.load, falcon.schemes.load_all):
        with pytest.raises(OSError, match="a regular file"):
            load(path)
    assert cli.main(["schemes", "--verify", path]) == 1
    assert "is a directory, pipe or device" in " ".join(capsys.readouterr().out.split())


def test_records(pipe):
    with pytest.raises(OSError, match="a regular file"):
        records.read(pipe("x.json"))


def test_a_profile(pipe, monkeypatch, doors, caplog):
    monkeypatch.setenv("FALCON_PROFILE", str(pipe("profile.json")))
    a = np.arange(90000.0).reshape(300, 300)
    doors.new_process()
    doors.nothing_registered()
    assert np.array_equal(falcon.gemm(a, np.eye(300)), a)
    assert "profile.json is a directory, pipe" in caplog.text
    monkeypatch.undo()
    machine.replaced()
