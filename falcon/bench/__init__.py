"""Benchmarks: shapes of real models, interleaved measurement, tables.

::

    workloads.py   which shapes: by model and tokens, or given
    measure.py     pairs of interleaved timings, medians of ratios, sampled errors
    table.py       what `python -m falcon bench` prints
"""
