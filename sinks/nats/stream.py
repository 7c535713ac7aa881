"""The JetStream stream of a sink: finds it, creates it if the options say so, describes it, and tells whether it has
lost messages that the sink had stored there.

``loss_of`` compares a description with what the sink knew (``KnownStream``), without asking anybody. A stream that was
deleted is created again without a Gap. A Gap stands for records that a sink never gets; this sink got them, and its
consumers, whose own cursors were in the stream, know that they are gone. A snapshot would be more than the operator who
deleted the stream asked for. There are a warning and a metric, and ``kubedelta replay``.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Iterable, Iterator, Mapping
from datetime import datetime
from itertools import islice

import msgspec
import nats.errors
from nats.js import JetStreamContext
from nats.js.api import DiscardPolicy, RetentionPolicy, StorageType, StoreCompression, StreamConfig
from nats.js.errors import APIError, NotFoundError, ServiceUnavailableError

from sinks.nats.connection import NatsConnection
from sinks.nats.encode import LastTerm, term_of
from sinks.nats.options import CreateStream, NatsOptions
from sinks.receipt import SinkUnavailable, WrongOption

# ── Losses ───────────────────────────────────────────────────────────────────


class StreamLimits(msgspec.Struct, frozen=True, rename={"by_consumers": "retention"}):
    """The part of a stream's configuration by which it removes messages."""

    by_consumers: str = "limits"
    """``limits``; with ``workqueue`` and ``interest`` the stream removes what its consumers have read."""
    discard: str = "old"
    max_age: int = 0
    """Nanoseconds."""
    max_msgs: int = -1
    max_bytes: int = -1
    max_msgs_per_subject: int = -1

    @property
    def remove_none(self) -> bool:
        """No message leaves the stream unless somebody removes it."""
        by_size = self.discard == "old" and (self.max_msgs > 0 or self.max_bytes > 0)
        return not (self.by_consumers != "limits" or self.max_age > 0 or by_size or self.max_msgs_per_subject > 0)


class StreamContents(msgspec.Struct, frozen=True):
    messages: int
    bytes: int
    first_seq: int
    """The number of the first message; in an empty stream that of the next message, or 0 before the very first."""
    last_seq: int
    subjects: dict[str, int] | None = None
    """Messages of the subjects that the request asked for; None if there are none."""


class StreamDescription(msgspec.Struct, frozen=True):
    """The server's answer to STREAM.INFO, as far as the sink needs it."""

    created: datetime
    state: StreamContents
    config: StreamLimits
    ts: datetime | None = None
    """The server's time."""


class KnownStream(msgspec.Struct, frozen=True):
    """The stream as the sink has last seen it."""

    created: datetime
    first: int
    """The number of its first message."""
    last: int
    """The number of its newest message that the sink knows of; 0 before the first."""
    at: float
    """When the sink knew of that message, in seconds since 1970."""


def loss_of(known: KnownStream, found: StreamDescription, now: float) -> str:
    """How the stream has lost messages since it was ``known``; empty if it has not, or if its own limits may have
    removed them. ``now``: seconds since 1970."""
    state, limits = found.state, found.config
    if found.created != known.created:
        return "was deleted and created again" if known.last else ""
    if state.last_seq < known.last:
        return f"has lost its newest messages: its last was {known.last}, and is {state.last_seq}"
    if known.last and state.first_seq > known.last and not _limits_remove(known, found, now):
        return "was purged"
    if limits.remove_none and state.first_seq > max(1, known.first):
        return f"was purged up to its message {state.first_seq - 1}"
    return ""


def _limits_remove(known: KnownStream, found: StreamDescription, now: float) -> bool:
    """Whether the limits of the stream may have removed even the newest known message."""
    state, limits = found.state, found.config
    if limits.by_consumers != "limits":
        return True
    if limits.max_age > 0 and (found.ts.timestamp() if found.ts else now) - known.at >= limits.max_age / 1e9:
        return True
    if limits.max_msgs_per_subject > 0 and state.messages:
        return True
    # Such a limit removes the oldest messages of a full stream. Half full is far from it, whatever their sizes.
    full = state.messages >= limits.max_msgs > 0 or state.bytes >= limits.max_bytes / 2 > 0
    return limits.discard == "old" and full


# ── What survives a restart ──────────────────────────────────────────────────


class KnownBucket(msgspec.Struct, frozen=True):
    """The bucket of the option ``state``."""

    name: str
    created: datetime
    """When, by its server's clock: a bucket that is created again has another time."""
    subject: str = ""
    """Of an object whose state the bucket has, unless somebody purged it; empty while no such object is known."""


class NatsMemory(msgspec.Struct, omit_defaults=True):
    gap: str = ""
    """The id of the newest gap; empty before the first."""
    stream: KnownStream | None = None
    """The stream as it was last seen; None before the first time, and with ``mode: core``."""
    bucket: KnownBucket | None = None
    """The bucket as it was last seen; None without one."""

    @classmethod
    def read(cls, saved: bytes) -> NatsMemory | None:
        """None if the bytes cannot be read."""
        try:
            return msgspec.json.decode(saved, type=cls) if saved else cls()
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None

    def written(self) -> bytes:
        """Empty without any state."""
        return b"" if self == NatsMemory() else msgspec.json.encode(self)


# ── The stream ───────────────────────────────────────────────────────────────

_CONCURRENCY = 16
"""Requests for messages at the same time. The server sends each message with its payload."""


OTHER_PUBLISHER_OF_STREAM = (
    "another publisher writes into the stream {}: set sole_writer: false, or give this sink a stream of its own"
)


class NoStream(SinkUnavailable):
    """The stream does not exist, and the options do not say how to create it."""


class NatsStream:
    """Every method raises SinkUnavailable."""

    _option = "stream"

    def __init__(self, options: NatsOptions, subjects: list[str]) -> None:
        self.options = options
        self.name = options.stream_name
        self._subjects = subjects
        self.other_writer = OTHER_PUBLISHER_OF_STREAM.format(self.name)
        """For the operator, when the last message of the stream is not the expected one."""
        self.created = False
        """``find`` created the stream. The sink resets this when a receipt has reported it."""

    async def find(self, connection: NatsConnection, create: CreateStream | None) -> str:
        """Finds the stream, or creates it as ``create`` says. Returns the server and the number of messages. Raises
        WrongOption, too: the stream can acknowledge no message."""
        with self._errors(connection):
            jetstream = connection.jetstream(self.options.connect_timeout)
            try:
                info = await jetstream.stream_info(self.name)
            except NotFoundError:
                if create is None:
                    raise NoStream(
                        f"{connection.server} has no stream {self.name}; create it for {', '.join(self._subjects)}, or"
                        " set create_stream"
                    ) from None
                info = await jetstream.add_stream(self._config(create))
                self.created = True
        if wrong := _never_acknowledges(info.config):
            raise WrongOption(self._option, f"{connection.server}, stream {self.name}: {wrong}")
        return f"{connection.server}, stream {self.name} with {info.state.messages} messages"

    async def look(self, connection: NatsConnection) -> str:
        """Like ``find``, but creates no stream."""
        try:
            return await self.find(connection, create=None)
        except NoStream:
            if self.options.create_stream is None:
                raise
            return f"{connection.server}, stream {self.name} to be created"

    async def describe(self, connection: NatsConnection, subject: str = "") -> StreamDescription:
        """``subject``: one whose messages are counted, too."""
        counted = msgspec.json.encode({"subjects_filter": subject}) if subject else b""
        with self._errors(connection):
            info = f"$JS.API.STREAM.INFO.{self.name}"
            answer = await connection.request(info, self.options.connect_timeout, counted)
            try:
                return msgspec.json.decode(answer, type=StreamDescription)
            except msgspec.MsgspecError:
                raise SinkUnavailable(f"{connection.server} does not describe the stream {self.name}") from None

    async def term_at(self, connection: NatsConnection, sequence: int) -> LastTerm | None:
        """The term of the message with this number: 0 for one without. None if it is no number, or the stream has
        removed the message, or does not answer, as without the permission for ``$JS.API.STREAM.MSG.GET``."""
        with self._errors(connection):
            try:
                found = await connection.jetstream(self.options.connect_timeout).get_msg(self.name, sequence)
            except (NotFoundError, TimeoutError):
                return None
        return term_of(found.headers or {}, found.data or b"")

    async def lost(self, connection: NatsConnection, sought: Mapping[int, str]) -> set[int]:
        """Returns the numbers of the messages that the stream has lost. ``sought``: number → subject of the message.

        A message is not lost if the stream removed it by its policy: a stream with work queue or interest retention
        removes consumed messages, and ``max_msgs_per_subject`` removes a message when newer ones of its subject come.

        Makes a request, and a further request for each number if single messages are missing from the middle of the
        stream.
        """
        with self._errors(connection):
            jetstream = connection.jetstream(self.options.connect_timeout)
            info = await jetstream.stream_info(self.name)
            # Streams with work queue or interest retention delete consumed messages: a missing message is no loss.
            if info.config.retention not in (None, RetentionPolicy.LIMITS):
                return set()
            state = info.state
            gone = {sequence for sequence in sought if not state.first_seq <= sequence <= state.last_seq}
            # Between the first and the last message, single messages may have been deleted: only then each one is
            # looked up.
            if state.num_deleted:
                gone |= await self._not_found(jetstream, sought.keys() - gone)
            if (info.config.max_msgs_per_subject or 0) > 0:
                gone = await self._not_replaced(jetstream, {sequence: sought[sequence] for sequence in gone})
            return gone

    async def _not_found(self, jetstream: JetStreamContext, sequences: Iterable[int]) -> set[int]:
        missing: set[int] = set()

        async def find(sequence: int) -> None:
            try:
                await jetstream.get_msg(self.name, sequence)
            except NotFoundError:
                missing.add(sequence)

        await _in_chunks(find(sequence) for sequence in sequences)
        return missing

    async def _not_replaced(self, jetstream: JetStreamContext, gone: Mapping[int, str]) -> set[int]:
        newest: dict[str, int] = {}

        async def find(subject: str) -> None:
            with contextlib.suppress(NotFoundError):
                newest[subject] = (await jetstream.get_msg(self.name, subject=subject)).seq or 0

        await _in_chunks(find(subject) for subject in set(gone.values()))
        return {sequence for sequence, subject in gone.items() if newest.get(subject, 0) <= sequence}

    def _config(self, create: CreateStream) -> StreamConfig:
        return StreamConfig(
            name=self.name,
            subjects=self._subjects,
            storage=StorageType.FILE,
            num_replicas=create.replicas,
            max_age=create.max_age,
            max_bytes=-1 if create.max_bytes is None else create.max_bytes,
            duplicate_window=create.duplicate_window,
            # A full stream must refuse new messages: DiscardPolicy.OLD would delete messages that no consumer has read.
            discard=DiscardPolicy.NEW,
            compression=StoreCompression.S2,
            allow_direct=True,
        )

    @contextlib.contextmanager
    def _errors(self, connection: NatsConnection) -> Iterator[None]:
        server = connection.server
        try:
            yield
        except ServiceUnavailableError as error:
            raise SinkUnavailable(f"{server}: JetStream does not answer; is it enabled?") from error
        except (TimeoutError, nats.errors.Error) as error:
            reason = error.description if isinstance(error, APIError) else connection.reason(error)
            raise SinkUnavailable(f"{server}: cannot look at the stream {self.name}: {reason}") from error


def _never_acknowledges(config: StreamConfig) -> str:
    """Why; empty for a stream that does."""
    if config.no_ack:
        return "it acknowledges no message (no_ack), so no record would count as stored; set no_ack to false"
    if config.sealed:
        return "it is sealed, and takes no message any more; name another stream"
    if config.mirror is not None:
        return f"it is a mirror of {config.mirror.name}, and takes no message; name that stream"
    return ""


async def _in_chunks(requests: Iterable[Coroutine[None, None, None]]) -> None:
    """Runs at most ``_CONCURRENCY`` at once. Raises the first error."""
    rest = iter(requests)
    while some := list(islice(rest, _CONCURRENCY)):
        await asyncio.gather(*some)
