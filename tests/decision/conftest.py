"""A machine of which nothing is known, with a cache folder of its own."""

import pytest


@pytest.fixture
def folder(doors, tmp_path):
    doors.environment(FALCON_CACHE_DIR=str(tmp_path / "cache"), FALCON_PROFILE=None)
    doors.new_process()
    return tmp_path / "cache"


@pytest.fixture(autouse=True)
def native(doors):
    """float32 arithmetic on every machine: rates and candidates are those that a test gives."""
    doors.environment(FALCON_ARITHMETIC="native")
