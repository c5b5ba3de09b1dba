"""Decision: the algorithm with the best predicted time, from a machine profile and a cost model.

::

    hardware.py    the CPU, its caches, and what they stream
    store.py       profiles as JSON files
    machine.py     MachineProfile: rates per backend, dtype and threads, measured at first need
    upkeep.py      when a process measures, for the next one
    candidates.py  the schemes among which is chosen
    limits.py      whether an option keeps to what the caller allows; bounds
    select.py      the choice, for operands on the host and on a device
    recent.py      choices kept on disk for the next process
    symmetric.py   the choice for x.T @ x: by half of the work, cut in halves
    explain.py     why the others lost
    tuned.py       choices that were measured for a shape, and remembered
"""

from .machine import MachineProfile, profile
from .select import select

__all__ = ["MachineProfile", "profile", "select"]
