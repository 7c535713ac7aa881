"""The NATS sink publishes deltas as messages of a JetStream stream, or of a server without one (``mode: core``). A
record is stored when the stream has acknowledged its message; ids make repeated messages known within the stream's
duplicate window.

bucket       NatsSinkWithState: keeps the newest form of each object in a key-value bucket
connection   opens a connection, which is never reconnected; checks the options before the bridge runs
delivery     publishes the messages of a batch until all are answered
encode       makes a record a message: subject, headers, payload; describes the messages for schemas
exchange     the state of one exchange: numbers, answers, duplicates, messages in flight
leading      takes the stream over for the leader of a term
options      declares the options of the sink; names the claims on the stream and the bucket
reader       makes the library's source of the options, for ``kubedelta verify``, ``tail`` and ``history build``; reads
             without a stream
sink         NatsSink: connects, looks for losses, encodes and delivers
stream       finds or creates the stream, describes it, and tells whether it has lost messages; declares what survives a
             restart: the newest gap, the stream and the bucket as last seen
verdicts     judges an error of JetStream: whose fault it is, and for how long

``sink`` finds the stream with every new connection and looks at it from time to time: messages that it had stored and
has lost become a Gap in front of the next batch. ``delivery`` publishes in exchanges. With ``sole_writer`` each message
names the number of the message in front of it (``exchange``), so that the stream refuses whatever another writer or an
earlier connection would put in between. With an election the leader of a new term first makes the numbers of its
predecessor worthless (``leading``, and ``bucket`` for the bucket).

Invariants, each with its test:

- Deltas of one object are in the stream in their order, whatever was sent twice, lost or left on its way.
  ``tests/sinks/nats/test_exchanges.py``
- After a takeover, the stream and the bucket store nothing more of a former leader.
  ``tests/sinks/nats/test_leading.py``, ``tests/sinks/nats/test_leading_bucket.py``
- Messages that the stream has lost are a Gap in it, unless its own limits may have removed them.
  ``tests/sinks/nats/test_losses.py``
"""

from collections.abc import Callable, Sequence

from sinks.base import RecordReader, Sink, SinkType, WrongOption
from sinks.nats.encode import channels
from sinks.nats.options import NatsOptions, claims


def _load() -> Callable[..., Sink]:
    from sinks.nats.bucket import nats_sink

    return nats_sink


def _load_reader() -> Callable[..., RecordReader]:
    from sinks.nats.reader import nats_reader

    return nats_reader


def _examine(options: NatsOptions) -> Sequence[WrongOption]:
    from sinks.nats.connection import examine

    return examine(options)


TYPE = SinkType(
    name="nats",
    options=NatsOptions,
    load=_load,
    max_batch=500,
    summary="CloudEvents in a NATS JetStream stream, a subject for each object",
    reader=_load_reader,
    examine=_examine,
    claims=claims,
    channels=channels,
)
