"""The public functions: check a user's arguments, plan, and run.

::

    gemm.py      gemm                           matmul.py    matmul
    gram.py      gram                           pack.py      pack
    plan.py      plan                           contract.py  dot, tensordot, einsum, multi_dot
    verify.py    verify                         info.py      show_config, release_workspace
    tune.py      machine, tune, compare
    scaled.py    scaled_matmul, quantize: operands of float8
    adapters/    array libraries: the one door for arrays of a call
    subscripts.py  labels of axes of einsum, the order of its pairs, axes of tensordot
    pairs.py     a pair of arrays with labelled axes, as one product
    validate.py  checks of arguments
    arithmetic.py  types of a product and its operands: `dtype=`
    booleans.py  booleans: whose product is NumPy's, whose is counted
    fallback.py  what NumPy multiplies itself
    execute.py   a product in core form: its Problem, its plan, its execution
    gram_products.py  the products of gram: a triangle, or several that are added up
    gram_small.py     gram of small matrices, by products as any other
    views.py     operands seen as other matrices: batches, vectors, complex by real
    buffers.py   copies that a call makes, taken from its workspace limit
    verified.py  a product that is tested, and made again where it is wrong: check="verify"
    checksums.py its first look, in one pass over each matrix
    overflow.py  products of integers that raise where they overflow: overflow="raise"
    freivalds.py Freivalds' test of a product in O(n^2), by rows
    surface.py   what torch, Dask, accelerate and grade use of all this
    planner.py   from options to a cached plan
    calls.py     small calls, and calls seen before, without planning
"""
