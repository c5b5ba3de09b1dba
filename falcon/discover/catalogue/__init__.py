"""Between a search and the catalogue of `falcon.schemes`.

::

    library.py    known schemes as starts    collect.py    finds as catalogue files
    table.py      the table of docs/schemes.md, with the files of data/
"""
