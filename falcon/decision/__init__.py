"""Decision: the fastest algorithm, by comparisons during calls, else by a cost model.

::

    store.py       JSON files: profiles; read, replaced and changed by one process at a time
    machine.py     MachineProfile: rates per backend, dtype and threads; the name of the CPU
    starting.py    shipped rates (starting.json), and probes of how fast the backends are here
    learned.py     the store of what calls have taught: choices, comparisons, speeds
    rates.py       the rates that this process decides by: measured or shipped, scaled
    contest.py     plans by what was stored or by the model; contests of choices on real calls
    candidates.py  the schemes that are compared
    limits.py      the caller's limits, and lower bounds of predicted times
    select.py      the choice, for operands on the host and on a device
    symmetric.py   the choice for x.T @ x: one triangle, or cut in halves
    explain.py     why the other candidates lost
"""

from .machine import MachineProfile, profile
from .select import select

__all__ = ["MachineProfile", "profile", "select"]
