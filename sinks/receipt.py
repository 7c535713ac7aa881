"""The answer of a sink to a batch: a ``Receipt`` says which records are stored, which are rejected and which are
pending, and an error says that the destination is unavailable, that the Lease may be over, or that an option cannot be
used.

A ``BatchResult`` collects the results while a sink delivers, and makes the receipt of them. It keeps the order that
workers rely on: no record behind a rejected or pending record of its object counts as stored. Everything here is
computed from its arguments, without clock or network.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from kubedelta_reader.sources import Unavailable

from bridge.model.record import OrderingKey, Record


class SinkUnavailable(Unavailable):
    """The destination cannot be reached, or takes no records now; both may change later. The message tells the operator
    where to look, and holds no secret."""

    def __init__(
        self, reason: str, *, fenced: bool = False, doubted: bool = False, in_doubt: int | None = None
    ) -> None:
        """``fenced``, ``doubted``: see RetryLater. ``in_doubt``: in an election, a number that stands for what ``open``
        has found and that may be a later leader's, such as the last message of a stream. The Lease is confirmed, and
        the next sink gets the number as ``SinkContext.in_doubt``. None if nothing new was found."""
        super().__init__(reason)
        self.fenced = fenced
        self.doubted = doubted
        self.in_doubt = in_doubt

    def retry_later(self) -> RetryLater:
        """The same failure for a Receipt."""
        return RetryLater(str(self), unavailable=True, fenced=self.fenced, doubted=self.doubted)


class NotLeading(SinkUnavailable):
    """``SinkContext.may_send`` said no, so a request was not begun. Its records are pending, and withheld."""

    def __init__(self) -> None:
        super().__init__(WITHHELD.reason)

    def retry_later(self) -> RetryLater:
        return WITHHELD


class WrongOption(SinkUnavailable):
    """An option cannot be used: its value, or the file that it names.

    Raised before the bridge runs (``SinkType.examine``), this is a mistake in the configuration. Raised later, the
    bridge waits and tries again, as for every SinkUnavailable: the file may be renewed.
    """

    def __init__(self, option: str, reason: str) -> None:
        super().__init__(f"{option}: {reason}")
        self.option = option
        """The path of the option below its sink, such as ``ca_file`` or ``properties.linger.ms``."""
        self.reason = reason


def wrong_options(steps: Iterable[Callable[[], object]]) -> list[WrongOption]:
    """Runs every step and returns the WrongOption that each raised."""
    found = []
    for step in steps:
        try:
            step()
        except WrongOption as wrong:
            found.append(wrong)
    return found


Form = TypeVar("Form")


@dataclass(frozen=True, slots=True)
class RetryLater:
    """Why records of a batch are pending."""

    reason: str
    after: float | None = None
    """Seconds that the destination asked the bridge to wait (HTTP: Retry-After)."""
    unavailable: bool = False
    """The destination takes no record at all now: it is unreachable, refuses the credentials, or is busy. The circuit
    of the sink opens at once."""
    partly: bool = False
    """Only a part of the destination takes no record now, such as a topic: it takes those of other objects, which go
    past. Of no meaning for the circuit."""
    gone: bool = False
    """The destination wants no more records (HTTP 410). Deliveries end, also across restarts, until an operator resumes
    the sink; its backlog waits."""
    fenced: bool = False
    """Another process has taken the destination over. Deliveries end as with ``gone``: to take it back at once would
    only begin a fight of two. With an election they go on once the Lease is confirmed."""
    doubted: bool = False
    """The destination may know a later leader: with an election, deliveries wait until the Lease is confirmed."""
    withheld: bool = False
    """``SinkContext.may_send`` said no, so the records were not sent. They are once the Lease is confirmed, or by
    another replica. This is no failure of the destination."""


WITHHELD = RetryLater("the time for which this replica holds the Lease may be over", withheld=True)


@dataclass(frozen=True, slots=True)
class Receipt:
    """The result of each record of a batch, by its index. A record in neither list is stored, durably by the standard
    of the destination (Kafka: acks=all; JetStream: PubAck; HTTP: 2xx; file: on disk, or with ``fsync: never`` with the
    operating system).

    The records of each ordering key have this order: stored records, then at most one rejected record, then pending
    records. So no record overtakes a pending record. ``BatchResult`` keeps this order. A receipt of a transaction that
    stored nothing may reject records behind pending records.
    """

    pending: Sequence[int] = ()
    """Ascending indexes of the records that may not be stored. The bridge delivers them again."""
    failure: RetryLater | None = None
    """Set exactly when a record is pending for another reason than a rejected record in front of it."""
    rejected: Mapping[int, str] = field(default_factory=dict)
    """Index → reason, of records that the destination will never take."""
    answers: Mapping[int, str] = field(default_factory=dict)
    """Index → excerpt of the destination's answer to a rejected record (``sinks.excerpt``), where that has more than
    the reason. The bridge stores the excerpt with the dead letter and never logs it."""
    created: str = ""
    """The missing destination that the sink created, such as ``stream K8S``. A destination that was deleted comes back
    empty, so the bridge logs this."""
    lost: str = ""
    """How the destination lost records that it had stored, such as ``stream K8S was purged``. The sink has stored a Gap
    in front of this batch; the bridge logs and counts it."""
    changed: str = ""
    """A change of the destination with consequences for consumers, and these, such as more partitions of a topic. The
    bridge logs and counts it."""
    memory: bytes | None = field(default=None, compare=False)
    """State of the sink that survives a restart, as it is behind this batch; None if it is that of the receipt before.
    When all records that were handed to the sink are stored (or dead letters), the bridge saves the newest memory in
    the same transaction as the cursor, and the next sink gets it in its SinkContext. Records handed over later come
    again after a crash. A few kilobytes at most."""

    def followed_by(self, rest: Receipt) -> Receipt:
        """The result of the batch after its pending records were delivered again, with the result ``rest``."""
        at = self.pending
        return replace(
            rest,
            memory=self.memory if rest.memory is None else rest.memory,
            pending=tuple(at[index] for index in rest.pending),
            rejected={**self.rejected, **{at[index]: reason for index, reason in rest.rejected.items()}},
            answers={**self.answers, **{at[index]: answer for index, answer in rest.answers.items()}},
        )


ALL_STORED = Receipt()


def is_blocked(first_rejected: Mapping[OrderingKey, int], record: Record, position: int) -> bool:
    """**No record behind a rejected record.** A record is blocked when its object has a rejected record at or before
    the record's position. A blocked record is not sent: the rejected record may be delivered later, when an operator
    retries its dead letter, and the records behind it must follow in their order.

    ``position`` and the values of ``first_rejected`` are of the same kind: indexes of a batch (``BatchResult``), or
    sequence numbers of the log (the dead letters of a sink).
    """
    first = first_rejected.get(record.ordering_key)
    return first is not None and first <= position


class BatchResult:
    """Collects the results of a batch and makes its Receipt. Indexes are those of the batch.

    A sink encodes with ``encode``, reports each rejected record with ``reject``, sends only indexes that are
    ``sendable``, and returns ``receipt``. Then the receipt has the promised order, and no blocked record was sent.
    """

    def __init__(self, batch: Sequence[Record]) -> None:
        self.batch = batch
        self.rejected: dict[int, str] = {}
        self._answers: dict[int, str] = {}
        self._first_rejected: dict[OrderingKey, int] = {}

    def encode(self, encode: Callable[[Record], Form]) -> dict[int, Form]:
        """Index → encoded record. ``encode`` raises ValueError for a record that has no such form: the record is
        rejected with that message, and with the name of any other error: one record never harms others. Records behind
        a rejected record are not encoded."""
        forms: dict[int, Form] = {}
        for index, record in enumerate(self.batch):
            # The first condition is for speed: nearly every batch is without rejected records.
            if self._first_rejected and is_blocked(self._first_rejected, record, index):
                continue
            try:
                forms[index] = encode(record)
            except ValueError as error:
                self.reject(index, str(error))
            except Exception as error:
                self.reject(index, f"it cannot be encoded: {type(error).__name__}")
        return forms

    def reject(self, index: int, reason: str, answer: str = "") -> None:
        """The destination will never take this record. ``answer`` is an excerpt of the destination's answer."""
        self.rejected[index] = reason
        if answer:
            self._answers[index] = answer
        key = self.batch[index].ordering_key
        self._first_rejected[key] = min(index, self._first_rejected.get(key, index))

    def sendable(self, indexes: Iterable[int]) -> list[int]:
        """The given indexes without rejected and blocked records."""
        if not self._first_rejected:
            return list(indexes)
        return [index for index in indexes if not is_blocked(self._first_rejected, self.batch[index], index)]

    def receipt(self, pending: Collection[int] = (), failure: RetryLater | None = None) -> Receipt:
        """``pending`` are the records that may not be stored. Every record behind a pending or a rejected record of its
        object becomes pending too, even a rejected record: its rejection is reported again, in its turn."""
        # Always the same object, which workers recognise without looking at its lists.
        if not pending and not self.rejected:
            return ALL_STORED
        may_not_be_stored = set(pending)
        blocked: set[OrderingKey] = set()
        left: list[int] = []
        rejected: dict[int, str] = {}
        for index, record in enumerate(self.batch):
            key = record.ordering_key
            if key in blocked or index in may_not_be_stored:
                left.append(index)
            elif index in self.rejected:
                rejected[index] = self.rejected[index]
            else:
                continue
            blocked.add(key)
        answers = {index: answer for index, answer in self._answers.items() if index in rejected}
        return Receipt(left, failure if may_not_be_stored else None, rejected, answers)
