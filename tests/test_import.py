"""Importing falcon is silent, has no side effects and loads little; the floors of imports hold."""

import ast
import copy
import importlib
import inspect
import json
import pickle
import re
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import falcon

from .support import python

PACKAGE = Path(falcon.__file__).parent
ROOT = PACKAGE.parent

# --- the import itself ----------------------------------------------------------------------

FORBIDDEN = (
    *("scipy", "cupy", "torch", "matplotlib", "pandas", "numba"),
    *("dask", "opt_einsum"),
)
LATER = (
    *("falcon.bench", "falcon.discover", "falcon.__main__", "falcon._gpu.adapter"),
    *("falcon.dask", "falcon.torch", "falcon._accelerate", "falcon._grade"),
    *("falcon.decision.explain", "falcon._gpu.driver", "falcon._gpu.backend", "falcon._gpu.rates"),
    *("falcon._cpu.peak", "falcon._cpu.each", "falcon._cpu.measure", "falcon._tools.timing"),
    *("falcon._front.tune", "falcon._front.verify", "falcon._front.pack", "falcon._front.contract"),
    *("falcon.decision.rewrites.residues", "falcon.decision.rewrites.triangle"),
    *("falcon._core.reals", "falcon._core.residues", "falcon._core.modular"),
    *("falcon._core.plan_text", "falcon._cpu.residues", "falcon._numpy.residues"),
    *("falcon.schemes.checking", "falcon.schemes.loaders", "falcon.schemes.published"),
    *("falcon.schemes.repair", "falcon.schemes.reading", "falcon.schemes.formulas"),
    *("falcon._front.freivalds", "falcon._front.verified"),
)
# Modules beyond NumPy's: 23 and 132 were loaded when these were set.
MOST_AT_IMPORT, MOST_AT_FIRST_CALL = 40, 140
SLOW = ("importlib.metadata", "subprocess", "multiprocessing", "asyncio", "argparse", "unittest")
PROBE = """
import os, sys, threading, json
import numpy, numpy.random
environment, threads, errors = dict(os.environ), threading.active_count(), numpy.geterr()
affinity = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
tasks = len(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else 0
before = set(sys.modules)
import warnings
warnings.simplefilter("error")
import falcon
print(json.dumps({
    "environment": dict(os.environ) == environment,
    "threads": threading.active_count() - threads,
    "tasks": (len(os.listdir("/proc/self/task")) if tasks else 0) - tasks,
    "affinity": affinity is None or os.sched_getaffinity(0) == affinity,
    "errors": numpy.geterr() == errors,
    "modules": sorted({x.split(".")[0] for x in set(sys.modules) - before}),
    "loaded": sorted(set(sys.modules) - before),
    "gemm": falcon.gemm(numpy.ones((8, 8)), numpy.ones((8, 8))).sum(),
    "needed": sorted(set(sys.modules) - before),
    "measured": len(falcon.machine().rates),
}))
"""


@pytest.fixture(scope="module")
def probe():
    # An empty cache folder: a stored profile would be read, though not at import.
    return json.loads(python("-c", PROBE, FALCON_CACHE_DIR="/none").stdout)


def test_silent():
    done = python("-W", "error", "-c", "import falcon")
    assert (done.stdout, done.stderr) == ("", "")


def test_no_side_effects(probe):
    assert probe["environment"] and probe["affinity"] and probe["errors"]
    assert probe["threads"] == probe["tasks"] == probe["measured"] == 0


def test_nothing_heavy_is_imported(probe):
    assert "falcon" in probe["modules"]
    assert not set(FORBIDDEN) & set(probe["modules"])


def test_the_import_loads_little(probe):
    """asv measures how long it takes."""
    assert "falcon._tools.threads" in probe["loaded"]
    assert len(probe["loaded"]) <= MOST_AT_IMPORT, probe["loaded"]


def test_only_what_a_first_call_needs_is_imported(probe):
    loaded = set(probe["needed"])
    assert {"falcon._front.gemm", "falcon._numpy.backend", "falcon.schemes.catalogue"} <= loaded
    assert len(loaded) <= MOST_AT_FIRST_CALL, loaded
    # Tools, what only GPUs, tables and tuning need, and modules that are slow to import.
    assert all(exists(name) for name in LATER)
    for name in (*LATER, *SLOW):
        assert not [x for x in loaded if x == name or x.startswith(f"{name}.")], name
    installed = {x for x in probe["modules"] if not x.startswith(("_", "numpy"))}
    # threadpoolctl (3 ms) must be told of falcon before a user sets a limit.
    assert installed - sys.stdlib_module_names == {"falcon", "threadpoolctl"}


@pytest.mark.parametrize(
    ("module", "library", "why"),
    [
        ("falcon.torch", "torch", "falcon.torch needs PyTorch: pip install torch"),
        ("falcon.dask", "dask", "falcon.dask needs Dask: pip install 'dask[array]'"),
    ],
)
def test_a_missing_library_is_named(monkeypatch, module, library, why):
    for loaded in [x for x in sys.modules if x == module or x.startswith(f"{module}.")]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ModuleNotFoundError) as caught:
        importlib.import_module(module)
    assert (str(caught.value), caught.value.name) == (why, library)


def test_a_clone_beside_a_program_does_not_hide_it(tmp_path):
    """An editable installation is a folder of Python's path, which comes before empty packages."""
    (tmp_path / "falcon").mkdir()
    done = python("-c", "import falcon; print(falcon.gemm)", where={"cwd": tmp_path}, PYTHONPATH="")
    assert "function gemm" in done.stdout


def test_public_names():
    for name in falcon.__all__:
        assert getattr(falcon, name) is not None
    assert list(falcon.__all__) == sorted(falcon.__all__)
    assert {*falcon.__all__} <= {*dir(falcon)}
    assert not hasattr(falcon, "none")
    assert pickle.loads(pickle.dumps(falcon.accelerate)) is falcon.accelerate


EVERY = """
import sys, threading
import falcon

def look(shift):
    names = falcon.__all__[shift:] + falcon.__all__[:shift]
    start.wait()
    found.append({name: id(getattr(falcon, name)) for name in names})

found, count = [], len(falcon.__all__)
start = threading.Barrier(count)
threads = [threading.Thread(target=look, args=(i,)) for i in range(count)]
sys.setswitchinterval(1e-6)
[x.start() for x in threads]
[x.join() for x in threads]
assert len(found) == count and all(x == found[0] for x in found)
before = set(globals())
from falcon import *
assert set(globals()) - before == {"before", *falcon.__all__}
"""


def test_names_are_imported_when_first_asked_for():
    """By threads at once, each beginning at another name; ``import *`` knows all of them."""
    python("-W", "error", "-c", EVERY)


def test_type_checkers_are_told_the_same_homes():
    """Of the names that `__getattr__` imports."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    (told,) = (x.body for x in tree.body if isinstance(x, ast.If))
    homes = {x.name: each.module or x.name for each in told for x in each.names}
    assert homes == {x: falcon._HOME_OF[x] for x in {*falcon.__all__} - {"__version__"}}


def test_ipython_extension(monkeypatch):
    """As ``%load_ext falcon`` asks for it, and ``%unload_ext``."""
    said = []
    monkeypatch.setattr("falcon._accelerate.switch.accelerate", lambda on=True: said.append(on))
    falcon.load_ipython_extension(None)
    falcon.unload_ipython_extension(None)
    assert said == [True, False]


# --- floors of imports ----------------------------------------------------------------------

# A file imports only from floors below its own, and within its own package. Longest name wins.
FLOORS = {
    "falcon.__main__": 10,
    "falcon.bench": 9,
    "falcon.discover": 9,
    "falcon.dask": 8,
    "falcon.torch": 8,
    "falcon._accelerate": 8,
    "falcon._grade": 8,
    "falcon": 7,  # __init__.py: the public names, for users, benchmarks and the command line
    "falcon._front": 6,
    "falcon._backends": 5,
    "falcon.decision": 4,
    "falcon._numpy": 4,
    "falcon._cpu": 4,
    "falcon._gpu": 4,
    "falcon._core": 3,
    "falcon.codegen": 3,
    "falcon.schemes": 2,
    "falcon._tools": 1,  # they know nothing of products
    "falcon._version": 0,
}
GENERATED = ("falcon._cpu._build",)  # by setup.py: why the compiled parts are missing
# site/ is no package: Python finds its file when a process starts.
FILES = sorted(x for x in PACKAGE.rglob("*.py") if x.parent.name != "site")


def unit(module):
    """The entry of the table that a module belongs to."""
    parts = module.split(".")
    for length in range(len(parts), 1, -1):
        if ".".join(parts[:length]) in FLOORS:
            return ".".join(parts[:length])
    assert parts == ["falcon"], f"{module} has no floor: add it to the table"
    return "falcon"


def module_of(file):
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def exists(module):
    path = ROOT.joinpath(*module.split("."))
    return path.is_dir() or any(path.parent.glob(f"{path.name}.*"))


def imports(file):
    """Modules of falcon that a file imports, in functions too."""
    package = module_of(file) if file.name == "__init__.py" else module_of(file).rpartition(".")[0]
    tree = ast.parse(file.read_text(encoding="utf-8"))
    if file == PACKAGE / "__init__.py":  # what stands there for type checkers: LATER
        tree.body = [x for x in tree.body if not isinstance(x, ast.If)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (x.name for x in node.names if x.name.split(".")[0] == "falcon")
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, base] if base else above)
            if base.split(".")[0] != "falcon":
                continue
            for name in (x.name for x in node.names):
                yield f"{base}.{name}" if exists(f"{base}.{name}") else base


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_imports_go_down(file):
    own = unit(module_of(file))
    for target in imports(file):
        other = unit(target)
        if other == own:
            continue
        assert FLOORS[other] < FLOORS[own], f"{own} (floor {FLOORS[own]}) imports {target}"
        # Private files of a package are its own: falcon.schemes._scheme, say.
        inner = target.removeprefix(other).split(".")[1:]
        if other != "falcon" and target not in GENERATED:
            assert not any(part.startswith("_") for part in inner), f"{own} imports {target}"


def test_no_file_imports_itself_by_way_of_others():
    """Inside packages too; imports in functions and for type checkers count."""
    graph = {module_of(file): {x for x in imports(file) if x not in GENERATED} for file in FILES}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"a circle of imports: {' <- '.join(error.args[1])}")


# What doors outside of `_front` know of the inside: names of one module, which may get fewer.
DOORS = ("falcon.torch", "falcon.dask", "falcon._accelerate", "falcon._grade")
SURFACE, MOST_NAMES, OPEN = "falcon._front.surface", 50, ("falcon", "falcon._tools")
MOST_OF_BENCH = 36  # it measures inner parts on purpose


def test_doors_know_few_names_of_the_inside():
    """All of the surface's names are used, and type checkers are told the same."""
    surface = importlib.import_module(SURFACE)
    used = set()
    for file in FILES:
        if unit(module_of(file)) in DOORS:
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ImportFrom) and node.module == SURFACE:
                    used |= {x.name for x in node.names}
            inner = {x for x in imports(file) if unit(x) not in (*OPEN, unit(module_of(file)))}
            assert inner <= {SURFACE}, file
    tree = ast.parse(Path(surface.__file__).read_text(encoding="utf-8"))
    (late,) = (x.body for x in tree.body if isinstance(x, ast.If))
    homes = {x.name: f"_front.{each.module}" if each.level else each.module[7:]
             for each in late for x in each.names}  # fmt: skip
    assert homes == surface._HOME_OF
    early = {x.name for each in tree.body if isinstance(each, ast.ImportFrom) for x in each.names}
    early -= {"import_module", "importing", "TYPE_CHECKING", "Any"}
    assert used == early | homes.keys() and len(used) <= MOST_NAMES
    assert all(getattr(surface, name) is not None for name in used)
    assert not hasattr(surface, "none")


def test_bench_knows_few_names_of_the_inside():
    own, used = ("falcon.bench", *OPEN), set()
    for file in FILES:
        if unit(module_of(file)) == "falcon.bench":
            tree = ast.parse(file.read_text(encoding="utf-8"))
            for node in (x for x in ast.walk(tree) if isinstance(x, ast.ImportFrom)):
                if (
                    not node.level
                    and node.module.startswith("falcon.")
                    and (unit(node.module) not in (*own, "falcon.schemes"))
                ):
                    used |= {x.name for x in node.names}
    assert len(used) <= MOST_OF_BENCH, sorted(used)


def test_the_table_has_no_stale_entries():
    for name in FLOORS:
        assert exists(name), name


def test_few_files_are_loose():
    """Everything else is in a package, which has a floor and a map."""
    loose = {file.name for file in PACKAGE.glob("*.py")}
    assert loose == {"__init__.py", "__main__.py", "_version.py", "_backends.py"}


def test_the_environment_is_read_in_one_place():
    """FALCON_* by `options` and `environment` alone; `info` lists what is set."""
    able = {"falcon._core.options", "falcon._core.environment", "falcon._front.info"}
    for file in FILES:
        if module_of(file) in able:
            continue
        for line in file.read_text(encoding="utf-8").splitlines():
            assert not ("FALCON_" in line and ("environ" in line or "getenv" in line)), line


OWN = ("falcon._cpu", "falcon._numpy", "falcon._gpu")  # a backend's own package


def test_backends_are_named_in_one_place():
    """Who needs one asks `_backends`; but documentation names them."""
    named = re.compile(r"""(backend|Method\(|BACKENDS).{0,12}["'](cpu|numpy)["']""")
    told = ("falcon._core.options", "falcon._front.info")
    for file in FILES:
        if module_of(file) not in told and unit(module_of(file)) not in OWN:
            assert not named.search(file.read_text(encoding="utf-8")), file


def test_properties_take_no_lock_of_their_class():
    """functools' cached_property does, in Python 3.11: a forked child would wait for ever."""
    held = [x.name for x in FILES if "cached_property" in x.read_text(encoding="utf-8")]
    assert held == ["lazy.py"]


EXCEPTIONS = [
    (module_of(file), node.name)
    for file in FILES
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
    if isinstance(node, ast.ClassDef)
    and any(ast.unparse(x).endswith(("Error", "Exception", "Warning")) for x in node.bases)
]


@pytest.mark.parametrize(("module", "name"), EXCEPTIONS, ids=lambda x: x)
def test_exceptions_outlive_pickle_and_copy(module, name):
    """As pools need it: an exception that cannot be unpickled ends no `Pool.map`."""
    made = getattr(importlib.import_module(module), name)
    taken = list(inspect.signature(made.__init__).parameters.values())[1:]
    error = made(*(x.name for x in taken if x.default is x.empty))
    error.note = "kept"
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert (type(again), again.args, vars(again)) == (made, error.args, vars(error))


def test_files_are_small():
    for file in FILES:
        lines = len(file.read_text(encoding="utf-8").splitlines())
        assert lines <= 400, f"{file.relative_to(ROOT)} has {lines} lines; 400 are the limit"


@pytest.mark.parametrize(
    "package", sorted({file.parent for file in FILES} - {PACKAGE}), ids=lambda x: x.name
)
def test_a_package_says_what_its_files_are_for(package):
    """Its docstring is a map: it names every file, and no file that does not exist."""
    text = ast.get_docstring(ast.parse((package / "__init__.py").read_text(encoding="utf-8")))
    named = {word.strip(",.:;()") for word in text.split()}
    files = {file.name for file in package.glob("*.py")} - {"__init__.py", "_build.py"}
    assert files - named == set()
    assert {x for x in named if x.endswith(".py")} - files == set()


def test_the_oracle_is_never_imported():
    for file in FILES:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [x.name for x in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not any(x.split(".")[0] == "reference" for x in names), file
