"""Test suites that others wrote, with falcon in them: ``python studies/suites.py [SUITE ...]``.

    --way W ...        plain on lowered lcma (all four; "named" too)
    --array-api DIR    a clone of data-apis/array-api-tests, with its submodules, for array-api
    --only TEXT        instead of a suite's own selection (pytest's -k)
    --seconds N        most for each run (900)
    -o FILE            everything as JSON, also the names of tests that fail

Each way runs in a process of its own. "plain" is the library as it stands; "on" with
`falcon.accelerate()` (or falcon's functions in place of NumPy's) at falcon's own thresholds.
"lowered" hands falcon the smallest products, and takes its kernels for all that they can multiply;
"lcma" takes Strassen's scheme for all floats, as "auto" would (norms are looked at first), "named"
as scheme="strassen" does. The table has the tests that pass plainly and, for each other way, the
products that falcon's kernels multiplied (lcma, named: those by LCMAs), and how many tests fail
that do not plainly; their names follow. This file is also the plugin of pytest that counts.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from math import prod
from pathlib import Path
from unittest.mock import patch

HERE = Path(__file__).parent
WAYS = ["plain", "on", "lowered", "lcma", "named"]
# Without the tests of 2^30 elements and more.
PRODUCTS = "(matmul or Matmul or MatMul or dot or Dot) and not huge"


@dataclass(frozen=True)
class Suite:
    """Tests of a library: arguments of pytest."""

    package: str
    tests: tuple[str, ...]
    only: str = ""
    has_options: bool = False  # by a conftest.py, which pytest reads early for paths alone

    @property
    def arguments(self):
        if not self.has_options:
            return ["--pyargs", *self.tests]
        home = Path(find_spec(self.package).origin).parents[1]
        paths = [str(home.joinpath(*x.split(".")).with_suffix(".py")) for x in self.tests]
        return ["-c", os.devnull, f"--rootdir={home}", f"--confcutdir={home}", *paths]


CORE = "numpy._core.tests.test_"
SUITES = {
    "numpy-matmul": Suite("numpy", (CORE + "multiarray",), PRODUCTS),
    "numpy-einsum": Suite("numpy", (CORE + "einsum",)),
    "numpy-linalg": Suite("numpy", ("numpy.linalg", "numpy.matrixlib", CORE + "overrides")),
    "array-api": Suite("numpy", ("array_api_tests/test_linalg.py", "--max-examples=5000",
                                 "--hypothesis-seed=0"), "matmul or tensordot or vecdot"),
    "opt_einsum": Suite("opt_einsum", ("opt_einsum",)),
    "dask": Suite("dask", ("dask.array.tests.test_routines", "dask.array.tests.test_linalg"),
                  "matmul or tensordot or dot or tsqr or sfqr or lstsq"),
    "scipy": Suite("scipy", tuple(f"scipy.linalg.tests.test_{x}" for x in (
        "matfuncs", "solvers", "procrustes", "decomp_polar", "sketches"))),
    # Without those that take long and multiply little.
    "sklearn": Suite("sklearn", ("sklearn.decomposition.tests.test_pca",
                                 "sklearn.linear_model.tests.test_base",
                                 "sklearn.tests.test_kernel_ridge",
                                 "sklearn.gaussian_process.tests.test_gpr"),
                     "not array_api and not optim and not random_starts and not sparse"),
    "statsmodels": Suite("statsmodels", tuple(
        f"statsmodels.regression.tests.test_{x}"
        for x in ("regression", "glsar_gretl", "glsar_stata", "predict", "theil", "robustcov",
                  "cov", "dimred", "tools")), has_options=True),
}  # fmt: skip


# --- in the process of the tests ------------------------------------------------------------

counts: Counter = Counter()
_lock = threading.Lock()
_outcomes: dict[str, str] = {}


def _count(**more):
    with _lock:
        counts.update(more)


def observe():
    """Count what is handed to falcon, and what its kernels multiply."""
    from falcon._accelerate import switch
    from falcon._cpu import _core

    product, gemm, gemm_batch = switch._product, _core.gemm, _core.gemm_batch

    def handed(a, b, out):
        answer = product(a, b, out)
        if answer is not NotImplemented:
            _count(handed=prod(answer.shape[:-2]))
        return answer

    def one(layout, *operands, **how):
        _count(kernels=1, lcma=int(layout.scheme is not None))
        return gemm(layout, *operands, **how)

    def batch(layout, a, b, out, shape, *others, **how):
        _count(kernels=prod(shape))
        return gemm_batch(layout, a, b, out, shape, *others, **how)

    switch._product, _core.gemm, _core.gemm_batch = handed, one, batch


def lower(way):
    """Hand all products to falcon, and have its kernels multiply them; by a scheme if told."""
    from falcon import schemes
    from falcon._accelerate import switch
    from falcon._backends import get_backend
    from falcon._front import calls, planner
    from falcon.decision import library

    batch = 0.0, *library.limits_of_loops()[2][1:]
    for module, values in (  # a name that the module does not have is an error
        (switch, {"limits_of_loops": lambda: (1, 0.0, batch), "_LEAST_OF_LOOPS": 0.0}),
        (library, {"is_long_batch": lambda *_: True}),
        (calls, {"_small": lambda a, b, out: None}),
    ):  # fmt: skip
        patch.multiple(module, **values).start()
    cpu, decide = get_backend("cpu"), planner.decide
    changes = [{"scheme": "classical"}]
    if way != "lowered":
        changes.insert(0, {"scheme": schemes.get("strassen")})

    def guarded(plan):
        """Return the plan as "auto" would run it; that of x @ x.T keeps schemes in its parts."""
        parts = tuple(replace(x, plan=guarded(x.plan)) for x in plan.parts)
        found = [plan.scheme, *(x.plan.scheme for x in parts)]
        return replace(plan, parts=parts, guarded=any(x is not None for x in found))

    def lowered(problem, options, backends):
        if (options.scheme, options.backend, problem.device) == ("auto", "auto", None):
            for x in changes[problem.is_exact and len(changes) - 1 :]:
                try:
                    chosen = decide(problem, replace(options, backend="cpu", **x), [cpu])
                except (TypeError, ValueError):  # no kernels for it
                    continue
                chosen = replace(chosen, options=options)
                return guarded(chosen) if way == "lcma" else chosen
        return decide(problem, options, backends)

    planner.decide = lowered


def place(suite):
    """Put falcon's functions where a suite would take NumPy's."""
    import numpy as np

    import falcon

    if suite == "opt_einsum":
        contract = import_module("opt_einsum.contract")  # the package has a function of this name
        parse = contract.parse_backend

        def parsed(arrays, backend):
            found = parse(arrays, backend)
            return "falcon" if found == "numpy" else found

        contract.parse_backend = parsed
    elif suite == "array-api":
        copied = import_module("array_api_tests._array_module")  # NumPy's functions
        for x in (copied, np.linalg):
            x.matmul, x.tensordot = falcon.matmul, falcon.tensordot
    elif suite == "dask":
        import dask.array as da
        from dask.array import routines

        import falcon.dask
        from falcon.dask import api

        api.da_matmul = routines.matmul
        routines.matmul = da.matmul = falcon.dask.matmul


def pytest_configure(config):
    way = os.environ["SUITES_WAY"]
    if way != "plain":
        import falcon

        observe()
        if way != "on":
            lower(way)
        falcon.accelerate(quiet=True)
        place(os.environ["SUITES_SUITE"])


def pytest_runtest_logreport(report):
    if report.when == "call" or report.outcome != "passed":
        said = f"x{report.outcome}" if hasattr(report, "wasxfail") else report.outcome
        _outcomes[report.nodeid] = said


def pytest_collectreport(report):
    if report.failed:
        _outcomes[report.nodeid] = "failed"


def pytest_sessionfinish():
    found = {"outcomes": _outcomes, "counts": dict(counts)}
    Path(os.environ["SUITES_FILE"]).write_text(json.dumps(found), encoding="utf-8")


# --- the study ------------------------------------------------------------------------------


def run(name, way, given):
    """Run a suite in one way; return outcomes and counts."""
    suite = SUITES[name]
    only = given.only or suite.only
    folder = given.array_api if name == "array-api" else None
    with tempfile.TemporaryDirectory(prefix="falcon-study-") as scratch:
        file = Path(scratch, "found.json")
        path = os.pathsep.join(map(str, (HERE, HERE.parent)))
        variables = {"PYTHONPATH": path, "SUITES_WAY": way, "SUITES_SUITE": name,
                     "SUITES_FILE": str(file), "ARRAY_API_TESTS_MODULE": "numpy",
                     "FALCON_CACHE_DIR": scratch}  # fmt: skip
        command = [sys.executable, "-m", "pytest", "-q", "-p", "suites", "-p", "no:cacheprovider",
                   *(["-k", only] if only else []),
                   *(suite.tests if folder else suite.arguments)]  # fmt: skip
        try:
            done = subprocess.run(
                command, cwd=folder or scratch, env={**os.environ, **variables},
                text=True, capture_output=True, timeout=given.seconds,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return {"outcomes": {}, "counts": {}, "told": f"longer than {given.seconds} s"}
        told = done.stdout[-20000:] + done.stderr[-2000:]
        if not file.exists():
            return {"outcomes": {}, "counts": {}, "told": told}
        return {**json.loads(file.read_text(encoding="utf-8")), "told": told}


def failing(found, plain):
    """Return the tests that fail, and do not so in outcomes of another run."""
    return [x for x, y in found.items() if y == "failed" != plain.get(x)]


def row(name, found):
    """Return a suite's row of the table; `found`: outcomes and counts of each way."""
    plain = found.get("plain", {"outcomes": {}})["outcomes"]
    passed = Counter(plain.values())["passed"] if plain else "-"
    cells = [name, import_module(SUITES[name].package).__version__, passed]
    for way, x in found.items():
        if way != "plain":
            of_way = "lcma" if way in ("lcma", "named") else "kernels"
            news = len(failing(x["outcomes"], plain))
            done = f"{x['counts'].get(of_way, 0):,}" + f", {news} fail" * bool(news)
            cells.append(done if x["outcomes"] else "-")
    return cells


def main():
    """Print a row for each suite; what every way does to it on standard error meanwhile."""
    parser = argparse.ArgumentParser(description=__doc__, usage="studies/suites.py [SUITE ...]")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("suite", nargs="*", metavar="SUITE", help=", ".join(SUITES))
    parser.add_argument("--way", nargs="+", default=WAYS[:-1], choices=WAYS)
    parser.add_argument("--array-api")
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=900)
    parser.add_argument("-o", dest="file")
    given = parser.parse_args()
    found: dict[str, dict] = {}
    header = ["suite", "version", "passed", *(x for x in given.way if x != "plain")]
    print("|", " | ".join(header), "|")
    print("|---" * len(header) + "|", flush=True)
    for name in given.suite or list(SUITES):
        if name == "array-api" and not given.array_api:
            continue
        ways = found[name] = {}
        for way in given.way:
            one = ways[way] = run(name, way, given)
            print(f"{name} {way}: {one['told'][-1500:].strip()}", file=sys.stderr)
            if given.file:
                Path(given.file).write_text(json.dumps(found, indent=1), encoding="utf-8")
        print("|", " | ".join(map(str, row(name, ways))), "|", flush=True)
    for name, ways in found.items():
        for way, one in ways.items():
            for x in failing(one["outcomes"], ways.get("plain", {"outcomes": {}})["outcomes"]):
                print(f"{name} {way} {x}")


if __name__ == "__main__":
    main()
