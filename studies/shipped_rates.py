"""Measure this machine for falcon/decision/shipped.json: ``python studies/shipped_rates.py NAME``.

Prints a row per backend, type and number of threads (1 and all) of a machine, by its name;
FALCON_ISA and OPENBLAS_CORETYPE select other kernels. Takes ten seconds a row; nothing else should
run meanwhile.
"""

import argparse
import json
import sys
from contextlib import suppress
from dataclasses import asdict

import numpy as np

from falcon._backends import available_backends
from falcon._core.dtypes import BY_ARITHMETIC, BY_ARITHMETIC_ON_GPUS, CUDA, ENGINE, dtype_of
from falcon._core.options import Options, thread_count
from falcon._core.problem import Problem
from falcon._core.rates import DisturbedError
from falcon._tools.cpus import cpu_family, cpu_model
from falcon.decision.rates import kernels_of

# Seconds of a row, and how often it is measured again.
SECONDS, AGAIN = 4.0, 3
# Types that NumPy's backend is asked for: those with a BLAS, and one that stands for the others.
BY_NUMPY = "float32", "float64", "complex64", "complex128", "int64"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpu", action="store_true", help="a GPU's, for falcon/_gpu/rates.json")
    parser.add_argument("name", nargs="?", default=cpu_model(), help="such as 'AMD Zen 4'")
    options = parser.parse_args()
    if options.gpu:
        of_gpu()
        return
    rows = []
    for backend in available_backends():
        types = [*ENGINE, *BY_ARITHMETIC.values()]
        if backend.name != "cpu":
            types = [dtype_of(np.dtype(x)) for x in BY_NUMPY]
        head = {
            "machine": options.name,
            "cpu": cpu_family(),
            "backend": backend.name,
            "kernels": kernels_of(backend),
        }
        for operand in types:
            for threads in sorted({1, thread_count()}):
                print(f"{backend.name} {operand.name}, {threads} threads", file=sys.stderr)
                problem = Problem.of_sizes((1024,) * 3, operand, Options(threads=threads))
                if backend.why_not(problem) is not None:
                    continue
                rates = measured(backend, operand, threads)
                row = {name: short(x) for name, x in asdict(rates).items()}
                rows.append(json.dumps(head | {"dtype": operand.name, "threads": threads} | row))
    print("[\n" + ",\n".join(rows) + "\n]")


def measured(backend, operand, threads):
    """Measure rates, again where other programs disturbed them."""
    for _ in range(AGAIN):
        with suppress(DisturbedError):
            return backend.measure(operand, threads, SECONDS)
    return backend.measure(operand, threads, 3 * SECONDS)


def of_gpu():
    from falcon._gpu import device, rates

    found = {}
    for operand in (*CUDA, *BY_ARITHMETIC_ON_GPUS.values()):
        row = asdict(rates.measure(0, operand))
        del row["multiprocessors"], row["l2_bytes"]
        found[operand.name] = {name: short(x) for name, x in row.items()}
    rows = (f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in found.items())
    print(f"{json.dumps(device.properties(0).name)}: {{\n" + ",\n".join(rows) + "\n}")


def short(value):
    if isinstance(value, tuple):
        return [short(x) for x in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


if __name__ == "__main__":
    main()
