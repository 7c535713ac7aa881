"""The stream that a sink writes into: found, made where that was asked for, and asked what it still has."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

import nats.errors
from nats.js import JetStreamContext
from nats.js.api import DiscardPolicy, RetentionPolicy, StorageType, StoreCompression, StreamConfig
from nats.js.errors import APIError, NotFoundError, ServiceUnavailableError

from sinks.base import SinkUnavailable
from sinks.nats.connection import Connection
from sinks.nats.options import CreateStream, NatsOptions

_AT_ONCE = 16
"""Messages that are asked for at the same time. Each comes whole."""


@dataclass(frozen=True, slots=True)
class Found:
    text: str
    """Where it is, and how much it has."""
    made: bool
    """It was not there."""


class NoStream(SinkUnavailable):
    """It is not there, and was not to be made."""


class Stream:
    """Every method raises SinkUnavailable."""

    def __init__(self, options: NatsOptions, subjects: list[str]) -> None:
        self._options = options
        self._name = options.stream
        self._subjects = subjects

    async def find(self, connection: Connection, create: CreateStream | None) -> Found:
        """Find the stream, or make it as ``create`` says."""
        with self._speaking(connection):
            jetstream = connection.jetstream(self._options.connect_timeout)
            try:
                info, made = await jetstream.stream_info(self._name), False
            except NotFoundError:
                if create is None:
                    raise NoStream(
                        f"{connection.server} has no stream {self._name}; make one for {', '.join(self._subjects)}, or"
                        " set create_stream"
                    ) from None
                info, made = await jetstream.add_stream(self._config(create)), True
        return Found(f"{connection.server}, stream {self._name} with {info.state.messages} messages", made)

    async def look(self, connection: Connection) -> str:
        """What is there, or that it will be made; makes nothing."""
        try:
            return (await self.find(connection, create=None)).text
        except NoStream:
            if self._options.create_stream is None:
                raise
            return f"{connection.server}, stream {self._name} to be created"

    async def lost(self, connection: Connection, sought: Mapping[int, str]) -> set[int]:
        """Of these sequence numbers, each with the subject of its message: those of messages that the stream does not
        have, and did not let go as it is meant to. A work queue, or a stream with interest retention, lets go what was
        consumed; one with ``max_msgs_per_subject`` lets go what a newer message of the same subject replaced.

        One request; one more for each number where single messages are missing from the middle of the stream."""
        with self._speaking(connection):
            jetstream = connection.jetstream(self._options.connect_timeout)
            info = await jetstream.stream_info(self._name)
            if info.config.retention not in (None, RetentionPolicy.LIMITS):
                return set()
            state = info.state
            gone = {sequence for sequence in sought if not state.first_seq <= sequence <= state.last_seq}
            if state.num_deleted:
                gone |= await self._not_found(jetstream, sought.keys() - gone)
            if (info.config.max_msgs_per_subject or 0) > 0:
                gone = await self._not_replaced(jetstream, {sequence: sought[sequence] for sequence in gone})
            return gone

    async def _not_found(self, jetstream: JetStreamContext, sequences: Iterable[int]) -> set[int]:
        missing: set[int] = set()

        async def look(sequence: int) -> None:
            try:
                await jetstream.get_msg(self._name, sequence)
            except NotFoundError:
                missing.add(sequence)

        await _some_at_once(look(sequence) for sequence in sequences)
        return missing

    async def _not_replaced(self, jetstream: JetStreamContext, gone: Mapping[int, str]) -> set[int]:
        newest: dict[str, int] = {}

        async def look(subject: str) -> None:
            with contextlib.suppress(NotFoundError):
                newest[subject] = (await jetstream.get_msg(self._name, subject=subject)).seq or 0

        await _some_at_once(look(subject) for subject in set(gone.values()))
        return {sequence for sequence, subject in gone.items() if newest.get(subject, 0) <= sequence}

    def _config(self, create: CreateStream) -> StreamConfig:
        return StreamConfig(
            name=self._name,
            subjects=self._subjects,
            storage=StorageType.FILE,
            num_replicas=create.replicas,
            max_age=create.max_age,
            max_bytes=-1 if create.max_bytes is None else create.max_bytes,
            duplicate_window=create.duplicate_window,
            # Full, it must say so: throwing away the oldest would lose what nobody has read.
            discard=DiscardPolicy.NEW,
            compression=StoreCompression.S2,
            allow_direct=True,
        )

    @contextlib.contextmanager
    def _speaking(self, connection: Connection) -> Iterator[None]:
        server = connection.server
        try:
            yield
        except ServiceUnavailableError as error:
            raise SinkUnavailable(f"{server}: JetStream does not answer; is it enabled?") from error
        except (TimeoutError, nats.errors.Error) as error:
            reason = error.description if isinstance(error, APIError) else connection.reason(error)
            raise SinkUnavailable(f"{server}: cannot look at the stream {self._name}: {reason}") from error


async def _some_at_once(looks: Iterable[Coroutine[None, None, None]]) -> None:
    """Raises the first error of one of them."""
    rest = iter(looks)
    while some := list(islice(rest, _AT_ONCE)):
        await asyncio.gather(*some)
