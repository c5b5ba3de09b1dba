"""Scheme discovery: search for schemes of low rank, and improve those that are known.

Nothing else in falcon imports this package; ``python -m falcon discover`` runs it. ::

    cli.py        the command            search.py    runs: workers on threads, files, checkpoints
    worker.py     lowers the rank        improve.py   at fixed rank: non-zeros, growth, additions
    library.py    where to begin         moves.py     between formats: merge, project; bases
    lifting.py    modulo 2 to integers   symmetric.py Z3-symmetric starts for cubes
    sums.py       fewer additions        masks.py     schemes as bit masks
    _core.pyx     binding of src/*.c     src/         the walks themselves
"""
