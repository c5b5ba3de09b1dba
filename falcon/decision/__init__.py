"""Decision: the fastest algorithm, by a cost model and the rates of a machine.

::

    store.py       MachineProfile: what `tune` has measured here; profiles as JSON files
    machine.py     the profiles of this machine and its GPUs; the name of the CPU
    rates.py       the rates of a plan: the profile's or shipped ones (shipped.json), by threads
    candidates.py  the schemes that are compared
    library.py     who multiplies classically: falcon's kernels, or the library of the arrays
    ways.py        backends and types as which they multiply, those that promise an error
    methods.py     the methods of a way, the caller's limits
    search.py      the one search over schemes, kinds of arithmetic and backends
    select.py      the choice: what `tune` has found, else that of the search
    rewrites/      products that are computed as other products: x.T @ x, modulo p
    explain.py     why the other candidates lost
"""

from .machine import profile
from .store import MachineProfile

__all__ = ["MachineProfile", "profile"]
