"""Benchmarks: falcon beside NumPy and other libraries.

All are measured, kept and shown in one way; an option of `bench` chooses only what is compared::

    command.py    options  ->  a Comparison
    compare.py    Comparison: Cases (a shape, which states the FLOPs 2MNK, and a dtype), and for
       |          each of them Sides: name, timed function, and what ran: library, version,
       |          kernels, threads, falcon's plan, the error of its product
       |             in_process.py  falcon and NumPy, in this process
       |             suite.py     every library in a process of its own
       |             gpu.py       cuBLAS on a GPU
       |             and some of studies/: torch's decoder layers, Dask's products
    run.py        Run: the sides of a case in interleaved rounds (falcon._tools.timing.interleave)
       |          within --time-budget; stops, resumes, leaves out sides that fail
    records.py    the record file, one JSON document with the schema data/results.schema.json
       |
    tables.py     its printed table, of all sides       summary.py   that of falcon and NumPy, and
       |                                                             the answer in one line

The sides of suite.py::

    adapters.py   libraries: how each multiplies, what it tells of itself
    peers.py      libraries at stated settings, and their processes
    worker.py     such a process               operands.py  memory they share

For all of them::

    workloads.py  which shapes: squares, layers of models, thin and odd ones, or the user's
    errors.py     rounding errors, on sampled rows     system.py    the machine

The command `schemes`::

    schemes.py    how fast those of a format are, and files that are checked
"""
