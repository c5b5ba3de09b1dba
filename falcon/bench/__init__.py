"""Benchmarks: falcon beside NumPy and other libraries; record files, tables, a report.

All comparisons are interleaved by `falcon._core.timing.interleave`; the results are the cases of a
record file. What only falcon's developers measure is in the folder ``studies`` of the repository.

::

    command.py     the command line of bench and report         asked.py     what it asks for
    workloads.py   which shapes: squares, layers of models, thin and odd ones, or the user's
    here.py        falcon beside NumPy in this process: what `bench` prints by itself
    errors.py      rounding errors, on sampled rows
    schemes.py     how fast the schemes of a format are        scheme_files.py  files, as a table
    run.py         runs that can be stopped and resumed
    prefill.py     falcon.torch in decoder layers               decoder.py   these layers
    gpu_run.py     such a run on a GPU                          gpu.py       beside cuBLAS and torch
    dask_run.py    falcon.dask beside dask.array.matmul on a cluster of this machine

    peer_run.py    the command line of runs against peers
    suite.py       cases against peers
    peers.py       the table of libraries, each a process       adapters.py  how each multiplies
    worker.py      such a process                               operands.py  memory they share
    system.py      machine and load

    records.py     the record file and its schema
    tables.py      its printed tables                           report.py    its HTML page
    figures.py     the pictures of that page
"""
