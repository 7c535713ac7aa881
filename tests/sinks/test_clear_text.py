"""Credentials that would cross a network unencrypted are named before they do."""

from __future__ import annotations

from typing import Any

import pytest

from sinks.base import SinkOptions
from sinks.file.options import FileOptions
from sinks.kafka.options import KafkaOptions
from sinks.nats.options import NatsOptions
from sinks.webhook.options import WebhookOptions


def webhook(url: str, **options: Any) -> SinkOptions:
    return WebhookOptions.model_validate({"url": url, **options})


def nats(*servers: str, **options: Any) -> SinkOptions:
    return NatsOptions.model_validate({"servers": servers, "stream": "K8S", **options})


def kafka(servers: str, protocol: str, mechanism: str | None = None, **options: Any) -> SinkOptions:
    known = {"bootstrap_servers": servers, "security_protocol": protocol, "sasl_mechanism": mechanism, **options}
    named: dict[str, Any] = {"username": "u", "password_file": "p"} if mechanism else {}
    if mechanism == "OAUTHBEARER":
        named = {} if options else {"token_command": ["token"]}
    return KafkaOptions.model_validate(known | named)


TOKEN = {"header_files": {"Authorization": "t"}}
OAUTH2 = {"token_url": "https://idp.example", "client_id": "me", "client_secret_file": "f"}
CLEAR_OAUTH2 = OAUTH2 | {"token_url": "http://idp.example"}
PASSWORD = {"user": "u", "password_file": "p"}


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (webhook("http://hook.example", **TOKEN), "header_files"),
        (webhook("http://hook.example", username="u", password_file="p"), "password_file"),
        (webhook("http://hook.example", bearer_token_file="t"), "bearer_token_file"),
        (webhook("http://hook.example", oauth2=OAUTH2), "the token of oauth2"),
        (webhook("https://hook.example", oauth2=OAUTH2 | {"token_url": "http://idp.example"}), "client_secret_file"),
        (nats("nats://a.example", **PASSWORD), "password"),
        (nats("tls://a.example", "nats://b.example", token_file="t"), "token"),
        (kafka("a.example:9092", "sasl_plaintext", "PLAIN"), "PLAIN"),
        (kafka("127.0.0.1:9092,a.example:9092", "sasl_plaintext", "OAUTHBEARER"), "OAUTHBEARER"),
        (kafka("a.example:9092", "sasl_ssl", "OAUTHBEARER", oauth2=CLEAR_OAUTH2), "client_secret_file"),
    ],
)
def test_what_anybody_on_the_way_could_read_is_named(options: SinkOptions, named: str) -> None:
    assert named in (options.clear_text() or "")


@pytest.mark.parametrize(
    "options",
    [
        webhook("https://hook.example", **TOKEN),
        webhook("http://hook.example"),
        webhook("http://hook.example", secret_file="s"),  # It signs, and is not sent.
        webhook("http://127.0.0.1:8000", **TOKEN),
        webhook("https://hook.example", bearer_token_file="t"),
        webhook("https://hook.example", oauth2=OAUTH2),
        webhook("http://localhost:8000", username="u", password_file="p"),
        webhook("http://[::1]:8000", **TOKEN),
        nats("tls://a.example", **PASSWORD),
        nats("nats://a.example", **PASSWORD, ca_file="c"),
        nats("nats://localhost:4222", **PASSWORD),
        nats("nats://a.example", credentials_file="c"),
        kafka("a.example:9092", "sasl_ssl", "PLAIN"),
        kafka("a.example:9092", "sasl_plaintext", "SCRAM-SHA-512"),  # It proves the password without sending it.
        kafka("a.example:9092", "plaintext"),
        kafka("a.example:9092", "sasl_ssl", "OAUTHBEARER", oauth2=OAUTH2),
        kafka("a.example:9092", "sasl_ssl", "OAUTHBEARER", oauth2=OAUTH2 | {"token_url": "http://localhost:1/"}),
        kafka("127.0.0.1:9092,[::1]:9092", "sasl_plaintext", "PLAIN"),
        FileOptions.model_validate({"path": "deltas.ndjson"}),
    ],
)
def test_encrypted_or_local_credentials_are_not_reported(options: SinkOptions) -> None:
    assert options.clear_text() is None
