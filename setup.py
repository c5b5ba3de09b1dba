"""Build falcon: pure Python plus some optional compiled extensions.

`falcon._cpu._core` holds the CPU kernels; `falcon/_cpu/sources.py` lists the files, their flags and
the machines that they are for. `falcon.discover.walk._core` and `falcon.discover.numerical._fit`
are the inner loops of the scheme search. `falcon._core.formulas`, which fresh plans use, and
`falcon._tools.uninterrupted` are Python that Cython compiles as well.
If compiling fails, the installation succeeds all the same: the reason is recorded for
`falcon.show_config()`, and falcon runs on NumPy's BLAS. Environment variables:

    FALCON_BUILD=require       fail if an extension cannot be built
    FALCON_BUILD=skip          do not build any (the default on Windows)
    FALCON_THREADING=own       leave out OpenMP's threads, as wheels do
    CFLAGS="-g -O3"            debugging information, which is left out without CFLAGS
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import platform
import re
import subprocess
import sys
import tempfile
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from threading import Event, Thread
from types import ModuleType
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

ROOT = Path(__file__).resolve().parent
CPU = Path("falcon") / "_cpu"
DISCOVER = Path("falcon") / "discover"
CORE = Path("falcon") / "_core"
TOOLS = Path("falcon") / "_tools"
LOOPS = "falcon._accelerate._loops"
MODE = os.environ.get("FALCON_BUILD", "skip" if sys.platform == "win32" else "optional")
# The machine to build for: that of a cross build, else this one.
MACHINE = os.environ.get("_PYTHON_HOST_PLATFORM", platform.machine()).rpartition("-")[2]
if sys.platform == "darwin":  # a Python for two machines would compile everything for both
    os.environ.setdefault("ARCHFLAGS", f"-arch {MACHINE}")
# -g is among Python's own flags, which CFLAGS replaces, and takes a quarter of a compiler's time.
FIRST_FLAGS = [] if "CFLAGS" in os.environ else ["-g0"]
OPENMP = os.environ.get("FALCON_THREADING") != "own"


def load_table() -> ModuleType:
    """Import sources.py by path: falcon itself must not be imported while it is built."""
    spec = importlib.util.spec_from_file_location("sources", ROOT / CPU / "sources.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["sources"] = module  # NamedTuple looks its module up
    spec.loader.exec_module(module)
    return module


TABLE = load_table()


def digest(codes: str) -> str:
    """Return a digest of what compiled parts are made of: sources, Python, NumPy, flags."""
    known = [os.environ.get(x) for x in ("CC", "CFLAGS", "LDFLAGS", "FALCON_THREADING")]
    with suppress(ImportError):
        known.append(importlib.import_module("numpy").__version__)
    held = sha256(repr((sys.version, MACHINE, known)).encode())
    held.update(codes.encode())
    names = "setup.py", "sources.py", "dtypes.py", "formulas.py", "uninterrupted.py"
    kinds = ".c", ".h", ".pyx", ".pxd", ".pxi"
    for path in [ROOT / "setup.py", *sorted((ROOT / "falcon").rglob("*.*"))]:
        is_made = path.suffix == ".c" and any(path.with_suffix(x).exists() for x in (".pyx", ".py"))
        if (path.suffix in kinds or path.name in names) and not is_made:
            held.update(path.read_bytes())
    return held.hexdigest()


def load_dtypes() -> ModuleType:
    """Import dtypes.py, which needs NumPy, without falcon, for the same reason."""
    for name in ("", "._core", "._tools"):
        package = ModuleType(f"falcon_sources{name}")
        package.__path__ = [str(ROOT / "falcon" / name.removeprefix("."))]
        sys.modules[package.__name__] = package
    return importlib.import_module("falcon_sources._core.dtypes")


def _short(error: BaseException) -> str:
    """Return the first line of an error; of a command that failed, its name and status."""
    text = f"{type(error).__name__}: {error}".splitlines()[0]
    return re.sub(r"Command '\['([^']+)'.*\]'", r"command '\1'", text)[:200]


class BuildOptional(build_ext):
    """Compile the kernels once per instruction set; record the reason if that fails."""

    codes = made_of = ""

    def run(self) -> None:
        if MODE == "skip":
            set_by = "FALCON_BUILD=skip was set when falcon was built"
            self._record("there is none for Windows" if sys.platform == "win32" else set_by)
            return
        try:
            self.codes = scheme_codes()
            self.made_of = digest(self.codes)
            if self.editable_mode and self._is_built():
                print("falcon: its compiled parts are there, and made of these sources")
                return
            super().run()
        except (Exception, SystemExit) as error:
            if MODE == "require":
                raise
            reason = _short(error)
            self._record(f"compiling it failed: {reason}")
            print(f"falcon: continuing without the compiled extension. {reason}", file=sys.stderr)
            return
        self._record("")

    def build_extensions(self) -> None:
        """Compile the files of all extensions beside each other; then link each extension."""
        usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
        self.pool = ThreadPoolExecutor(usable or os.cpu_count())
        self.jobs: list[Future[list[str]]] = []
        self.begun: list[str] = []
        self.compile, link = self.compiler.compile, self.compiler.link_shared_object
        links: list[partial[None]] = []
        self.compiler.compile = self._start
        self.compiler.link_shared_object = lambda *x, **y: links.append(partial(link, *x, **y))
        is_done = Event()
        Thread(target=self._tell, args=(is_done,), daemon=True).start()
        try:
            super().build_extensions()
            wait(self.jobs, return_when=FIRST_EXCEPTION)
        finally:
            self.pool.shutdown(cancel_futures=True)
            is_done.set()
        for finish in (*(job.result for job in self.jobs), *links):
            finish()

    def _start(self, sources: list[str], output_dir: str, **options: Any) -> list[str]:
        """Start to compile some files; return the names of the objects."""

        def compile_one(source: str) -> list[str]:
            self.begun.append(Path(source).stem)
            return self.compile([source], output_dir, extra_preargs=FIRST_FLAGS, **options)

        self.jobs += [self.pool.submit(compile_one, x) for x in sources]
        return self.compiler.object_filenames(sources, output_dir=output_dir)

    def _tell(self, is_done: Event) -> None:
        while not is_done.wait(10):
            if self.begun:
                place = f"{len(self.begun)} of {len(self.jobs)}"
                print(f"falcon: compiling {place} ({self.begun[-1]})", flush=True)

    def build_extension(self, extension: Extension) -> None:
        if extension.name == LOOPS:
            self._add_header(extension, "numpy_types.h", numpy_types())
        if extension.name != "falcon._cpu._core":
            super().build_extension(extension)
            return
        self._compile_empty()  # a compiler that cannot be run ends it here
        flags = [*TABLE.COMMON_FLAGS]
        include = [str(CPU / TABLE.INCLUDE_DIR), self.build_temp]
        built = [x for x in TABLE.isas_for(MACHINE) if self._knows(x.flags)]
        for isa in {*TABLE.isas_for(MACHINE)} - {*built}:
            print(f"falcon: no {isa.name} kernels: the compiler does not know their flags")
        tables = TABLE.tables(load_dtypes().ENGINE_NAMES, tuple(built))
        self._add_header(extension, TABLE.TABLES, tables)
        self._add_header(extension, TABLE.CODES, self.codes)
        if OPENMP and self._knows(TABLE.OPENMP_FLAGS, "omp.h"):
            extension.extra_compile_args += TABLE.OPENMP_FLAGS
            extension.extra_link_args += TABLE.OPENMP_FLAGS
        for isa in sorted(built, key=lambda x: (-len(x.types), -len(x.flags))):  # longest first
            extension.extra_objects += self._start(
                [str(CPU / name) for name in isa.sources],
                output_dir=str(Path(self.build_temp) / isa.name),
                include_dirs=include,
                extra_postargs=[*flags, *isa.flags],
            )
        super().build_extension(extension)

    def _add_header(self, extension: Extension, name: str, text: str) -> None:
        """Write a header that the extension includes, and whose changes rebuild it."""
        path = Path(self.build_temp) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="ascii") != text:
            path.write_text(text, encoding="ascii")
        extension.include_dirs.append(self.build_temp)
        extension.depends.append(str(path))

    def _knows(self, flags: tuple[str, ...], header: str = "stddef.h") -> bool:
        """Whether the compiler takes these flags, and has the header; another one may not."""
        try:
            self._compile_empty(flags, header)
        except CompileError:
            return False
        return True

    def _compile_empty(self, flags: tuple[str, ...] = (), header: str = "stddef.h") -> None:
        with tempfile.TemporaryDirectory() as folder:
            empty = Path(folder) / "empty.c"
            empty.write_text(f"#include <{header}>\nint nothing;\n", encoding="ascii")
            self.compile([str(empty)], output_dir=folder, extra_postargs=[*flags])

    def get_outputs(self) -> list[str]:
        """Name only files that were built: a missing extension is no packaging error."""
        return [path for path in super().get_outputs() if Path(path).exists()]

    def get_output_mapping(self) -> dict[str, str]:
        mapping = super().get_output_mapping()
        return {built: source for built, source in mapping.items() if Path(built).exists()}

    def _is_built(self) -> bool:
        """Whether an earlier build of this clone left all extensions, made of what is here now."""
        record = ROOT / CPU / "_build.py"
        return (
            all((ROOT / self.get_ext_filename(x.name)).exists() for x in self.extensions)
            and record.exists()
            and record.read_text(encoding="utf-8").endswith(self._facts(""))
        )

    def _facts(self, reason: str) -> str:
        return f"reason = {reason!r}\nmade_of = {self.made_of!r}\n"

    def _record(self, reason: str) -> None:
        """Write falcon/_cpu/_build.py, which show_config() reads."""
        title = '"""Written by setup.py: why the compiled extension is missing."""'
        text = f"{title}\n\n{self._facts(reason)}"
        base = ROOT if self.inplace or self.editable_mode else Path(self.build_lib)
        (base / CPU).mkdir(parents=True, exist_ok=True)
        (base / CPU / "_build.py").write_text(text, encoding="utf-8")


def scheme_codes() -> str:
    """Return C text of the sums of some schemes, written by falcon.codegen in another process."""
    lines = ["import sys, types", "x = sys.modules['falcon'] = types.ModuleType('falcon')"]
    lines += [f"x.__path__ = [{str(ROOT / 'falcon')!r}]"]  # falcon itself needs compiled parts
    lines += ["from falcon.codegen.cpu_emit import header_of"]
    lines += [f"sys.stdout.write(header_of({TABLE.CODED!r}))"]
    command = [sys.executable, "-c", "\n".join(lines)]
    how = {"check": True, "stdout": subprocess.PIPE, "text": True, "cwd": ROOT}
    return subprocess.run(command, **how).stdout


def discover_extension(folder: str, name: str) -> Extension:
    """Describe a part of the scheme search: plain C, the same for every machine."""
    package = DISCOVER / folder
    src = package / "src"
    return Extension(
        f"falcon.discover.{folder}.{name}",
        [str(package / f"{name}.pyx"), *map(str, sorted(src.glob("*.c")))],
        include_dirs=[str(src)],
        extra_compile_args=["-O3", "-std=gnu11", "-fvisibility=hidden"],
        depends=[*map(str, sorted(src.glob("*.h")))],
    )


def cpu_extension() -> Extension:
    """Describe the CPU kernels; objects and macros per instruction set are added while building."""
    return Extension(
        "falcon._cpu._core",
        [str(CPU / TABLE.CYTHON), *(str(CPU / name) for name in TABLE.BASELINE)],
        include_dirs=[str(CPU / TABLE.INCLUDE_DIR)],
        extra_compile_args=[*TABLE.COMMON_FLAGS],
        libraries=["m"],  # fenv.h
        depends=[str(CPU / name) for name in TABLE.DEPENDS],
    )


def numpy_types() -> str:
    """Return C text that lists NumPy's types that kernels multiply, several of which may be one.

    Each with its number in NumPy, and whether NumPy multiplies it in loops, not by a BLAS.
    """
    from numpy import dtype, typecodes

    find, types = load_dtypes().find, [dtype(x) for x in typecodes["All"]]
    rows = {x.num: row for x in types if (row := find(x)) is not None and row.engine is not None}
    entries = " ".join(f"X({number}, {int(not row.has_blas)})" for number, row in rows.items())
    title = "/* Written by setup.py, from the table of falcon/_core/dtypes.py. */"
    return f"{title}\n#define NUMPY_TYPES(X) {entries}\n"


def numpy_loops() -> list[Extension]:
    """Describe the inner loops of np.matmul that ask falcon; none without NumPy's headers."""
    try:
        from numpy import get_include
    except ImportError:
        return []
    folder = Path("falcon") / "_accelerate"
    return [
        Extension(
            LOOPS,
            [str(folder / "_loops.c")],
            include_dirs=[get_include()],
            extra_compile_args=["-O3"],  # CFLAGS may name none
        )
    ]


setup(
    ext_modules=[
        cpu_extension(),  # first: its kernels take longest
        *numpy_loops(),
        discover_extension("walk", "_core"),
        discover_extension("numerical", "_fit"),
        Extension(
            "falcon._core.formulas",
            [str(CORE / "formulas.py")],
            extra_compile_args=["-O3"],  # CFLAGS may name none
            depends=[str(CORE / "formulas.pxd")],
        ),
        Extension("falcon._tools.uninterrupted", [str(TOOLS / "uninterrupted.py")]),
    ],
    cmdclass={"build_ext": BuildOptional},
)
