"""What may be set for a webhook."""

from __future__ import annotations

import re

import pytest
from pydantic import ValidationError

from sinks.webhook.options import WebhookOptions

OAUTH2 = {"token_url": "https://idp.example.test/token", "client_id": "me", "client_secret_file": "/f"}


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"data": "object", "format": "row"}, "data makes the whole data of an event: set format: cloudevents or"),
        ({"content_type": "text/plain"}, "content_type belongs to format: raw"),
        ({"content_type": "text plain", "format": "raw"}, "a media type is expected, such as application/x-ndjson"),
        ({"url": "http://h/{op}"}, "a url with expressions needs format: raw or format: row"),
        ({"url": "http://{op}/x", "format": "raw"}, "expressions stand in the path and in the query of the URL"),
        ({"url": "http://h:{op}/x", "format": "raw"}, "expressions stand in the path and in the query of the URL"),
        ({"url": "http://h/{op", "format": "raw"}, "a brace in the URL belongs to no expression: write %7B or %7D"),
        ({"url": "http://h/{op}#{op}", "format": "raw"}, "a fragment"),
        ({"url": "http://h/{op}", "format": "raw", "request_origin": "a.b"}, "request_origin asks one URL"),
        ({"headers": {"X-A": "{op"}}, "the value of a header is printable ASCII, with expressions in braces"),
        ({"wrap": '{"a": []}', "format": "row"}, "wrap needs a batch: set batch above 1"),
        ({"wrap": '{"a": []}', "batch": 2}, "wrap makes a document of your own: set format: raw or format: row"),
        ({"wrap": '{"a": []', "batch": 2, "format": "row"}, "a JSON document with one [] is expected"),
        ({"wrap": '{"a": "[]"', "batch": 2, "format": "row"}, "a JSON document with one [] is expected"),
        ({"wrap": '{"a": "[]"}', "batch": 2, "format": "row"}, "a JSON document with one [] is expected"),
        ({"wrap": '{"[]": []}', "batch": 2, "format": "row"}, "a JSON document with one [] is expected"),
        (
            {"wrap": "[]", "batch": 2, "format": "raw", "data": "object", "content_type": "text/x"},
            "wrap makes application/json: leave content_type out",
        ),
        ({"format": "raw", "batch": 2}, "a batch holds CloudEvents, rows or data: with format envelope, or raw"),
        ({"url": "ftp://example.test"}, "begins with http:// or https://"),
        ({"url": "example.test/hook"}, "begins with http:// or https://"),
        ({"url": "https://me:secret@example.test"}, "no user and password in the URL: see username and password_file"),
        ({"url": "https://example.test/#part"}, "fragment"),
        ({"url": "https://example.test:port/"}, "the host or the port in the URL is none"),
        ({"url": "https://example.test:99999/"}, "the host or the port in the URL is none"),
        ({"url": "https://example..test/"}, "the host or the port in the URL is none"),
        ({"url": "https://exa mple.test/"}, "no spaces and no control characters"),
        ({"url": "https://example.test/\n"}, "no spaces and no control characters"),
        ({"headers": {"bad name": "x"}}, "'bad name' is no name for a header"),
        ({"headers": {"X-A": "a\nb"}}, "the value of a header is printable ASCII"),
        ({"headers": {"Authorization": "x"}}, "Authorization is a credential by its name"),
        ({"headers": {"proxy-authorization": "x"}}, "name the file in header_files"),
        ({"headers": {"Cookie": "x"}}, "Cookie is a credential by its name"),
        ({"headers": {"X-API-Key": "x"}}, "X-API-Key is a credential by its name"),
        ({"headers": {"X-Auth-Token": "x"}}, "X-Auth-Token is a credential by its name"),
        ({"headers": {"Webhook-Id": "x"}}, "the header Webhook-Id is set by the sink"),
        ({"header_files": {"ce-id": "/x"}}, "the header ce-id is set by the sink"),
        ({"key_file": "/x"}, "key_file has no effect without cert_file"),
        ({"retry_if": ["busy"]}, "retry_if has no effect without expect"),
        ({"include": ["before"]}, "set format: envelope"),
        ({"headers": {"X": "1"}, "header_files": {"x": "/f"}}, "x is in headers and"),
        ({"username": "me"}, "username and password_file belong together"),
        ({"username": "a:b", "password_file": "/f"}, "a user's name has no colon"),
        (
            {"username": "me", "password_file": "/f", "bearer_token_file": "/f"},
            "bearer_token_file and username both make the header Authorization",
        ),
        (
            {"header_files": {"AUTHORIZATION": "/f"}, "bearer_token_file": "/f"},
            "Authorization is in header_files and made by bearer_token_file",
        ),
        ({"allow_networks": ["10.0.0.1/8"]}, "10.0.0.1/8 is no network"),
        ({"allow_networks": ["example.test"]}, "a network is expected"),
        (
            {"username": "me", "password_file": "/f", "oauth2": OAUTH2},
            "oauth2 and username both make the header Authorization",
        ),
        ({"oauth2": {}}, "Field required"),
        ({"oauth2": OAUTH2 | {"client_secret": "x"}}, "Extra inputs are not permitted"),
        ({"oauth2": OAUTH2 | {"scopes": ["a b"]}}, "a scope is one word"),
        ({"oauth2": OAUTH2 | {"endpoint_params": {"client_secret": "x"}}}, "credentials stand in files"),
        ({"rate": {"requests": 0}}, "greater than or equal to 1"),
        ({"rate": {"requests": 5, "per": 0}}, "at least 1ms is expected"),
        ({"compression": "zstd"}, "'none' or 'gzip'"),
        ({"request_origin": "https://me.test"}, "a DNS name is expected"),
        ({"retries": 3}, "Extra inputs are not permitted"),
    ],
)
def test_a_mistake_is_reported(options: dict[str, object], reason: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(reason)):
        WebhookOptions.model_validate({"url": "https://example.test"} | options)
