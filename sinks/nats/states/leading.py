"""Takes a bucket over for the leader of a term, so that it stores nothing more of a former leader."""

from __future__ import annotations

from msgspec.structs import replace

from bridge.model.primitives.election import TermBegan
from sinks.nats.connection import NatsConnection
from sinks.nats.delivery import MOST_IN_FLIGHT
from sinks.nats.jetstream.stream import OtherWriter
from sinks.nats.leading import StreamInDoubt, append_all, term_at_end
from sinks.nats.states.bucket import Bucket
from sinks.nats.states.encode import EntryEncoder


class BucketInDoubt(StreamInDoubt):
    """The bucket may have a later leader, or has another writer."""


async def take_over(
    bucket: Bucket, connection: NatsConnection, entries: EntryEncoder, began: TermBegan, last: int, in_doubt: int
) -> int:
    """Returns the number of the message behind which this leader may store its next entry. ``last``: of the last
    message in the bucket. ``in_doubt``: the message that may be of any leader. Raises BucketInDoubt, and
    SinkUnavailable if the bucket cannot be read or takes no message.

    It writes ``MOST_IN_FLIGHT`` markers with no other message in between. An earlier leader, or an earlier connection
    of this one, has read a number before the markers, or finds them at the end; so its messages name numbers before
    that of the last marker, and the bucket refuses them from then on. Why one marker is not enough: see the stream's
    ``take_over``."""
    try:
        await term_at_end(bucket, connection, began, last, in_doubt)
        marker = entries.term(replace(began, behind=last), expires=bucket.expires_markers)
        return await append_all(bucket.fenced_options, bucket, connection, [marker] * MOST_IN_FLIGHT, last)
    except StreamInDoubt as doubt:
        raise BucketInDoubt(str(doubt), doubt.last) from doubt
    except OtherWriter as error:
        raise BucketInDoubt(str(error)) from error
