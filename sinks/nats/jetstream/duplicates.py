"""Messages that the stream calls duplicates but no longer has. Pure.

Duplicates are verified with the first and the last number of the stream: a request for each exchange with a duplicate,
and requests for single messages only where the stream has holes. Ids that are never used twice would store every record
in flight at a kill a second time. While duplicates are expected (after a start, a broken connection, a failure) no two
messages of an object are in flight at once: a message behind a lost duplicate would overtake it.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from bridge.model.record import OrderingKey, Record


class Duplicates:
    """Decides which messages are sent again. Remembers for each object the newest record that was sent again, or was
    stored while messages may be out of order."""

    def __init__(self) -> None:
        self._newest: dict[OrderingKey, tuple[int, int]] = {}
        """Object → sequence number of that record, and the number of its message in the stream."""
        self.expected = True
        """The stream may know ids of the next messages: messages in flight when a process, a connection or an exchange
        ended, and messages that a replay or a snapshot repeats."""
        self.disordered = False
        """An exchange failed, or another writer came in between: the stream may have stored messages of it behind one
        that it has not."""

    def to_send_again(
        self, batch: Sequence[Record], stored: Mapping[int, int], duplicates: Container[int], lost: Container[int]
    ) -> list[int]:
        """Indexes in the batch of the messages that must be sent again. ``stored``: index → number of the message in
        the stream, in the order of the batch. ``duplicates``: the indexes that were stored before. ``lost``: numbers of
        messages that the stream no longer has.

        Also a message that the stream has is sent again, if one of an older record of its object is sent again, or was
        stored behind it: the last message of an object must be that of its newest record."""
        again: list[int] = []
        objects: set[OrderingKey] = set()
        for index, sequence in stored.items():
            record = batch[index]
            known = index in duplicates and (sequence in lost or self._is_behind_newer(record, sequence))
            if known or record.ordering_key in objects:
                again.append(index)
                objects.add(record.ordering_key)
        return again

    def _is_behind_newer(self, record: Record, sequence: int) -> bool:
        older, newest = self._newest.get(record.ordering_key, (record.sequence, 0))
        return older < record.sequence and sequence < newest

    def stored(self, record: Record, sequence: int) -> None:
        """The record was stored as the message with this number, perhaps behind a newer one of its object."""
        self._newest[record.ordering_key] = (record.sequence, sequence)

    def none_left(self) -> None:
        """Every message of an exchange was new: no later message was ever sent before."""
        self.expected = self.disordered = False
        self._newest.clear()
