"""`falcon.grade`: how precise a product is, told from outside; and a test of falcon itself.

::

    command.py   python -m falcon grade: this machine's libraries, or MODULE:FUNCTION
    grade.py     grade(), Grade: what was found, its letter and its name
    products.py  Products: errors, zeros, range, bits, of whole products
    probes.py    Subject, Arithmetic: dot products that tell how numbers are read and summed
    page.py      the page; its template is template.html
"""
