"""Schemes by way of the real numbers: least squares, then rational, then modulo 2.

::

    starts.py     all steps together: a stream of starts modulo 2
    reals.py      least squares on the Brent equations     _fit.pyx      binding of src/fit.h
    orbits.py     symmetric starts                         hops.py       from minimum to minimum
    rational.py   reals to rationals                       integral.py   rationals to modulo 2
"""
