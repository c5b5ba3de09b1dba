"""Tools that know nothing of products: any file may import them.

::

    cpus.py      CPUs and memory that this process may use
    threads.py   limits on the number of threads, including threadpoolctl's
    locks.py     locks that a forked child can take
    uninterrupted.py  blocks that signals leave neither half begun nor half ended; compiled
    lazy.py      a property that is computed once, without a lock
    pool.py      memory that is kept between calls
    checks.py    values of options, parsed and checked
    files.py     users' files are read, JSON files replaced
    text.py      tables, suggestions for misspelt words
    progress.py  Progress: how far a command is, on standard error
    timing.py    interleaved timings, and how well their ratios are known
"""

import os
import sys
import warnings

_folder = sys.modules["falcon"].__path__[0]
if os.path.exists(f"{_folder}/app.py"):
    warnings.warn(
        f"the web framework falcon is installed in the same folder, {_folder}; this is "
        "falcon-gemm, and either may be broken: use an environment for each, or uninstall both "
        "(pip uninstall falcon falcon-gemm) and install the one that you need",
        RuntimeWarning,
        stacklevel=3,
    )
