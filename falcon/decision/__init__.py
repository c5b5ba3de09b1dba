"""Decision: the algorithm with the best predicted time, from a machine profile and a cost model.

::

    hardware.py    the CPU, its caches, and their bandwidth
    store.py       profiles as JSON files
    machine.py     MachineProfile: rates per backend, dtype and threads, loaded at first need
    upkeep.py      when a process measures rates for later processes
    candidates.py  the schemes that are compared
    limits.py      the caller's limits, and lower bounds of predicted times
    select.py      the choice, for operands on the host and on a device
    recent.py      recent choices, kept on disk for later processes
    symmetric.py   the choice for x.T @ x: one triangle, or cut in halves
    explain.py     why the other candidates lost
    tuned.py       choices that `falcon.tune` measured, kept on disk
"""

from .machine import MachineProfile, profile
from .select import select

__all__ = ["MachineProfile", "profile", "select"]
