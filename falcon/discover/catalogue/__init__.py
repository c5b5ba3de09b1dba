"""Between a search and the catalogue of `falcon.schemes`.

::

    library.py    known schemes as starts    collect.py    finds as catalogue files
    table.py      the tables of docs/schemes.md and docs/finding.md
"""
