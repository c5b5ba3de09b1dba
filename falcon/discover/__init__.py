"""Scheme discovery: search for schemes of low rank, and improve those that are known.

Nothing else in falcon imports this package; ``python -m falcon discover`` runs it. ::

    cli.py        the command            search.py    runs: workers on threads, files, checkpoints
    worker.py     lowers the rank        improve.py   at fixed rank: non-zeros, growth, additions
    library.py    where to begin         moves.py     between formats: merge, project; bases
    lifting.py    modulo 2 to integers   symmetric.py Z3-symmetric starts for cubes
    families.py   walks over many families at once      additions.py  whose cost are additions
    sums.py       fewer additions        masks.py     schemes as bit masks
    reals.py      least squares over the reals          orbits.py     symmetric starts there
    hops.py       between its minima     rational.py  reals to rationals
    integral.py   rationals to modulo 2  numerical.py starts modulo 2 by way of these
    collect.py    finds as catalogue files              table.py      the table of docs/schemes.md
    _core.pyx     binding of src/*.c     src/         the walks themselves
"""
