"""Steps that are made once, started by CUDA's driver: CuPy boxes every argument in every call.

What kernels take stands in one array of numbers, in which a call replaces the addresses.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import addressof, c_void_p
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np

from falcon._core.dtypes import FLOAT32
from falcon._core.matrix import dense

from . import device, fused, kernels
from .fused import FusedProduct
from .steps import Fill, Launch, Step
from .trials import Trial

# CUDA_ERROR_INVALID_CONTEXT: of a thread in which nothing of CUDA has run.
_NO_CONTEXT = 201
_ELEMENTS = 4096  # of what is launched for a trial

Place = tuple[int, int, int]  # of an address in a step's arguments: which, its slot and offset


def _try() -> None:
    """Double numbers in memory and clear others; raises ValueError unless both came true."""
    memory = device.upload(np.full(2 * _ELEMENTS, 7, np.float32))
    nbytes = _ELEMENTS * FLOAT32.itemsize
    kept, cleared = (dense(0, (1, _ELEMENTS), FLOAT32), Fill("trial", (nbytes, nbytes)))
    places = [[(0, 0, 0), (3, 0, 0)], [(0, 0, nbytes)]]
    Program([kernels.copy(kept, kept, 2.0), cleared], places).start([memory.data.ptr], 0)
    if not (device.download(memory) == np.repeat((14, 0), _ELEMENTS)).all():
        raise ValueError("a kernel did not do what it should")


@dataclass(frozen=True, slots=True)
class _Started:
    """A step that starts itself."""

    step: Step
    places: list[Place]

    def start(self, given: Sequence[int], handle: int, _: Any) -> None:
        arguments = list(self.step.arguments)
        for at, slot, offset in self.places:
            arguments[at] = given[slot] + offset
        self.step.start(handle, arguments)


@dataclass(frozen=True, slots=True)
class _Launched:
    """A kernel and its launch; `parameters`: addresses of its arguments."""

    launch: Any  # the driver's function
    what: tuple[Any, ...]  # the kernel, grid, block and bytes of shared memory
    parameters: Any
    at_parameters: c_void_p
    # Of a product by fused.cu, the first two arguments: slot of an operand (-1: none) and offset,
    # and the rest of what its map is made of.
    maps: tuple[tuple[int, int, tuple], ...]

    def start(self, given: Sequence[int], _: int, stream: Any) -> None:
        kept = []  # until the kernel has its copy
        for at, (slot, offset, shape) in enumerate(self.maps):
            made = fused.map_of(offset if slot < 0 else given[slot] + offset, *shape)
            self.parameters[at] = made.address
            kept.append(made)
        status = self.launch(*self.what, stream, self.at_parameters, None)
        if status == _NO_CONTEXT:
            device.begin()
            status = self.launch(*self.what, stream, self.at_parameters, None)
        if status:
            raise RuntimeError(f"cuLaunchKernel failed: error {status} of CUDA")


class Program:
    """Steps, and where in their arguments addresses stand.

    `by_driver`: whether the driver launches kernels, not CuPy.
    """

    def __init__(
        self, steps: Sequence[Step], places: Sequence[list[Place]], by_driver: bool = True
    ) -> None:
        self._lock = Lock()
        self._numbers = np.zeros(sum(len(x.arguments) for x in steps), np.uint64)
        self._calls: list[_Started | _Launched] = []
        addresses: list[Place] = []
        first = 0
        for step, own in zip(steps, places, strict=True):
            if by_driver and isinstance(step, (Launch, FusedProduct)):
                self._calls.append(self._launched(step, own, first))
                addresses += [(first + at, slot, offset) for at, slot, offset in own]
            else:
                self._calls.append(_Started(step, own))
            first += len(step.arguments)
        at, slots, offsets = zip(*addresses, strict=True) if addresses else ((), (), ())
        self._at, self._slots = np.array(at, int), np.array(slots, int)
        self._offsets = np.array(offsets, np.uint64)

    def _launched(self, step: Launch | FusedProduct, places: list[Place], first: int) -> _Launched:
        count = len(step.arguments)
        base = self._numbers.ctypes.data + 8 * first
        parameters = (c_void_p * count)(*(base + 8 * at for at in range(count)))
        for at, value in enumerate(step.arguments, first):
            # Python's integers have 64 bits, NumPy's scalars what they have.
            raw = (value if isinstance(value, np.generic) else np.int64(value)).tobytes()
            self._numbers[at : at + 1].view(np.uint8)[: len(raw)] = np.frombuffer(raw, np.uint8)
        maps: tuple = ()
        if isinstance(step, FusedProduct):
            own = {at: where for at, *where in places}
            maps = tuple((*own.get(at, (-1, step.arguments[at])), shape)
                         for at, shape in enumerate((step.left, step.right)))  # fmt: skip
        what = c_void_p(device.address_of(step.kernel)), *step.grid, *step.block, step.shared
        launch = fused.driver().cuLaunchKernel
        return _Launched(launch, what, parameters, c_void_p(addressof(parameters)), maps)

    def start(self, given: Sequence[int], handle: int) -> None:
        """Start all steps in the current stream; `given`: addresses by slot."""
        if not len(self._at):
            for call in self._calls:
                call.start(given, handle, None)
            return
        stream = c_void_p(device.stream().ptr)
        with self._lock:  # the numbers are one call's at a time
            self._numbers[self._at] = np.array(given, np.uint64)[self._slots] + self._offsets
            for call in self._calls:
                call.start(given, handle, stream)


trial = Trial(_try, "kernels are launched by CuPy, which takes longer")
