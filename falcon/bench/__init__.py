"""Benchmarks: shapes of real models, interleaved measurement, tables.

::

    command.py     the command line of bench and report
    workloads.py   which shapes: squares, layers of models, thin and odd ones, or given
    measure.py     interleaved timings, spread of ratios, sampled errors
    table.py       falcon beside NumPy in one process: what `bench` prints by itself

    peers.py       the table of libraries, each a worker process    adapters.py  how each multiplies
    worker.py      such a process                                   operands.py  memory they share
    identify.py    which kernels each really runs                   system.py    machine and load
    suite.py       rounds of a case until stable, stop and go on    stream.py    a run in a file
    own.py         falcon's own stages, errors, crossover
    records.py     the record file: schema, table, comparison
    report.py      the page     figures.py  its pictures
    targets.py     the table of the CPU backend's targets
    schemes.py     the best scheme of every format, side by side
    element_types.py  every type of the CPU's kernels beside float32 and PyTorch
    gpu.py         stages, speed and errors on a GPU
    regret.py      how good choices are: shapes in regret_shapes.py, its file in regret_record.py,
                   its picture in regret_picture.py
"""
