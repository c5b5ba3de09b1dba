"""Decision: the algorithm with the best predicted time, from a machine profile and a cost model.

::

    machine.py   MachineProfile: rates per backend and dtype, measured at first need
    model.py     seconds per stage of an option
    select.py    the choice, and why the others lost
"""

from .machine import MachineProfile, machine
from .select import Request, select

__all__ = ["MachineProfile", "Request", "machine", "select"]
