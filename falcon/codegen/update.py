"""Schedule Combine H as a stream of updates: what to do with each product once it is computed.

An engine that keeps the blocks of C on chip computes the products one after the other. Each is
added to the blocks that need it, and to sums that several blocks share. A shared sum has its own
slot until its last term is added; it is then added to all blocks and sums that need it. So the
shared sums of W save as many additions as in other engines, at the cost of slots.

The products may come in any order. The next one is always one that opens the fewest slots, minus
those that it completes.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from falcon.schemes import ComplexScheme, Scheme
from falcon.schemes.additions import Coefficient, SharedSums

PRODUCT = -1


class Update(NamedTuple):
    """``slot += coefficient * source``."""

    slot: int  # below m*n a block of C, else a shared sum
    source: int  # `PRODUCT`, or the slot of a shared sum that the same product has completed
    coefficient: Coefficient
    # Whether this is the first update of the slot, and whether it is the last.
    first: bool
    last: bool


@dataclass(frozen=True)
class Updates:
    """All updates of a scheme."""

    order: tuple[int, ...]  # the products in the order in which they must be computed
    steps: tuple[tuple[Update, ...], ...]  # what to do with each of them, in that order
    n_slots: int  # blocks of C and slots for shared sums


@lru_cache(maxsize=256)
def updates(scheme: Scheme | ComplexScheme) -> Updates:
    """Schedule Combine H of `scheme` after common-subexpression elimination."""
    return Schedule(scheme.shared_sums[2]).made()


class Schedule:
    """Variables are the products, then the blocks of C (outputs), then the shared sums."""

    def __init__(self, sums: SharedSums) -> None:
        self._rank, self._blocks = sums.n_inputs, len(sums.rows)
        self._terms = _terms(sums)
        self._users: dict[int, list[tuple[int, Coefficient]]] = defaultdict(list)
        for variable, terms in self._terms.items():
            for source, coefficient in terms:
                self._users[source].append((variable, coefficient))
        self._left = {variable: len(terms) for variable, terms in self._terms.items()}
        self._slots = {self._rank + block: block for block in range(self._blocks)}
        self._free: list[int] = []
        self._n_slots = self._blocks
        self._touched: set[int] = set()  # products whose neighbours' sums have changed

    def made(self) -> Updates:
        """Return the updates."""
        order: list[int] = []
        steps = []
        opens = [self._opened(x) for x in range(self._rank)]
        heap = [(x, product) for product, x in enumerate(opens)]
        heapq.heapify(heap)
        waiting = set(range(self._rank))
        while heap:
            known, product = heapq.heappop(heap)
            if product not in waiting or known != opens[product]:
                continue  # outdated: another entry is in the heap, or was
            waiting.remove(product)
            order.append(product)
            steps.append(tuple(self._pass_on(product)))
            for other in self._touched & waiting:
                opened = self._opened(other)
                if opened != opens[other]:
                    opens[other] = opened
                    heapq.heappush(heap, (opened, other))
            self._touched.clear()
        return Updates(tuple(order), tuple(steps), self._n_slots)

    def _opened(self, product: int) -> int:
        """Return how many slots a product would open, minus those that it would complete."""
        left: dict[int, int] = {}
        opened = 0
        ready = [product]
        while ready:
            for user, _ in self._users[ready.pop()]:
                if not self._is_shared(user):
                    continue
                before = left.get(user, self._left[user])
                left[user] = before - 1
                opened += before == len(self._terms[user])
                if before == 1:
                    opened -= 1
                    ready.append(user)
        return opened

    def _is_shared(self, variable: int) -> bool:
        return variable >= self._rank + self._blocks

    def _products(self, variable: int) -> Iterator[int]:
        """Yield the products in a variable."""
        if variable < self._rank:
            yield variable
            return
        for source, _ in self._terms[variable]:
            yield from self._products(source)

    def _pass_on(self, product: int) -> list[Update]:
        """Return the updates that add a product, and the sums that it completes, to their users."""
        updates: list[Update] = []
        done: list[int] = []
        ready = [(product, PRODUCT)]
        while ready:
            variable, source = ready.pop()
            for user, coefficient in self._users[variable]:
                first = self._left[user] == len(self._terms[user])
                self._left[user] -= 1
                if self._is_shared(user):
                    self._touched.update(self._products(user))
                last = self._left[user] == 0
                slot = self._slots[user] if user in self._slots else self._take(user)
                updates.append(Update(slot, source, coefficient, first, last))
                if last and self._is_shared(user):
                    ready.append((user, slot))
                    done.append(slot)
        self._free += done  # only now: these slots are read until all updates are made
        return updates

    def _take(self, variable: int) -> int:
        if not self._free:
            self._free.append(self._n_slots)
            self._n_slots += 1
        self._slots[variable] = self._free.pop()
        return self._slots[variable]


def _terms(sums: SharedSums) -> dict[int, list[tuple[int, Coefficient]]]:
    """Return the terms of every output and of every sum with more than one user.

    A sum with only one user is merged into that user: as many additions, but no slot.
    """
    rank, blocks = sums.n_inputs, len(sums.rows)

    def renamed(variable: int) -> int:
        return variable if variable < rank else variable + blocks

    terms: dict[int, list[tuple[int, Coefficient]]] = {}
    for index, (x, y, ratio) in enumerate(sums.temporaries):
        terms[rank + blocks + index] = [(renamed(x), 1), (renamed(y), ratio)]
    for index, row in enumerate(sums.rows):
        terms[rank + index] = [(renamed(x), c) for x, c in row]
    uses: dict[int, list[int]] = defaultdict(list)
    for variable, sources in terms.items():
        for source, _ in sources:
            uses[source].append(variable)
    # Later temporaries first: their own terms are then not yet merged.
    for variable in range(rank + blocks + len(sums.temporaries) - 1, rank + blocks - 1, -1):
        if len(uses[variable]) == 1:
            user = uses[variable][0]
            at = next(x for x, (source, _) in enumerate(terms[user]) if source == variable)
            scale = terms[user][at][1]
            inner = terms.pop(variable)
            terms[user][at : at + 1] = [(source, c * scale) for source, c in inner]
            for source, _ in inner:
                uses[source][uses[source].index(variable)] = user
    return terms
