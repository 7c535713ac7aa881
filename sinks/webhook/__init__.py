"""Deltas as HTTP requests to an endpoint.

authorization   an access token, renewed before its end; access tokens by the client credentials grant; the header
                Authorization, from files
client          the addresses that a sink may connect to; an HTTP client, and its errors in words; a URL with its
                HTTP client
connection      a limit of requests in time; abuse protection: the endpoint agrees before the first delivery;
                secrets, token and HTTP client of an endpoint
encode          where a record is posted, by these templates; a record as a request: id, headers, body
examine         checks options before the bridge runs
options         URLs, names of headers and networks, as types of options; those that are mappings; URLs and headers
                with expressions; the options of the sink
responses       whether a refusal is a verdict on the event; the meaning of a response for the posted records
signature       signatures of Standard Webhooks, symmetric and asymmetric
sink            posts the messages of a batch; WebhookSink, which joins them
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
