"""Our signatures, judged by the Standard Webhooks library and by OpenSSL."""

from __future__ import annotations

import secrets
import time
from base64 import b64encode
from pathlib import Path

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from sinks.base import SinkUnavailable
from sinks.keys import WebhookKey, keys_in, signature
from tests.kit.openssl import KeyPair, verifies

OLD, NEW, OTHER = ("whsec_" + b64encode(secrets.token_bytes(size)).decode() for size in (24, 32, 64))
FILE = Path("/run/secrets/hook")


def headers(keys: tuple[WebhookKey, ...], body: bytes) -> dict[str, str]:
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
    bare = headers(keys_in(OLD.removeprefix("whsec_"), FILE), b"{}")

    assert Webhook(OLD).verify(b"{}", bare) == {}


@pytest.mark.parametrize("whole", [True, False], ids=["seed and public key", "seed alone"])
def test_openssl_verifies_an_asymmetric_signature(whole: bool) -> None:
    pair, other = KeyPair.make(), KeyPair.make()
    body = '{"é":1}'.encode()
    signed = headers(keys_in(pair.private(whole=whole), FILE), body)

    version, _, mine = signed["webhook-signature"].partition(",")
    content = b"uid/1/added.%s.%s" % (signed["webhook-timestamp"].encode(), body)
    assert version == "v1a"
    assert verifies(pair, content, mine)
    assert not verifies(pair, content + b" ", mine)
    assert not verifies(other, content, mine)


def test_keys_of_both_kinds_sign_side_by_side() -> None:
    pair, renewed = KeyPair.make(), KeyPair.make()
    signed = headers(keys_in(f"{OLD}\n{pair.private()}\n{renewed.private()}", FILE), b"{}")
    content = b"uid/1/added.%s.{}" % signed["webhook-timestamp"].encode()

    first, *asymmetric = signed["webhook-signature"].split(" ")
    assert Webhook(OLD).verify(b"{}", signed | {"webhook-signature": first}) == {}
    assert [each.partition(",")[0] for each in asymmetric] == ["v1a", "v1a"]
    for key, each in zip((pair, renewed), asymmetric, strict=True):
        assert verifies(key, content, each.partition(",")[2])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"{OLD}\nwhsec_not base64!", r"/run/secrets/hook, line 2: not base64"),
        ("whsk_not base64!", "line 1: not base64; a secret is whsec_ and base64, a private key whsk_ and base64"),
        ("whsk_" + b64encode(b"x" * 33).decode(), "line 1: a private key has 32 or 64 bytes, this one 33"),
        ("whsk_" + b64encode(b"x" * 64).decode(), "line 1: the public key in the second half belongs to another"),
        ("whpk_" + b64encode(b"x" * 32).decode(), "line 1: a public key .* cannot sign"),
        ("whsec_" + b64encode(b"short").decode(), r"line 1: a secret has 24 to 64 bytes, this one 5"),
        ("\n \n", "/run/secrets/hook holds no secret"),
    ],
)
def test_a_bad_secret_is_reported_by_line_and_not_by_content(text: str, reason: str) -> None:
    with pytest.raises(SinkUnavailable, match=reason) as error:
        keys_in(text, FILE)

    assert not any(line and line in str(error.value) for line in text.split())
