"""Takes a stream over for the leader of a term, so that it stores nothing more of a former leader."""

from __future__ import annotations

from msgspec.structs import replace

from bridge.model.primitives.election import TermBegan
from sinks.errors import SinkUnavailable
from sinks.nats.connection import NatsConnection
from sinks.nats.encode import NatsEncoder
from sinks.nats.jetstream.stream import NatsStream, OtherWriter


class StreamInDoubt(SinkUnavailable):
    """The stream may have a later leader."""

    doubted = True

    def __init__(self, reason: str, last: int = 0) -> None:
        super().__init__(reason)
        self.last = last
        """The number of the message that may be a later leader's."""


async def take_over(
    stream: NatsStream, connection: NatsConnection, encoder: NatsEncoder, began: TermBegan, last: int, in_doubt: int
) -> int:
    """Returns the number of the message behind which this leader may store its next one: that of the notice which
    begins the term, or ``last`` if the term has begun. Every earlier leader has read a smaller number, or finds a later
    term in the last message. ``last``: of the last message in the stream. ``in_doubt``: see FencingSink. Raises
    StreamInDoubt, and SinkUnavailable if the stream cannot be read or takes no message."""
    if await term_at_end(stream, connection, began, last, in_doubt) == began.term:
        return last
    try:
        return await stream.append(connection, encoder.term(replace(began, behind=last)))
    except OtherWriter as error:
        raise StreamInDoubt(str(error)) from error


async def term_at_end(
    stream: NatsStream, connection: NatsConnection, began: TermBegan, last: int, in_doubt: int
) -> int | None:
    """The term of the last message: none that is later than ``began``, but for the message ``in_doubt``. Raises
    StreamInDoubt, and SinkUnavailable. The parameters are those of ``take_over``."""
    found = await stream.term_at(connection, last) if last else 0
    if last != in_doubt and (found is None or found > began.term):
        whose = "cannot be read" if found is None else f"is of a leader of term {found}"
        raise StreamInDoubt(
            f"{stream.name}: its last message {last} {whose}, and this leader has term {began.term}", last
        )
    return found
