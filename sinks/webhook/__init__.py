"""The webhook sink posts deltas as HTTP requests to an endpoint. A record is stored when the endpoint answered 2xx.
When an answer is lost, the endpoint gets the record twice, with the same ids.

authorization   makes the header Authorization: from files, or by the client credentials grant of OAuth 2.0
client          an HTTP client for one URL, which connects to permitted addresses only
connection      joins secrets, token, rate, consent and HTTP client of an endpoint; checks options before the bridge
                runs
encode          makes a record the target, headers and body of a request
options         declares the options of the sink, and templates of URLs and headers
responses       judges a response: what it means for the posted records
sink            WebhookSink: posts the messages of a batch, and judges the responses

A batch is encoded first; each message has the route that its expressions make. ``sink`` posts request after request
with up to ``batch`` messages of one route, until one fails. ``connection`` prepares each: it waits for the rate, brings
a token and the endpoint's consent, and ``client`` asks in front of each request whether this replica may still send. A
refusal of several messages is taken apart into single ones; a refusal that may be the fault of the connection is a
verdict only beside accepted events. Lanes call ``deliver`` at the same time, and share all of this.

Invariants, each with its test:

- A value of an object ends neither its segment of the path, nor its parameter of the query, nor its line of the header.
  ``tests/sinks/webhook/test_template.py``
- No connection is made to an address that is refused, whatever a name resolves to.
  ``tests/sinks/webhook/test_networks.py``
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
    from sinks.webhook.connection import examine

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
