"""The C library's own randomised driver, compiled here: plain, and under the sanitizers.

It calls the engine without Python, so that AddressSanitizer and UndefinedBehaviorSanitizer see
nothing but our code.
"""

import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from falcon._core.dtypes import ENGINE_NAMES
from falcon.codegen.cpu_emit import header_of

from ..support import HANG
from .support import SOURCES

DRIVER = Path(__file__).parent / "c" / "test_cpu.c"
EMULATED = DRIVER.parent / "kernels_tiles.c"
BLOCKS = DRIVER.parent / "kernels_blocks.c"
TRAPS = DRIVER.parent / "trap_tiles.c"
COMPILER = shutil.which(os.environ.get("CC", "gcc"))
# Wide vectors in plain C take a compiler longer with -O1 than the driver takes with -O0.
EMULATION = ["-Wno-psabi", "-O0"]
UNUSED = [*EMULATION, "-fno-sanitize=thread"]


def table():
    """The build's own table of sources and flags."""
    spec = importlib.util.spec_from_file_location("falcon_sources", SOURCES / "sources.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # NamedTuple looks its module up
    spec.loader.exec_module(module)
    return module


def write_headers(folder, isas):
    """Write what setup.py writes for the C files."""
    t = table()
    (folder / t.TABLES).write_text(t.tables(ENGINE_NAMES, isas))
    (folder / t.CODES).write_text(header_of(t.CODED))


def build(folder, compiler, flags, machine, portable=None, emulation=EMULATION):
    """Compile the driver and the engine, `portable` in place of the portable kernels.

    Objects that lie in the folder already are linked as they are.
    """
    t = table()
    basic = [compiler, *flags, "-std=gnu11", "-Wall", "-Wextra", "-Werror"]
    write_headers(folder, t.isas_for(machine))
    for x in (SOURCES / t.INCLUDE_DIR, DRIVER.parent, folder):
        basic += ["-I", str(x)]
    own_flags = dict.fromkeys((DRIVER, *(SOURCES / x for x in t.BASELINE)), ())
    own_flags |= dict.fromkeys((EMULATED, BLOCKS), emulation)
    for isa in t.isas_for(machine):
        for source in isa.sources:
            if portable is not None and source.endswith("/generic.c"):
                own_flags[portable] = [*isa.flags, "-Wno-psabi", "-O0"]
            else:
                own_flags[SOURCES / source] = isa.flags
    objects = {source: folder / f"{source.stem}.o" for source in own_flags}
    running = [
        subprocess.Popen(
            [*basic, *own_flags[source], "-c", str(source), "-o", str(made)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for source, made in objects.items()
        if not made.exists()
    ]
    for process in running:
        words, _ = process.communicate(timeout=HANG)
        assert process.returncode == 0, words
    program = folder / (DRIVER if portable is None else portable).stem
    done = subprocess.run(
        [*basic, *map(str, objects.values()), "-lm", "-o", str(program)],
        capture_output=True,
        text=True,
        timeout=HANG,
    )
    assert done.returncode == 0, done.stderr
    return program


def run(command, **environment):
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=HANG
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-6000:]
    assert done.stdout.rstrip().endswith("all passed")
    assert "runtime error" not in done.stderr
    return done.stdout


def require_compiler():
    if not (SOURCES / "src").exists():
        pytest.skip("the C sources are not part of this installation")
    if COMPILER is None:
        pytest.skip("no C compiler (gcc, or what CC names)")


def sanitized(folder, *flags):
    """The flags of a sanitizer, with those that go with it; None where none runs here."""
    flags = ["-O1", "-g1", *flags]
    probe = folder / "probe.c"
    probe.write_text("int main(void) { return 0; }\n", encoding="ascii")
    command = [COMPILER, *flags, str(probe), "-o", str(folder / "probe")]
    works = not subprocess.run(command, capture_output=True).returncode
    return flags if works and not subprocess.run([folder / "probe"]).returncode else None


def test_many_helpers_wake_one_another_and_share_evenly(tmp_path):
    require_compiler()
    program, sources = tmp_path / "many_helpers", [DRIVER.parent / "many_helpers.c"]
    parts = "engine/board.c", "engine/guests.c", "machine/clock.c"
    sources += [SOURCES / "src" / x for x in parts]
    flags = ["-O1", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-pthread", "-I", tmp_path]
    write_headers(tmp_path, table().isas_for("none"))
    where = "-I", SOURCES / table().INCLUDE_DIR
    command = [COMPILER, *flags, *where, *sources, "-lm", "-o", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG)
    assert done.returncode == 0, done.stderr
    run([program])


def test_every_kernel_and_the_shapes_of_wide_vectors(tmp_path):
    """Under sanitizers; the templates with the shapes of AVX-512 on machines without it too."""
    require_compiler()
    checks = "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"
    flags = [*(sanitized(tmp_path, *checks) or ["-O2"]), *table().OPENMP_FLAGS]
    options = {"ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "print_stacktrace=1"}
    program = build(tmp_path, COMPILER, flags, platform.machine())
    words = run([program, "3"], **options)
    run([program, "1", "generic", "openmp"], **options)
    kernels = "generic:", "emulated_f32bf16", "emulated_i8u8", "blocks_f32bf16", "blocks_i8u8"
    assert all(x in words for x in (*kernels, "tile registers: "))
    wide = build(tmp_path, COMPILER, flags, platform.machine(), DRIVER.parent / "kernels_wide.c")
    assert "generic:" in run([wide, "3", "generic"], **options)


def test_threads(tmp_path):
    """The engine under ThreadSanitizer, by portable kernels: others share no more memory."""
    require_compiler()
    flags = sanitized(tmp_path, "-fsanitize=thread")
    if flags is None:
        pytest.skip("the compiler has no such sanitizer that runs here")
    options = {"TSAN_OPTIONS": "halt_on_error=1 die_after_fork=0"}
    for team in ((), ("-DFALCON_PORTABLE_TEAM",)):  # that of other systems, too
        (tmp_path / "team.o").unlink(missing_ok=True)
        program = build(tmp_path, COMPILER, [*flags, *team], "portable", emulation=UNUSED)
        run([program, "4", "generic"], **options)


if __name__ == "__main__":  # for a debugger or a profiler; see the first lines of test_cpu.c
    Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    print(build(Path(sys.argv[1]), COMPILER, sys.argv[2:], platform.machine()))
