"""Messages that the stream calls duplicates and does not have. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from bridge.model.record import Record


class Repeated:
    """Remembers of which objects something was sent again, and how far back in the stream it stands."""

    def __init__(self) -> None:
        self._newest: dict[tuple[str, str], tuple[int, int]] = {}
        """Object → the last of its records that was sent again, and its message, both by sequence number."""
        self.expected = True
        """The stream may know some of what comes next: what was under way when a process, a connection or an exchange
        ended, and what a replay or a snapshot repeats."""

    def to_send_again(self, batch: Sequence[Record], duplicates: Mapping[int, int], lost: Collection[int]) -> list[int]:
        """Places in the batch of the duplicates that are not where they belong. ``duplicates``: place → sequence
        number of the message. ``lost``: those of the numbers that the stream does not have.

        A duplicate that the stream has, but in front of the message of an older record that was sent again, is sent
        again too: the last message about an object is that of its newest record."""
        return [
            place
            for place, sequence in duplicates.items()
            if sequence in lost or self._is_overtaken(batch[place], sequence)
        ]

    def _is_overtaken(self, record: Record, sequence: int) -> bool:
        older, newest = self._newest.get(record.ordering_key, (record.sequence, 0))
        return older < record.sequence and sequence < newest

    def sent_again(self, record: Record, sequence: int) -> None:
        """This record was, and its message has that number."""
        self._newest[record.ordering_key] = (record.sequence, sequence)

    def over(self) -> None:
        """All of an exchange was new: nothing behind it was ever sent before."""
        self.expected = False
        self._newest.clear()
