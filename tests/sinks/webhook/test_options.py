"""What may be set for a webhook."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from sinks.webhook.options import WebhookOptions

OAUTH2 = {"token_url": "https://idp.example.test/token", "client_id": "me", "client_secret_file": "/f"}


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"url": "ftp://example.test"}, "begins with http:// or https://"),
        ({"url": "example.test/hook"}, "begins with http:// or https://"),
        ({"url": "https://me:secret@example.test"}, "no user and password in the URL: see username and password_file"),
        ({"url": "https://example.test/#part"}, "fragment"),
        ({"url": "https://example.test:port/"}, "the host or the port in the URL is none"),
        ({"url": "https://example.test:99999/"}, "the host or the port in the URL is none"),
        ({"url": "https://example..test/"}, "the host or the port in the URL is none"),
        ({"url": "https://exa mple.test/"}, "no spaces and no control characters"),
        ({"url": "https://example.test/\n"}, "no spaces and no control characters"),
        ({"url": "https://example.test", "headers": {"bad name": "x"}}, "'bad name' is no name for a header"),
        ({"url": "https://example.test", "headers": {"X-A": "a\nb"}}, "the value of a header is printable ASCII"),
        (
            {"url": "https://example.test", "headers": {"Authorization": "x"}},
            "Authorization is a credential by its name",
        ),
        ({"url": "https://example.test", "headers": {"proxy-authorization": "x"}}, "name the file in header_files"),
        ({"url": "https://example.test", "headers": {"Cookie": "x"}}, "Cookie is a credential by its name"),
        ({"url": "https://example.test", "headers": {"X-API-Key": "x"}}, "X-API-Key is a credential by its name"),
        ({"url": "https://example.test", "headers": {"X-Auth-Token": "x"}}, "X-Auth-Token is a credential by its name"),
        ({"url": "https://example.test", "headers": {"Webhook-Id": "x"}}, "the header Webhook-Id is set by the sink"),
        ({"url": "https://example.test", "header_files": {"ce-id": "/x"}}, "the header ce-id is set by the sink"),
        ({"url": "https://example.test", "key_file": "/x"}, "key_file has no effect without cert_file"),
        ({"url": "https://example.test", "format": "envelope", "batch": 2}, "leave batch at 1"),
        ({"url": "https://example.test", "include": ["before"]}, "set format: envelope"),
        ({"url": "https://example.test", "headers": {"X": "1"}, "header_files": {"x": "/f"}}, "x is in headers and"),
        ({"url": "https://example.test", "header_files": {"Content-Encoding": "/f"}}, "is set by the sink"),
        ({"url": "https://example.test", "username": "me"}, "username and password_file belong together"),
        ({"url": "https://example.test", "username": "a:b", "password_file": "/f"}, "a user's name has no colon"),
        (
            {"url": "https://example.test", "username": "me", "password_file": "/f", "bearer_token_file": "/f"},
            "bearer_token_file and username both make the header Authorization",
        ),
        (
            {"url": "https://example.test", "header_files": {"AUTHORIZATION": "/f"}, "bearer_token_file": "/f"},
            "Authorization is in header_files and made by bearer_token_file",
        ),
        ({"url": "https://example.test", "allow_networks": ["10.0.0.1/8"]}, "10.0.0.1/8 is no network"),
        ({"url": "https://example.test", "allow_networks": ["example.test"]}, "a network is expected"),
        (
            {"url": "https://example.test", "username": "me", "password_file": "/f", "oauth2": OAUTH2},
            "oauth2 and username both make the header Authorization",
        ),
        ({"url": "https://example.test", "oauth2": {}}, "Field required"),
        ({"url": "https://example.test", "oauth2": OAUTH2 | {"client_secret": "x"}}, "Extra inputs are not permitted"),
        ({"url": "https://example.test", "oauth2": OAUTH2 | {"scopes": ["a b"]}}, "a scope is one word"),
        (
            {"url": "https://example.test", "oauth2": OAUTH2 | {"endpoint_params": {"client_secret": "x"}}},
            "credentials stand in files",
        ),
        ({"url": "https://example.test", "rate": {"requests": 0}}, "greater than or equal to 1"),
        ({"url": "https://example.test", "rate": {"requests": 5, "per": 0}}, "at least 1ms is expected"),
        ({"url": "https://example.test", "compression": "zstd"}, "'none' or 'gzip'"),
        ({"url": "https://example.test", "request_origin": "https://me.test"}, "a DNS name is expected"),
        ({"url": "https://example.test", "retries": 3}, "Extra inputs are not permitted"),
    ],
)
def test_a_mistake_is_reported(options: dict[str, object], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        WebhookOptions.model_validate(options)
