"""Scheme discovery: search for schemes of low rank, and improve those that are known.

Nothing else in falcon imports this package; ``python -m falcon discover`` runs it. ::

    cli.py        the command                arguments.py  its arguments
    search.py     a run: workers on threads, finds and checkpoints on disk
    worker.py     lowers the rank             improve.py    at fixed rank: fewer non-zeros or
                                                            additions, less growth
    walk/         flip graphs in C over schemes as bit masks, and moves between formats
    numerical/    least squares over the reals, and the way from there to schemes modulo 2
    catalogue/    known schemes as starts, and finds as catalogue files

Each folder has its own map. walk/ imports neither of the others.
"""
