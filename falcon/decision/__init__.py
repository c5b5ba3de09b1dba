"""Decision: the algorithm with the best predicted time, from a machine profile and a cost model.

::

    hardware.py  the CPU, its caches, and what they stream
    store.py     profiles as JSON files
    machine.py   MachineProfile: rates per backend, dtype and threads, measured at first need
    model.py     seconds per stage of an option
    select.py    the choice
    explain.py   why the others lost
    tuned.py     choices that were measured for a shape, and remembered
"""

from .machine import MachineProfile, profile
from .select import Request, select

__all__ = ["MachineProfile", "Request", "profile", "select"]
