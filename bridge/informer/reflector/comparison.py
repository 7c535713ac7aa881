"""The part of an informer's known objects that is of the API server's present history."""

from __future__ import annotations

from collections.abc import Iterable

from bridge.informer.delta_fifo import DeltaFIFO
from bridge.model.object import ApiObject


class Comparison:
    """Begins when another history is found or suspected, and ends when a complete list is known.

    Until then the informer vouches for the listed objects only. Any other known object is of the former history, and
    would prove the present one to be another history once more. A listed object counts as soon as the Controller has
    its delta; until then the Indexer has the former state.
    """

    def __init__(self, fifo: DeltaFIFO, *, under_way: bool) -> None:
        self._fifo = fifo
        self._under_way = under_way
        self._listed: dict[str, int] = {}
        """Key of each object that was listed since the comparison began → DeltaFIFO.arrivals with its delta."""
        self._ends_with: int | None = None
        """DeltaFIFO.arrivals with the last delta of a complete list; None until there is such a list."""

    def begin(self) -> None:
        """Begins a comparison, in place of a former comparison, whose lists may be of a former history."""
        self._under_way, self._ends_with = True, None
        self._listed.clear()

    def listed(self, objects: Iterable[ApiObject]) -> None:
        if self._under_way:
            self._listed.update(dict.fromkeys((thing.key for thing in objects), self._fifo.arrivals))

    def list_ended(self, *, complete: bool) -> None:
        self._ends_with = self._fifo.arrivals if complete else None

    @property
    def has_begun(self) -> bool:
        """An object was listed, and no complete list is known."""
        return self._is_under_way() and bool(self._listed)

    @property
    def vouches_for(self) -> list[str] | None:
        """Keys of the objects that are known to be of the present history; None for all of them."""
        if not self._is_under_way():
            return None
        return [key for key, arrived in self._listed.items() if arrived <= self._fifo.drained_through]

    def _is_under_way(self) -> bool:
        if self._ends_with is not None and self._ends_with <= self._fifo.drained_through:
            self._under_way, self._ends_with = False, None
            self._listed.clear()
        return self._under_way
