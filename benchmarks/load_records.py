"""Which pod each record of the load server is about, as `load/cluster.go` spreads its events."""

from __future__ import annotations

from collections.abc import Container, Iterator
from itertools import chain, count

_64_BITS = (1 << 64) - 1


class OwnRecords:
    """A destination with the records of some of the pods."""

    def __init__(self, pods: int, own: Container[int]) -> None:
        self._places = places(pods, own)
        self._own, self._next = 0, next(self._places)

    def through(self, own: int) -> int:
        """The records of all pods up to the next own one, behind so many own ones, which never become fewer."""
        while self._own < own:
            self._own, self._next = self._own + 1, next(self._places)
        return self._next


def places(pods: int, own: Container[int]) -> Iterator[int]:
    """The numbers of the records, from 0, that concern these pods."""
    return (number for number, pod in enumerate(concerned(pods)) if pod in own)


def concerned(pods: int) -> Iterator[int]:
    """The pod of each record: first the list, then one event after the other."""
    return chain(range(pods), (mixed(event) % pods for event in count()))


def mixed(seed: int) -> int:
    """SplitMix64, as `load/template.go` has it."""
    seed = (seed + 0x9E3779B97F4A7C15) & _64_BITS
    seed = ((seed ^ seed >> 30) * 0xBF58476D1CE4E5B9) & _64_BITS
    seed = ((seed ^ seed >> 27) * 0x94D049BB133111EB) & _64_BITS
    return seed ^ seed >> 31
