"""The records of the log as a sink with a selection gets them. Pure. Hot for such sinks."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from bridge.model.change import Evidence, Op
from bridge.model.primitives.ring import Slice
from bridge.model.record import Delta, Record
from bridge.outbox import Outbox, StoredSelection


class SelectedLog:
    """The log for a sink with a selection. Records that the sink does not get have empty bodies, which the view leaves
    out: no body is read for them."""

    def __init__(self, outbox: Outbox, selection: StoredSelection) -> None:
        self._outbox = outbox
        self._selection = selection

    @property
    def last(self) -> int:
        """See processor.log.Log."""
        return self._outbox.last

    async def read(self, after: int, limit: int) -> Slice[Record]:
        """See processor.log.Log."""
        # Older records have no decision for the sink; a bit in them may be that of a sink which is forgotten.
        is_decided = after >= self._selection.since
        return await self._outbox.read(after, limit, self._selection.mask if is_decided else None)


def view_of(selection: StoredSelection) -> Callable[[Record], Record | None]:
    """A function from a record of the log to the record that the sink gets by the decision stored with the record;
    None if the record is not for the sink."""
    mask, since, had_all = selection.mask, selection.since, selection.had_all

    def view(record: Record) -> Record | None:
        if not isinstance(record, Delta):
            return record
        if record.sequence <= since:
            return record if had_all else None
        selected = record.selected
        if selected is None:
            return record
        if not selected.takes & mask:
            return None
        if selected.enters & mask:
            return replace(record, op=Op.ADDED, before=None)
        if selected.leaves & mask:
            return replace(record, op=Op.DELETED, evidence=Evidence.UNSELECTED)
        return record

    return view
