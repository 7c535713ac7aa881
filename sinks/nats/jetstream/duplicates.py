"""Messages that the stream calls duplicates but no longer has. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from bridge.model.record import OrderingKey, Record


class Duplicates:
    """Decides which duplicates are sent again. Remembers for each object the newest record that was sent again."""

    def __init__(self) -> None:
        self._newest: dict[OrderingKey, tuple[int, int]] = {}
        """Object → sequence number of its newest record that was sent again, and the number of that message in the
        stream."""
        self.expected = True
        """The stream may know ids of the next messages: messages in flight when a process, a connection or an exchange
        ended, and messages that a replay or a snapshot repeats."""

    def to_send_again(self, batch: Sequence[Record], duplicates: Mapping[int, int], lost: Collection[int]) -> list[int]:
        """Indexes in the batch of the duplicates that must be sent again. ``duplicates``: index → number of the message
        in the stream. ``lost``: numbers of messages that the stream no longer has.

        Also a duplicate that the stream has is sent again, if a message of an older record of its object was sent again
        and so stands behind the duplicate: the last message of an object must be that of its newest record."""
        return [
            index
            for index, sequence in duplicates.items()
            if sequence in lost or self._is_overtaken(batch[index], sequence)
        ]

    def _is_overtaken(self, record: Record, sequence: int) -> bool:
        older, newest = self._newest.get(record.ordering_key, (record.sequence, 0))
        return older < record.sequence and sequence < newest

    def sent_again(self, record: Record, sequence: int) -> None:
        """The record was sent again; its message has this number in the stream."""
        self._newest[record.ordering_key] = (record.sequence, sequence)

    def none_left(self) -> None:
        """Every message of an exchange was new: no later message was ever sent before."""
        self.expected = False
        self._newest.clear()
