"""Walks over the flip graph, over {-1, 0, 1} and modulo 2.

::

    masks.py      schemes as bit masks        moves.py      between formats: merge, project; bases
    lifting.py    modulo 2 to integers        symmetric.py  Z3-symmetric walks for cubes
    families.py   many families at once       sums.py       programs with few additions
    additions.py  walks on additions          _core.pyx     binding of src/*.c, the walks themselves
"""
