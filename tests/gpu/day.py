"""A short time on a GPU, in order: ``python -m tests.gpu.day FOLDER --budget 1800``.

What shows the most comes first: the environment, the stages against a copy and cuBLAS, the tests,
the sanitizer, then the benchmark beside cuBLAS and the whole catalogue. Every part is shown, and
written to FOLDER as it goes; the same command goes on where it was stopped.
"""

import argparse
import json
import shutil
import subprocess
import sys
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
# Seconds that a piece may take beyond the budget of its part, before it is ended.
_GRACE = 120


@dataclass(frozen=True)
class Part:
    """A command and the seconds that it may take at a time; `budget` names its option for that."""

    name: str
    command: list
    seconds: float
    budget: str | None = None


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
        *([Part("sanitizer", checked, 240)] if shutil.which(checked[0]) else []),
        Part(
            "bench",
            [*bench, *squares, *models, "--dtype", DTYPES, "-o", folder / "bench.json"],
            600,
            "--time-budget",
        ),
        Part(
            "catalogue",
            [*tests, "-m", "gpu and slow", "--record", folder / "catalogue.jsonl"],
            600,
            "--budget",
        ),
    ]


def run(part, folder, seconds):
    """Run a part for so long, show and write what it prints; return whether it is complete."""
    command = [str(x) for x in part.command]
    if part.budget:
        command += [part.budget, str(round(seconds))]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    path = folder / f"{part.name}.txt"
    with path.open("a") as file, subprocess.Popen(command, **pipes) as process:
        timer = Timer(seconds + _GRACE, process.terminate)
        timer.start()
        for line in process.stdout:
            print(line, end="", flush=True)
            file.write(line)
            file.flush()
        timer.cancel()
    return process.returncode in ((0, _NO_TESTS) if "pytest" in command else (0,))


def main(argv=None):
    """Run what is left of the day; return 0 when all of it is complete."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--budget", type=float, default=1800, help="seconds in all (default 1800)")
    options = parser.parse_args(argv)
    folder = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    state = folder / "done.json"
    done = json.loads(state.read_text()) if state.exists() else []
    end = time.monotonic() + options.budget
    for part in parts(folder):
        left = end - time.monotonic()
        if part.name in done or left <= 0:
            continue
        print(f"\n--- {part.name}", flush=True)
        begun = time.monotonic()
        if run(part, folder, min(left, part.seconds)):
            done.append(part.name)
            state.write_text(json.dumps(done))
        print(f"--- {part.name}: {time.monotonic() - begun:.0f} s", flush=True)
    missing = [part.name for part in parts(folder) if part.name not in done]
    if missing:
        print(f"not complete: {', '.join(missing)}; the same command goes on", file=sys.stderr)
    return INCOMPLETE if missing else 0


if __name__ == "__main__":
    sys.exit(main())
