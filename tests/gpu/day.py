"""A short time on a GPU, in order and in pieces: ``python -m tests.gpu.day FOLDER``.

What shows the most comes first: the environment, the stages against a copy and cuBLAS, the tests,
the sanitizer, then the benchmark beside cuBLAS and the whole catalogue. Every part is shown, and
written to FOLDER as it goes, where the caches of CuPy and falcon are too; the same command goes on
where it was stopped. At the end of a piece all of FOLDER is in FOLDER.tar.gz; on another machine
``--state ARCHIVE`` goes on from there.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
from dataclasses import dataclass
from pathlib import Path
from threading import Timer

from falcon.bench.run import INCOMPLETE

STUDY = Path(__file__).parents[2] / "studies" / "gpu_stages.py"
DTYPES = "float64,float32,bfloat16,float16"
MODELS = ("Llama-3.1-8B", "Llama-3.1-70B")
# What pytest returns where nothing is left to run.
_NO_TESTS = 5
# Seconds of a piece, and those of its end that no part is told to use.
_PIECE, _SPARE = 450, 60
# What compute-sanitizer prints unless it refuses to run (another driver, no permission).
_CHECKED = "ERROR SUMMARY"


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
    tests = [
        *python,
        "pytest",
        "-p",
        "tests.gpu.pieces",
        "-W",
        "default",
        "--maxfail=5",
        "tests/gpu/test_on_gpu.py",
    ]
    config = "import falcon, json; print(json.dumps(falcon.show_config('dict'), indent=1))"
    checked = [
        "compute-sanitizer",
        "--error-exitcode",
        "1",
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "tests.gpu.without_pools",
        "tests/gpu/test_on_gpu.py",
        "-m",
        "gpu",
        "-k",
        "alpha_beta and strassen",
    ]
    models = [x for model in MODELS for x in ("--model", model)]
    return [
        Part("environment", [sys.executable, "-c", config], 60),
        Part(
            "stages",
            [
                sys.executable,
                STUDY,
                *squares[:2],
                "--dtype",
                "bfloat16",
                "float32",
                "-o",
                folder / "stages.json",
            ],
            180,
            "--time-budget",
        ),
        Part(
            "tests",
            [*tests, "-m", "gpu and not slow", "--record", folder / "tests.jsonl"],
            300,
            "--budget",
        ),
        *([Part("sanitizer", checked, 240, proof=_CHECKED)] if shutil.which(checked[0]) else []),
        Part(
            "bench",
            [*bench, *squares, *models, "--dtype", DTYPES, "-o", folder / "bench.json"],
            600,
            "--time-budget",
        ),
        Part(
            "parts",
            [
                "env",
                "FALCON_ARITHMETIC=bf16x6",
                *bench,
                *squares,
                "--dtype",
                "float32",
                "-o",
                folder / "bf16x6.json",
            ],
            200,
            "--time-budget",
        ),
        Part(
            "catalogue",
            [*tests, "-m", "gpu and slow", "--record", folder / "catalogue.jsonl"],
            600,
            "--budget",
        ),
    ]


def run(part, folder, seconds, left):
    """Run a part for so long, show and write what it prints; return whether it is complete.

    It is ended after `left` seconds.
    """
    command = [str(x) for x in part.command]
    if part.budget:
        command += [part.budget, str(round(seconds))]
    caches = {x: str(folder / "caches" / x) for x in ("CUPY_CACHE_DIR", "FALCON_CACHE_DIR")}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    path, proved = folder / f"{part.name}.txt", not part.proof
    with (
        path.open("a") as file,
        subprocess.Popen(command, **pipes, env={**os.environ, **caches}) as process,
    ):
        timer = Timer(left, process.terminate)
        timer.start()
        for line in process.stdout:
            print(line, end="", flush=True)
            file.write(line)
            file.flush()
            proved |= part.proof in line
        in_time = timer.is_alive()
        timer.cancel()
    if process.returncode and in_time and not proved:
        print(f"--- {part.name} is skipped: the tool did not run", flush=True)
        return True
    return process.returncode in ((0, _NO_TESTS) if "pytest" in command else (0,))


def main(argv=None):
    """Run a piece of what is left of the day; return 0 when all of it is complete."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--budget", type=float, default=_PIECE, help="seconds of this piece (450)")
    parser.add_argument("--state", type=Path, metavar="ARCHIVE", help="of the piece before")
    options = parser.parse_args(argv)
    folder, end = options.folder, time.monotonic() + options.budget
    folder.mkdir(parents=True, exist_ok=True)
    state = folder / "done.json"
    if options.state and options.state.exists() and not state.exists():
        with tarfile.open(options.state) as archive:
            archive.extractall(folder, filter="data")
    done = json.loads(state.read_text()) if state.exists() else []
    for part in parts(folder):
        left = end - time.monotonic()
        if part.name in done or left <= _SPARE:
            continue
        print(f"\n--- {part.name}", flush=True)
        begun = time.monotonic()
        if run(part, folder, min(left - _SPARE, part.seconds), left):
            done.append(part.name)
            state.write_text(json.dumps(done))
        print(f"--- {part.name}: {time.monotonic() - begun:.0f} s", flush=True)
    with tarfile.open(f"{folder}.tar.gz", "w:gz", compresslevel=1) as archive:
        archive.add(folder, ".")
    missing = [part.name for part in parts(folder) if part.name not in done]
    if missing:
        print(f"not complete: {', '.join(missing)}; the same command goes on", file=sys.stderr)
    return INCOMPLETE if missing else 0


if __name__ == "__main__":
    sys.exit(main())
