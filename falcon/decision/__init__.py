"""Decision: the algorithm with the best predicted time, from a machine profile and a cost model.

::

    hardware.py    the CPU, its caches, and what they stream
    store.py       profiles as JSON files
    machine.py     MachineProfile: rates per backend, dtype and threads, measured at first need
    formulas.py    the cost model's formulas; compiled, types in formulas.pxd
    model.py       seconds per stage of an option
    candidates.py  the schemes among which is chosen
    request.py     what the caller asked for, and whether an option keeps to it
    select.py      the choice
    device.py      the choice for operands in a GPU's memory
    explain.py     why the others lost
    tuned.py       choices that were measured for a shape, and remembered
"""

from falcon._core.compiled import load

__compiled__ = load(__name__, "formulas")  # before anything else imports it

from .device import select_on_device
from .machine import MachineProfile, profile
from .request import Request
from .select import select

__all__ = ["MachineProfile", "Request", "profile", "select", "select_on_device"]
