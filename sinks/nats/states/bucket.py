"""The key-value bucket of a sink: a stream with a subject for each key."""

from __future__ import annotations

from nats.js.api import DiscardPolicy, StorageType, StoreCompression, StreamConfig, StreamInfo

from sinks.errors import SinkUnavailable
from sinks.nats.connection import NatsConnection
from sinks.nats.jetstream.stream import NatsStream
from sinks.nats.options import CreateStream, NatsOptions

OTHER_WRITER = (
    "another publisher writes into the bucket {}: give this sink a bucket of its own, or set sole_writer: false, which"
    " lets a former leader write there, too"
)


class Bucket(NatsStream):
    """Every method raises SinkUnavailable, also for a bucket that would lose states or refuse deletes."""

    _option = "state"

    def __init__(self, options: NatsOptions) -> None:
        bucket = options.state_stream
        self.options = options.model_copy(update={"stream": bucket, "sole_writer": False})
        """For entries that name no number of the last one."""
        self.fenced_options = options.model_copy(update={"stream": bucket})
        """For entries of a leader, which name it."""
        super().__init__(self.options, [f"$KV.{options.state}.>"])
        self.other_writer = OTHER_WRITER.format(options.state)
        self.expires_markers = False
        """The bucket removes the marker of a deleted key after the time that the marker names. Known after ``find``."""

    async def find(self, connection: NatsConnection, create: CreateStream | None) -> str:
        found = await super().find(connection, create)
        with self._errors(connection):
            info = await connection.jetstream(self.options.connect_timeout).stream_info(self.options.stream_name)
        if wrong := _unfit(info, self._subjects):
            raise SinkUnavailable(f"{connection.server}, bucket {self.options.state}: {wrong}")
        self.expires_markers = bool(info.config.allow_msg_ttl)
        return found

    def _config(self, create: CreateStream) -> StreamConfig:
        return StreamConfig(
            name=self.options.stream_name,
            subjects=self._subjects,
            storage=StorageType.FILE,
            num_replicas=create.replicas,
            max_bytes=-1 if create.max_bytes is None else create.max_bytes,
            max_msgs_per_subject=1,
            # A full bucket must refuse new states: DiscardPolicy.OLD would forget objects.
            discard=DiscardPolicy.NEW,
            compression=StoreCompression.S2,
            allow_direct=True,
            allow_rollup_hdrs=True,
            deny_delete=True,
            allow_msg_ttl=True,
        )


def _unfit(info: StreamInfo, subjects: list[str]) -> str:
    """Why the bucket cannot keep states; empty if it can."""
    config = info.config
    if config.subjects != subjects:
        return f"its stream takes {config.subjects}, and a bucket takes {subjects}"
    if config.max_age:
        return f"it forgets states after {config.max_age:g} s (max_age, or TTL): make it keep them for ever"
    if config.discard != DiscardPolicy.NEW and (config.max_bytes or -1) > 0:
        return "when it is full, it forgets the oldest states: make it discard new ones"
    if not config.allow_rollup_hdrs:
        return "it refuses purges (allow_rollup_hdrs): deleted objects would stay"
    return ""
