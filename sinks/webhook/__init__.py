"""Deltas as HTTP requests to an endpoint.

options          the options of the sink
option_sections  those that are mappings
option_types     URLs, names of headers and networks, as types of options
template         URLs and headers with expressions
route            where a record is posted, by these templates
encode           a record as a request: id, headers, body
http             the HTTP client, its permitted addresses, and the meaning of responses
auth             how a request proves who sent it
rate             a limit of requests in time
consent          abuse protection: the endpoint agrees before the first delivery
refusals         whether a refusal is a verdict on the event
connection       secrets, token and HTTP client of an endpoint
delivery         posts the messages of a batch
sink             WebhookSink, which joins them
examine          checks options before the bridge runs
"""

from collections.abc import Sequence

from bridge.model.formats.definitions import Definitions
from sinks.base import Channel, Lanes, Sink, SinkType, WrongOption
from sinks.webhook.options import WebhookOptions


def _load() -> type[Sink]:
    from sinks.webhook.sink import WebhookSink

    return WebhookSink


def _lanes(options: WebhookOptions) -> Lanes:
    return Lanes(concurrency=options.concurrency, batch=options.batch)


def _examine(options: WebhookOptions) -> Sequence[WrongOption]:
    from sinks.webhook.examine import examine

    return examine(options)


def _channels(options: WebhookOptions, cluster: str, definitions: Definitions) -> Sequence[Channel]:
    from sinks.webhook.encode import channels

    return channels(options, cluster, definitions)


TYPE = SinkType(
    name="webhook",
    options=WebhookOptions,
    load=_load,
    max_batch=200,
    summary="CloudEvents over HTTP, signed as Standard Webhooks has it",
    lanes=_lanes,
    examine=_examine,
    channels=_channels,
)
