"""`Trial`: what is tried on a device, once per process, before calls rely on it."""

from __future__ import annotations

import logging
from collections.abc import Callable

from . import device

_log = logging.getLogger("falcon")


class Trial:
    """Whether something works, by device.

    `attempt`: raises where it does not. `otherwise`: what a warning then says.
    """

    def __init__(self, attempt: Callable[[], None], otherwise: str) -> None:
        self._attempt, self._otherwise = attempt, otherwise
        self.found: dict[int, bool] = {}

    def works(self, index: int) -> bool:
        """Whether it does; False while a stream is being captured, if it was not tried before."""
        if index not in self.found:
            if device.is_capturing():
                return False
            try:
                with device.on(index):
                    self._attempt()
                self.found[index] = True
            except MemoryError:
                return False  # this says nothing about the device
            except Exception as error:  # of the driver, the compiler, CuPy
                if "captur" in str(error).lower():  # another stream is: as above
                    return False
                _log.warning("falcon: %s: %s", self._otherwise, error)
                self.found[index] = False
        return self.found[index]
