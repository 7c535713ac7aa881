"""Names the subjects and the bucket to which a NATS sink sends, for schemas and documents. No server is asked."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from bridge.model.formats.definitions import Definitions
from bridge.model.formats.schema import NOTICE_KINDS, TERM_NOTICE
from sinks.channels import Channel, notice_messages, object_messages
from sinks.nats.bucket import channel_of_state
from sinks.nats.encode import NATS_NAMES, escaped
from sinks.nats.options import NatsOptions
from sinks.template import Template


def channels(options: NatsOptions, cluster: str, definitions: Definitions) -> Sequence[Channel]:
    """The subjects of objects, the subject of notices, and the bucket."""
    template = Template(options.subject, cluster, escaped)
    server = urlsplit(options.servers[0])
    host = server.netloc.rpartition("@")[2]
    kinds = (*NOTICE_KINDS, TERM_NOTICE) if options.fences else NOTICE_KINDS
    objects = object_messages(options, cluster, definitions, NATS_NAMES)
    return [
        Channel(
            name="objects",
            address=template.of_cluster(),
            messages=objects,
            protocol=server.scheme,
            host=host,
            parameters=template.parameters(),
        ),
        Channel(
            name="notices",
            address=template.of_notices(),
            messages=notice_messages(options, cluster, definitions, NATS_NAMES, kinds),
            protocol=server.scheme,
            host=host,
        ),
        *channel_of_state(options, cluster, objects, server.scheme, host),
    ]
