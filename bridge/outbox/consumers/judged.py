"""Records of the log, judged anew by a sink's present selection: for a replay, and for a sink that begins with the
earliest record. Decisions that are stored with records were made by the selection of their time.

The objects' states are judged in the order of the log. Of an object whose earlier records are trimmed, the first record
here is a step of an object that the sink may know: an update stays an update. Memory grows with the number of objects
and, by nine bytes, with that of records.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from functools import partial

import apsw

from bridge.model.change import Op
from bridge.model.record import Delta, Record
from bridge.outbox.consumers.backfill import BackfillItem
from bridge.outbox.log import reading, record_codec
from bridge.outbox.log.statements import Decide

_OPS = (*Op, record_codec.GAP)
_AT_ONCE = 200
"""Records that are read in each transaction."""


class JudgedRecords:
    """Collects what the sink gets of the records that are passed to ``judge``, in the order of the log. ``mask``: the
    sink's bit in the answers of ``decide``. ``before``: the state before a record, if it is still known."""

    def __init__(self, decide: Decide, mask: int, before: Callable[[Delta], bytes | None]) -> None:
        self._decide = decide
        self._mask = mask
        self._before = before
        self._members: dict[tuple[str, str, str], int] = {}
        self._sequences = array("q")
        self._ops = bytearray()

    def judge(self, record: Record) -> None:
        op = self._op(record) if isinstance(record, Delta) else record_codec.GAP
        if op is not None:
            self._sequences.append(record.sequence)
            self._ops.append(_OPS.index(op))

    def items(self, first: int) -> Iterator[BackfillItem]:
        """Items of a backfill, for the records from sequence number ``first`` on."""
        for sequence, op in zip(self._sequences, self._ops, strict=True):
            if sequence >= first:
                yield BackfillItem(sequence, _OPS[op])

    def _op(self, delta: Delta) -> Op | None:
        """The op with which the sink gets the record; None if it gets none."""
        thing = (delta.resource.name, delta.key, delta.uid)
        was = self._members.get(thing)
        selected = self._decide(delta, was, None if delta.op is Op.ADDED else partial(self._before, delta))
        if delta.op is Op.DELETED:
            self._members.pop(thing, None)
        else:
            self._members[thing] = selected.members
        if not selected.takes & self._mask:
            return None
        if selected.enters & self._mask:
            return Op.ADDED
        return Op.DELETED if selected.leaves & self._mask else delta.op


def read(
    database: apsw.Connection,
    codec: record_codec.Codec,
    after: int,
    through: int,
    condition: str,
    values: tuple[int | str, ...],
) -> list[Record]:
    """The first changes of objects and gaps behind ``after``, up to ``through`` and a bounded number of bytes: without
    resyncs and differences, which are for certain sinks. Raises Damaged."""
    found = database.execute(
        f"SELECT {record_codec.COLUMNS} FROM log WHERE seq > ? AND seq <= ? AND targets IS NULL AND {condition}"
        f" ORDER BY seq LIMIT {_AT_ONCE}",
        (after, through, *values),
    )
    records = (record_codec.record_of(row, codec) for row in found)
    return list(reading.bounded(records, reading.record_bytes))
