"""Deltas as HTTP requests to an endpoint of the operator's."""

from sinks.base import Lanes, Sink, SinkType
from sinks.webhook.options import WebhookOptions


def _load() -> type[Sink]:
    from sinks.webhook.sink import WebhookSink

    return WebhookSink


def _lanes(options: WebhookOptions) -> Lanes:
    return Lanes(concurrency=options.concurrency, batch=options.batch)


TYPE = SinkType(
    name="webhook",
    options=WebhookOptions,
    load=_load,
    max_batch=200,
    summary="CloudEvents over HTTP, signed as Standard Webhooks has it",
    lanes=_lanes,
)
