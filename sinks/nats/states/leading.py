"""Takes a bucket over for the leader of a term, so that it stores nothing more of a former leader."""

from __future__ import annotations

from msgspec.structs import replace

from bridge.model.primitives.election import TermBegan
from sinks.nats.connection import NatsConnection
from sinks.nats.jetstream.duplicates import Duplicates
from sinks.nats.jetstream.leading import StreamInDoubt, term_at_end
from sinks.nats.states.bucket import Bucket
from sinks.nats.states.delivery import MOST_IN_FLIGHT, FencedDelivery
from sinks.nats.states.encode import EntryEncoder
from sinks.receipt import BatchResult


class BucketInDoubt(StreamInDoubt):
    """The bucket may have a later leader, or has another writer."""


async def take_over(
    bucket: Bucket, connection: NatsConnection, entries: EntryEncoder, began: TermBegan, last: int, in_doubt: int
) -> int:
    """Returns the number of the message behind which this leader may store its next entry. ``last``: of the last
    message in the bucket. ``in_doubt``: the message that may be of any leader. Raises BucketInDoubt, and
    SinkUnavailable if the bucket cannot be read or takes no message.

    It writes ``MOST_IN_FLIGHT`` markers with no other message in between. An earlier leader, or an earlier connection
    of this one, has read a number before the markers, or finds them at the end; so its messages expect numbers before
    that of the last marker, and the bucket refuses them from then on."""
    try:
        await term_at_end(bucket, connection, began, last, in_doubt)
        marker = entries.term(replace(began, behind=last), expires=bucket.expires_markers)
        return await FencedDelivery(
            bucket.fenced_options,
            connection,
            bucket,
            Duplicates(),
            dict.fromkeys(range(MOST_IN_FLIGHT), marker),
            BatchResult(()),
            last,
            fences=True,
        ).append_all()
    except StreamInDoubt as doubt:
        raise BucketInDoubt(str(doubt), doubt.last) from doubt
