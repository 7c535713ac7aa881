"""The state of an exchange with a stream: which number each message names, which messages are in flight, what the
server's answers mean, and which messages have to be sent again. Nothing here speaks to a server; ``delivery`` does.

An answer is a PubAck (ADR-2 of NATS), or a status in its place; ``read_answer`` turns either into a value. A
``PublishWindow`` has the messages that are published and not answered yet, and the results of those that are.

``Numbering`` guesses the numbers. Messages name numbers and not the id of the message before. A stream of three
replicas verifies that id behind the agreement of its servers, and nats-server 2.15.2 stops at the first unexpected one,
on all servers and for good; a record above the stream's largest size is enough. A number is verified before. The price,
of 1,000 records: 400 known ones in front cost 7 exchanges in place of 1; every second one known, 500 exchanges, with 9
messages for each record.

``LostDuplicates`` decides about messages that the stream calls duplicates but no longer has. They are verified with the
first and the last number of the stream: a request for each exchange with a duplicate, and requests for single messages
only where the stream has holes. Ids that are never used twice would store every record in flight at a kill a second
time. While duplicates are expected (after a start, a broken connection, a failure) no two messages of an object are in
flight at once: a message behind a lost duplicate would overtake it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from bridge.model.record import NO_OBJECT, OrderingKey, Record
from sinks.excerpt import Secrets, excerpt
from sinks.nats.connection import MAX_UNANSWERED_BYTES
from sinks.nats.verdicts import STORE_FAILED, TOO_LARGE_FOR_THE_STORE, VERDICTS, JetStreamFault

# ── Answers ──────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The stream has stored the message, or knows its id."""

    sequence: int
    """The number of the message in the stream."""
    duplicate: bool
    """The stream knows the id; ``sequence`` is the number of the first message with that id. The stream may have lost
    that message since, in a purge for instance, and stores none in its place."""


@dataclass(frozen=True, slots=True)
class MessageRejected:
    """The stream will never take this message."""

    reason: str
    answer: str = ""
    """An excerpt of the server's answer."""


@dataclass(frozen=True, slots=True)
class WrongLastMessage:
    """The number that the message names is not that of the stream's last message."""

    last: int | None = None
    """The number of the last message; None if the server does not say it."""


@dataclass(frozen=True, slots=True)
class PublishFailed:
    """The stream does not take the message now."""

    reason: str
    no_stream: bool = False
    """No stream takes the subject: the stream was deleted, or JetStream is unavailable."""


Answer: TypeAlias = Acknowledged | MessageRejected | WrongLastMessage | PublishFailed


class _Error(msgspec.Struct):
    code: int = 0
    err_code: int = 0
    description: str = ""


class _PubAck(msgspec.Struct):
    stream: str = ""
    seq: int = 0
    duplicate: bool = False
    error: _Error | None = None


_decode = msgspec.json.Decoder(_PubAck).decode

_LAST = re.compile(r"wrong last sequence: ([0-9]{1,20})")
_HINTS = {
    10060: "another stream takes this subject; see stream and subject",
    10076: "JetStream is not enabled for this account",
    10077: "the stream is full",
    10109: "the stream is sealed",
}
STREAM_MISSING = "no stream takes this subject; see stream, subject and create_stream"


def read_answer(headers: Mapping[str, str] | None, payload: bytes) -> Answer:
    """``headers`` and ``payload`` of the server's answer. Never raises: an unreadable answer is a PublishFailed."""
    if headers and not payload:
        status = headers.get("Status")
        if status == "503":
            return PublishFailed(STREAM_MISSING, no_stream=True)
        return PublishFailed(f"the server answers with status {status}")
    try:
        ack = _decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return PublishFailed("the server's answer is no acknowledgement of JetStream")
    if ack.error is None:
        if not ack.seq:
            return PublishFailed("the server's answer is no acknowledgement of JetStream")
        return Acknowledged(ack.seq, ack.duplicate)
    number, description = ack.error.err_code, ack.error.description
    if number in VERDICTS[JetStreamFault.FENCE]:
        return WrongLastMessage(_last_in(description))
    if number == STORE_FAILED and description == TOO_LARGE_FOR_THE_STORE:
        return MessageRejected("larger than a message in the stream's store may be", excerpt(payload, Secrets(())))
    if reason := VERDICTS[JetStreamFault.RECORD].get(number):
        return MessageRejected(reason, excerpt(payload, Secrets(())))
    hint = f" ({_HINTS[number]})" if number in _HINTS else ""
    return PublishFailed(f"the server answers: {description}{hint}")


def _last_in(description: str) -> int | None:
    found = _LAST.fullmatch(description)
    return int(found[1]) if found else None


# ── Numbers ──────────────────────────────────────────────────────────────────

_FEWEST = 16
"""Messages of the smallest exchange."""
_FACTOR = 4


class Numbering:
    """The stream stores a message only behind the number that it names. Two guesses are possible:

    - Ascending: all are new to the stream, so each names a number that is larger by one. Behind a message that is not
      stored, the stream refuses all others.
    - Constant: the stream knows the ids of the first ones, so all name the same number. It stores at most one of them.

    One server refuses a duplicate that names another number, a replicated stream does not. Where ids that the stream
    knows and new ones alternate, each exchange has two of them. It is small then: the stream refuses the others.
    """

    def __init__(self, most: int) -> None:
        """``most``: messages of an exchange."""
        self._most = self.size = most
        self.ascending = True
        self._guessed_again = False

    def named(self, last: int, count: int) -> Sequence[int]:
        """``last``: the number of the stream's last message."""
        return range(last, last + count) if self.ascending else [last] * count

    def learn(self, *, sent: int, answered: int, duplicates: int, refused: bool) -> None:
        """An exchange ended. ``answered``: its first messages, which the stream has stored, known or rejected.
        ``refused``: the next one named a wrong number."""
        if not refused:
            self.size = min(self._most, self.size * _FACTOR)
        elif self.ascending and not duplicates:
            return  # Behind a message that was rejected or lost.
        elif answered * _FACTOR < sent:
            self.size = max(_FEWEST, self.size // _FACTOR)
        if not refused or answered > 1:
            self._guessed_again = False
        elif self._guessed_again:
            self._guessed_again = False  # A run of one. The other guess would meet the next one, and so on.
        else:
            self.ascending, self._guessed_again = not self.ascending, True


# ── Lost duplicates ──────────────────────────────────────────────────────────


class LostDuplicates:
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


# ── Messages in flight ───────────────────────────────────────────────────────


class PublishWindow:
    """The messages of an exchange that were published and not answered yet. Indexes are those of the batch, and ascend.

    A replicated stream answers at once what it does not store, and the messages before it later. Behind the first
    message that the stream does not take, answers are ignored: it takes none of these messages either, and one that was
    stored all the same comes again and is known by its id.
    """

    def __init__(self, on_answer: Callable[[], None], last: int | None = None, most: int | None = None) -> None:
        """``on_answer`` is called for every answer that is not ignored. ``last``: the number of the stream's last
        message, if messages name it. ``most``: see ``room_for``."""
        self._on_answer, self._most = on_answer, most
        self.last = last
        """The number of the stream's last message, as far as answers tell; None if none is known."""
        self.stored: dict[int, int] = {}
        """Index → number of the message in the stream."""
        self.duplicates: dict[int, int] = {}
        """The part of ``stored`` whose ids the stream knew before."""
        self.rejected: dict[int, MessageRejected] = {}
        self.failure: PublishFailed | None = None
        """The stream takes no more messages now."""
        self.refused: WrongLastMessage | None = None
        """A message was not stored because the number that it names is not that of the stream's last message."""
        self._cut: int | None = None
        """The index of the first message that the stream does not take."""
        self._in_flight: dict[int, tuple[int, int, OrderingKey | None]] = {}
        """Number of the publish → index, size in bytes, and object."""
        self._objects: set[OrderingKey | None] = set()
        self._bytes = 0
        self._wakes_at = 0
        """Messages in flight for which a waiting sender waits."""
        self._change = asyncio.Event()

    async def room_for(self, size: int, named: int | None = None, key: OrderingKey | None = None) -> bool:
        """Waits until a message of ``size`` bytes may leave. False: none may leave any more. With ``most``, it may name
        a number that is larger than the last known one by less than that, and none of its object (``key``) is in
        flight. A notice has none beside it."""
        while not self.broken():
            if self._has_room(size) and (self._most is None or named is None or self._is_near(named, key)):
                return True
            if not self._in_flight:
                return False
            # Half as many: one message for each answer would cost a write to the socket each.
            self._wakes_at = len(self._in_flight) // 2
            self._change.clear()
            await self._change.wait()
            self._wakes_at = 0
        return False

    def _has_room(self, size: int) -> bool:
        # A message that is larger than the window is sent when the window is empty.
        return not self._bytes or self._bytes + size <= MAX_UNANSWERED_BYTES

    def _is_near(self, named: int, key: OrderingKey | None) -> bool:
        if self._most is None or self.last is None or named - self.last >= self._most:
            return False
        if key == NO_OBJECT or NO_OBJECT in self._objects:
            return not self._in_flight
        return key not in self._objects

    def sent(self, number: int, index: int, size: int, key: OrderingKey | None = None) -> None:
        self._in_flight[number] = (index, size, key)
        self._bytes += size
        if key is not None:
            self._objects.add(key)

    def broken(self) -> bool:
        """Further messages of this exchange would not be stored."""
        return self.refused is not None or self.failure is not None

    @property
    def excused(self) -> bool:
        """No other writer caused ``refused``: the stream has not stored all messages before it, and no other either."""
        if self.refused is not None and self.refused.last is not None:
            return self.refused.last == self.last
        return bool(self.duplicates or self.rejected)

    def answered(self, number: int, headers: Mapping[str, str] | None, payload: bytes) -> None:
        """The server's answer to the publish with this number."""
        index, size, key = self._in_flight.pop(number, (-1, 0, None))
        if index < 0 or (self._cut is not None and index > self._cut):
            return  # An answer to an earlier exchange, or behind the first message that was not taken.
        self._bytes -= size
        self._objects.discard(key)
        self._on_answer()
        answer = read_answer(headers, payload)
        if isinstance(answer, Acknowledged):
            self.stored[index] = answer.sequence
            if answer.duplicate:
                self.duplicates[index] = answer.sequence
            elif self.last is not None:
                self.last = answer.sequence
        elif isinstance(answer, MessageRejected):
            self.rejected[index] = answer
        else:
            self._end(index, answer)
        if len(self._in_flight) <= self._wakes_at or self.broken():
            self._change.set()

    def _end(self, cut: int, answer: WrongLastMessage | PublishFailed) -> None:
        self._cut = cut
        for known in (self.stored, self.duplicates, self.rejected):
            for index in [each for each in known if each > cut]:
                del known[index]
        self.refused = answer if isinstance(answer, WrongLastMessage) else None
        self.failure = answer if isinstance(answer, PublishFailed) else None

    def fail(self, reason: str) -> None:
        """No answer comes any more."""
        self.failure = self.failure or PublishFailed(reason)
        self._in_flight.clear()
        self._change.set()

    async def all_answered(self) -> None:
        """Returns when every published message is answered, up to the first that the stream does not take."""
        while self._awaits():
            self._change.clear()
            await self._change.wait()

    def _awaits(self) -> bool:
        first = next(iter(self._in_flight.values()), None)
        return first is not None and (self._cut is None or first[0] < self._cut)
