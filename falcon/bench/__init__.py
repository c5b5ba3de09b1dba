"""Benchmarks: falcon, other libraries and schemes side by side; record files, tables, a report.

All comparisons are interleaved by `falcon._core.timing.interleave`; the results are the cases of a
record file.

::

    command.py     the command line of bench and report         asked.py     what it asks for
    workloads.py   which shapes: squares, layers of models, thin and odd ones, or the user's
    here.py        falcon beside NumPy in this process: what `bench` prints by itself
    schemes.py     the best scheme of every format
    first_call.py  first calls of new processes
    predictions.py predicted and measured times, by stage
    beside.py      single calls after pauses and other libraries, on busy CPUs
    gpu_run.py     runs on a GPU that can be resumed; gpu.py: falcon beside cuBLAS and torch;
                   gpu_stages.py: the time of each stage
    errors.py      rounding errors, on sampled rows

    peer_run.py    the command line of runs against peers
    suite.py       cases against peers, which can be resumed    run.py       the file of a run
    peers.py       the table of libraries, each a process       adapters.py  how each multiplies
    worker.py      such a process                               operands.py  memory they share
    identify.py    which kernels each really runs               system.py    machine and load
    own.py         falcon's own stages, errors, crossover
    element_types.py  every type of the CPU's kernels beside float32 and PyTorch

    records.py     the record file and its schema
    tables.py      its printed tables                           report.py    its HTML page
    figures.py     the pictures of that page

    regret.py      how good choices are: shapes in regret_shapes.py, figures and a picture in
                   regret_summary.py, intervals and the page of all machines in regret_page.py
"""
