"""`show_config`: what falcon found on this machine, what is missing, and why."""

from __future__ import annotations

import os
import platform
import sys
from contextlib import suppress
from dataclasses import asdict
from importlib.util import find_spec
from typing import Any

from falcon._backends import BACKENDS, DEVICE, ENGINE, available_backends, device_backend
from falcon._core import residues
from falcon._core.dtypes import FLOAT32, FLOAT64
from falcon._core.options import SETTINGS, settings, thread_count
from falcon._core.problem import Problem
from falcon._cpu.extension import missing
from falcon._tools.cpus import cpu_model
from falcon._version import __version__
from falcon.decision import profile
from falcon.decision.rates import rates, source, stand_in

# Distributions that hold the package cupy.
_CUPY = ("cupy", "cupy-cuda12x", "cupy-cuda13x")


def show_config(mode: str = "print") -> dict[str, Any] | None:
    """Show what falcon found on this machine: backends, libraries, settings, what is missing.

    Parameters
    ----------
    mode : {"print", "dict"}
        Print a table, or return a dictionary that JSON can hold.

    Returns
    -------
    dict or None

    Raises
    ------
    ValueError
        `mode` is neither.

    Examples
    --------
    >>> import falcon
    >>> falcon.show_config("dict")["backends"]["numpy"]
    'available'
    """
    if mode not in ("print", "dict"):
        raise ValueError(f"mode is {mode!r}; expected 'print' or 'dict'")
    information = _gather()
    if mode == "dict":
        return information
    for title, content in information.items():
        is_table = isinstance(content, dict) and content
        print(f"{title}:" if is_table else f"{title}: {content or 'none'}")
        if isinstance(content, dict):
            for key, value in content.items():
                print(f"    {key:<16}  {value}")
    return None


def _gather() -> dict[str, Any]:
    chosen = settings()
    stored = profile(available_backends()).choices.values()
    return {
        "falcon": __version__,
        "Python": f"{sys.version.split()[0]} ({platform.system()} {platform.machine()})",
        "CPU": cpu_model(),
        "CPUs usable": thread_count(),
        "compiled parts": "built" if find_spec("falcon._cpu._core") else ENGINE.why_unavailable(),
        "backends": backends(),
        **{f"{name} kernels": backend.describe() for name, backend in BACKENDS.items()},
        "GPU": device_backend().describe(),
        "libraries": libraries(),
        "settings": {name: getattr(chosen, name) for name in SETTINGS},
        "rates": rates_used(),
        "choices": {x.problem: f"{x.choice.label} ({x.why})" for x in stored},
        "environment": {k: v for k, v in sorted(os.environ.items()) if k.startswith("FALCON_")},
    }


def backends() -> dict[str, str]:
    """Return per backend "available", or the reason why it is not."""
    known = {**BACKENDS, DEVICE: device_backend()}
    return {name: backend.why_unavailable() or "available" for name, backend in known.items()}


def rates_used(in_numbers: bool = False) -> dict[str, Any]:
    """Return per backend and type where the rates of plans come from, or the rates themselves."""
    found, every = {}, available_backends()
    for operand in (FLOAT32, FLOAT64):
        problem = Problem.of_sizes((2048,) * 3, operand, settings())
        for x in every:
            of = x, problem, every
            told = asdict(rates(*of)) if in_numbers else source(*of)
            found[f"{x.name} {operand.name}"] = told
    return found


def machine_report() -> dict[str, Any]:
    """Return what a bug report needs of the machine: `show_config`, and what it leaves out."""
    return {**_gather(), "missing": missing(), "rates in numbers": rates_used(in_numbers=True)}


def machine_used() -> str:
    """Return the machine by whose rates falcon's kernels are planned; "": this one's are known."""
    every = available_backends()
    problem = Problem.of_sizes((2048,) * 3, FLOAT32, settings())
    return stand_in(every[0], problem, every)


def libraries() -> dict[str, str]:
    """Return the versions of libraries that falcon uses, or is compared with."""
    from importlib.metadata import PackageNotFoundError, version  # 1/4 of falcon's import time

    versions = {}
    for name in ("numpy", "scipy", "threadpoolctl", "cupy", "torch"):
        versions[name] = "not installed"
        for distributed in _CUPY if name == "cupy" else (name,):
            with suppress(PackageNotFoundError):
                versions[name] = version(distributed)
    return versions


def release_workspace() -> None:
    """Free the workspaces that are kept between calls.

    Notes
    -----
    On the CPU falcon keeps one workspace, because the first use of new memory is slow. It is at
    most 512 MiB (1/32 of the memory if that is less; up to 1/16 where that is faster; more after
    a call whose ``workspace_limit`` allowed it), and another for products modulo p;
    `falcon.show_config` prints their sizes. On a GPU it keeps the workspaces of calls that were
    captured into a graph: release them when the graphs are no longer used. Other GPU workspaces
    return to CuPy's pool after every call (``cupy.get_default_memory_pool().free_all_blocks()``
    frees them).

    Examples
    --------
    >>> import falcon
    >>> falcon.release_workspace()
    """
    is_loaded = device_backend.cache_info().currsize > 0  # else it keeps nothing
    for backend in (*BACKENDS.values(), *([device_backend()] if is_loaded else [])):
        backend.release_workspace()
    residues.release()
