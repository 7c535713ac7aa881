"""Our signatures, judged by the Standard Webhooks library."""

from __future__ import annotations

import secrets
import time
from base64 import b64encode
from pathlib import Path

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from sinks.base import SinkUnavailable
from sinks.webhook.signature import keys_in, signature

OLD, NEW, OTHER = ("whsec_" + b64encode(secrets.token_bytes(size)).decode() for size in (24, 32, 64))
FILE = Path("/run/secrets/hook")


def headers(keys: tuple[bytes, ...], body: bytes) -> dict[str, str]:
    now = int(time.time())
    signed = signature(keys, "uid/1/added", now, body)
    return {"webhook-id": "uid/1/added", "webhook-timestamp": str(now), "webhook-signature": signed}


def test_each_of_several_secrets_verifies_what_was_signed() -> None:
    body = '{"é":1}'.encode()
    signed = headers(keys_in(f"{OLD}\n\n{NEW}\n", FILE), body)

    for secret in (OLD, NEW):
        assert Webhook(secret).verify(body, signed) == {"é": 1}
    with pytest.raises(WebhookVerificationError):
        Webhook(OTHER).verify(body, signed)
    with pytest.raises(WebhookVerificationError):
        Webhook(OLD).verify(body + b" ", signed)


def test_a_secret_may_come_without_its_prefix() -> None:
    assert keys_in(OLD.removeprefix("whsec_"), FILE) == keys_in(OLD, FILE)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"{OLD}\nwhsec_not base64!", r"/run/secrets/hook, line 2: not base64"),
        ("whsec_" + b64encode(b"short").decode(), r"line 1: a secret has 24 to 64 bytes, this one 5"),
        ("\n \n", "/run/secrets/hook holds no secret"),
    ],
)
def test_a_bad_secret_is_reported_by_line_and_not_by_content(text: str, reason: str) -> None:
    with pytest.raises(SinkUnavailable, match=reason) as error:
        keys_in(text, FILE)

    assert not any(line and line in str(error.value) for line in text.split())
