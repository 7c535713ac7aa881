"""Takes a stream over for the leader of a term, so that it stores nothing more of a former leader.

The stream refuses a message whose predecessor is not the last one, and only a message makes another one the last.
Without a notice, a former leader could store messages until its successor had a change to deliver. A number alone is no
proof, since a former leader that connects anew would read that of the notice; so it also reads the term of the last
message. To wait for a renewal of the Lease after each read would hold up every takeover for two seconds; that is left
for a last message that is gone.

At most ``MAX_MESSAGES_IN_FLIGHT`` messages are in flight, of different objects, and a takeover writes one notice less
than that in front of its own (``take_over_stream`` says why). Those in front name the former term, since some of its
records may come between them. Equal notices would not do (a reader that drops a former term behind the first would lose
records), nor the last number of the notices' subject (a replicated stream has one such message in flight), nor atomic
batches (an option of the stream, since 2.12). The price: a hundred messages and 4 ms for each takeover (14 ms on two
busy cores), a further right, and notices that consumers meet; and in the stream of an undeclared second writer, a
record that comes again may stand behind an older one of its object.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from bridge.model.record import TermBegan
from sinks.nats.connection import NatsConnection
from sinks.nats.delivery import MAX_MESSAGES_IN_FLIGHT, NatsDelivery
from sinks.nats.encode import LastTerm, NatsEncoder, NatsMessage
from sinks.nats.exchange import LostDuplicates
from sinks.nats.stream import NatsStream
from sinks.receipt import BatchResult, SinkUnavailable


class StreamInDoubt(SinkUnavailable):
    """The stream may have a later leader, or has another writer."""

    in_doubt: int

    def __init__(self, reason: str, in_doubt: int = 0) -> None:
        """``in_doubt``: the number of the message that may be a later leader's; 0 for none."""
        super().__init__(reason, doubted=True, in_doubt=in_doubt)


async def take_over_stream(
    stream: NatsStream,
    connection: NatsConnection,
    encoder: NatsEncoder,
    began: TermBegan,
    last: int,
    in_doubt: int,
) -> int:
    """Returns the number of the message behind which this leader may store its next one: that of the notice which
    begins the term, or ``last`` if the term has begun. ``last``: of the last message in the stream. ``in_doubt``: see
    SinkContext. Raises StreamInDoubt, and SinkUnavailable if the stream cannot be read or takes no message.

    In front of the notice it writes ``MAX_MESSAGES_IN_FLIGHT - 1`` others, and the notice only when no other message is
    in between. An earlier leader has read a number before all of them, or finds a later term at the end; so its
    messages name numbers before that of the notice, and the stream refuses them from then on. Those that it stores in
    between stand in front of the notice.

    The others are there because a stream compares a number, and nothing else. A former leader that was frozen, or whose
    messages are late, has messages on their way that name L, L + 1, L + 2 …, L being the last number that it knew. A
    notice alone takes the number L + 1. The stream refuses the first of those messages, but now its last number is the
    one that the second message names: it stores the second one, and all that follow, behind the notice. With as many
    messages in front as can be on their way, the last number is beyond all that they name. Without them, streams of one
    server and of three take what the notice is there to end (``test_replicated_stream``)."""
    found = await term_at_end(stream, connection, began, last, in_doubt)
    if found is not None and found.began and found.term == began.term:
        return last
    former = found.term if found is not None and found.term < began.term else 0
    began = replace(began, behind=last)
    before = [encoder.before_term(began, former, number) for number in range(1, MAX_MESSAGES_IN_FLIGHT)]
    last = await append_all(stream, connection, before, last)
    return await append_all(stream, connection, [encoder.term(replace(began, behind=last))], last)


async def term_at_end(
    stream: NatsStream, connection: NatsConnection, began: TermBegan, last: int, in_doubt: int
) -> LastTerm | None:
    """The term of the last message: none that is later than ``began``, but for the message ``in_doubt``. Raises
    StreamInDoubt, and SinkUnavailable. The parameters are those of ``take_over_stream``."""
    found = await stream.term_at(connection, last) if last else LastTerm(0)
    if last != in_doubt and (found is None or found.term > began.term):
        whose = "cannot be read" if found is None else f"is of a leader of term {found.term}"
        raise StreamInDoubt(
            f"{stream.name}: its last message {last} {whose}, and this leader has term {began.term}", last
        )
    return found


async def append_all(stream: NatsStream, connection: NatsConnection, messages: Sequence[NatsMessage], last: int) -> int:
    """Stores all messages, in their order and with no other in between; at most ``MAX_MESSAGES_IN_FLIGHT``. ``last``:
    the number of the last message in the stream. Returns that of the last one. Raises StreamInDoubt if another message
    comes in between, and SinkUnavailable."""
    indexed, result = dict(enumerate(messages)), BatchResult(())
    delivery = NatsDelivery(connection, stream, LostDuplicates(), indexed, result, last, fences=True)
    window = await delivery.publish(range(len(messages)))
    failure = await delivery.failure_of(window)
    if failure is not None and not failure.doubted:
        raise SinkUnavailable(f"{stream.name}: {failure.reason}")
    for rejected in window.rejected.values():
        raise SinkUnavailable(f"{stream.name} refuses the notice of a term: {rejected.reason}")
    numbers = [window.stored.get(index, 0) for index in indexed]
    if numbers != list(range(last + 1, last + 1 + len(messages))):
        raise StreamInDoubt(stream.other_writer)
    return numbers[-1]
