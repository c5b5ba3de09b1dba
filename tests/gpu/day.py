"""A short time on a GPU, in order and in pieces: ``python -m tests.gpu.day FOLDER``.

What shows the most comes first, the sanitizer last. Every part is shown, and written to FOLDER as
it goes; the same command goes on where it was stopped. At the end of a piece the results are in
FOLDER.tar.gz, and the caches of CuPy and falcon in FOLDER.caches.tar.gz; on another machine
``--state FOLDER.tar.gz`` goes on from there.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Timer

from falcon.bench.run import INCOMPLETE

ROOT = Path(__file__).parents[2]
STUDY = ROOT / "studies" / "gpu_stages.py"
DTYPES = "bfloat16,float32,float64,float16"
MODELS = ("Llama-3.1-8B", "Llama-3.1-70B")
# Seconds of a piece, those of its end that no part is told to use; how often it begins a part.
_PIECE, _SPARE, _ROUNDS = 450, 60, 2
# What compute-sanitizer prints unless it refuses to run (another driver, no permission).
_CHECKED = "ERROR SUMMARY"
_CACHES = "caches"


@dataclass(frozen=True)
class Part:
    """A command and the seconds that it may take at a time; `budget` names its option for that.

    Without the words `proof` in what it prints, a failure means that the tool itself did not run.
    """

    name: str
    command: list
    seconds: float
    budget: str | None = None
    proof: str = ""


def parts(folder):
    """Return the parts of the day."""
    python = [sys.executable, "-m"]
    bench = [*python, "falcon", "bench", "--gpu"]
    squares = [f"{n},{n},{n}" for n in (4096, 8192, 16384)]
    tests = [*python, "pytest", "-p", "tests.gpu.pieces", "-W", "default", "--maxfail=5",
             "tests/gpu/test_on_gpu.py"]  # fmt: skip
    config = "import falcon, json; print(json.dumps(falcon.show_config('dict'), indent=1))"
    checked = ["compute-sanitizer", "--error-exitcode", "1", *tests, "-p",
               "tests.gpu.without_pools", "-k", "alpha_beta and strassen"]  # fmt: skip
    models = [x for model in MODELS for x in ("--model", model)]

    def record(name):
        return "--record", folder / f"{name}.jsonl"

    by_parts = ["env", "FALCON_ARITHMETIC=bf16x6", *bench, *squares, "--dtype", "float32"]
    stages = [sys.executable, STUDY, *squares[:2], "--dtype", "bfloat16", "float32"]
    measured = [*bench, *squares, *models, "--dtype", DTYPES, "-o", folder / "bench.json"]
    return [
        Part("environment", [sys.executable, "-c", config], 60),
        Part("parts", [*by_parts, "-o", folder / "bf16x6.json"], 120, "--time-budget"),
        Part("stages", [*stages, "-o", folder / "stages.json"], 180, "--time-budget"),
        Part("tests", [*tests, "-m", "gpu and not slow", *record("tests")], 300, "--budget"),
        Part("bench", measured, 600, "--time-budget"),
        Part("catalogue", [*tests, "-m", "gpu and slow", *record("catalogue")], 600, "--budget"),
        Part("sanitizer", [*checked, "-m", "gpu", *record("sanitizer")], 240, "--budget", _CHECKED),
    ]


def run(part, folder, seconds, left):
    """Run a part for so long, show and write what it prints; return "complete", or why it is not.

    Whatever it started is ended after `left` seconds.
    """
    command = [str(x) for x in part.command]
    if shutil.which(command[0]) is None:
        return f"skipped: {command[0]} is not in PATH"
    if part.budget:
        command += [part.budget, str(round(seconds))]
    caches = {x: str(folder / _CACHES / x) for x in ("CUPY_CACHE_DIR", "FALCON_CACHE_DIR")}
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    how = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "cwd": ROOT}
    how |= {"env": {**os.environ, **caches, "PYTHONPATH": path}, "start_new_session": True}
    proved = not part.proof
    path = folder / f"{part.name}.txt"
    with path.open("a") as file, subprocess.Popen(command, **how) as process:

        def end():  # with what it has started, which holds the pipe too
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

        timer = Timer(left, end)
        timer.start()
        try:
            for line in process.stdout:
                print(line, end="", flush=True)
                file.write(line)
                file.flush()
                proved |= part.proof in line
            process.wait()
        finally:
            in_time = timer.is_alive()
            timer.cancel()
            end()
    if process.returncode and in_time and not proved:
        return "skipped: the tool did not run"
    return "complete" if process.returncode == 0 else "not complete"


def main(argv=None):
    """Run a piece of what is left of the day; return 0 when all of it is complete or skipped."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--budget", type=float, default=_PIECE, help="seconds of this piece (450)")
    parser.add_argument("--state", type=Path, metavar="ARCHIVE", help="of the piece before")
    options = parser.parse_args(argv)
    folder, end = options.folder.resolve(), time.monotonic() + options.budget
    folder.mkdir(parents=True, exist_ok=True)
    state, archives = folder / "done.json", (".tar.gz", f".{_CACHES}.tar.gz")
    if options.state and options.state.exists() and not state.exists():
        given = str(options.state).removesuffix(archives[0])
        for path in (given + x for x in archives if Path(given + x).exists()):
            with tarfile.open(path) as archive:
                archive.extractall(folder, filter="data")
    found = json.loads(state.read_text()) if state.exists() else {}
    wanted = parts(folder)
    for part in wanted * _ROUNDS:
        left = end - time.monotonic()
        if found.get(part.name) == "complete" or left <= _SPARE:
            continue
        print(f"\n--- {part.name}", flush=True)
        seconds, begun = min(left - _SPARE, part.seconds), time.monotonic()
        most = min(left, seconds + _SPARE) if part.budget else seconds
        found[part.name] = run(part, folder, seconds, most)
        state.write_text(json.dumps(found))
        print(f"--- {part.name}: {found[part.name]}, {time.monotonic() - begun:.0f} s", flush=True)
    for kind, inside in zip(archives, (False, True), strict=True):
        with tarfile.open(f"{folder}{kind}", "w:gz", compresslevel=1) as archive:
            for path in (x for x in folder.iterdir() if (x.name == _CACHES) == inside):
                archive.add(path, path.name)
    outcomes = {part.name: found.get(part.name, "not begun") for part in wanted}
    missing = {x: y for x, y in outcomes.items() if y != "complete"}
    for name, why in missing.items():
        print(f"{name}: {why}", file=sys.stderr)
    if all(x.startswith("skipped") for x in missing.values()):
        return 0
    print("the same command goes on", file=sys.stderr)
    return INCOMPLETE


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # which ends the part, too
    sys.exit(main())
