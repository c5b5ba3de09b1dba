"""Fast matrix multiplication, written to be read: one short file per algorithm, NumPy only.

Every file has no options, and stays within 60 lines.  A reader may start at the top::

    classical.py       the definition: C = sum over l of column l of A times row l of B
      padding.py       zeros at the edges, cutting into blocks, putting blocks together
        strassen.py        <2,2,2;7>    1969, seven products and 18 additions
        winograd.py        <2,2,2;7>    1971, seven products and 15 additions
        laderman.py        <3,3,3;23>   1976
        hopcroft_kerr.py   <3,2,3;15>   1971
        lcma.py            any <m,k,n;R;U,V,W>: an algorithm is three arrays of coefficients
          scaling.py       rows and columns of any scale, by powers of two
          centring.py      rows of A and columns of B that have a mean
          units.py         columns of A and rows of B of any scale, by powers of two
          multilevel.py    a list of such triples, one per level of recursion
          gram.py        A A^T: each pair of rows once
    split.py           float32 from three bfloat16 parts
    float16_split.py   float32 from two float16 parts
    modular.py         integers modulo p, exactly, by float64
    brent.py           the equations that three arrays satisfy exactly when they multiply matrices

``<m,k,n;R>`` means: A is cut into m x k blocks, B into k x n, C into m x n, and R products of
blocks replace the m*k*n of the definition.

All functions take 2-D arrays, two (gram.py: one), and return a new one.  Arithmetic stays in the
common dtype of the operands: integers wrap as NumPy's do, and arrays of ``fractions.Fraction``
(dtype object) are exact.  This is an oracle for tests and a text for people; it is not meant to be
fast.

>>> from reference.classical import classical
>>> from reference.strassen import strassen
>>> a, b = [[1, 2], [3, 4]], [[5, 6], [7, 8]]
>>> bool((strassen(a, b) == classical(a, b)).all())
True
"""
