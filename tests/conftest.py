"""Settings of the test run: the marks of NumPy's own test modules, which some tests borrow."""


def pytest_configure(config):
    for mark in ("thread_unsafe", "leaks_references", "valgrind_error"):
        config.addinivalue_line("markers", f"{mark}: used by NumPy's tests")
