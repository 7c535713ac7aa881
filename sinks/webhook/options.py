"""The options of a webhook sink."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from bridge.model.formats.content import Makes, OptionExpression
from bridge.model.primitives.addresses import is_loopback
from config.rules import Above, AnyOf, Contains, Given, Is, Not, Rule, needs, together
from config.values import Between, Count, Duration, Matching, Size
from sinks.options import EventOptions, Format
from sinks.webhook.option_sections import OAuth2Options, RateOptions
from sinks.webhook.option_types import (
    ContentEncoding,
    HeaderFiles,
    Headers,
    MediaType,
    Network,
    Origin,
    TemplateUrl,
)
from sinks.webhook.template import placeholders

_AUTHORIZATION = ("username", "bearer_token_file", "oauth2")
"""Options that give the header Authorization; at most one of them is set."""


class WebhookOptions(EventOptions):
    """A POST for each record: a CloudEvent in the structured form; an envelope, a row, an object or its data as the
    data of a binary CloudEvent."""

    url: TemplateUrl = Field(
        description="The URL of the POST, without user and password: see username. Redirects are not followed. With"
        " format raw or row, path and query may have CEL expressions in braces, with the names of data:"
        " https://example.test/{resource}/{object.metadata.name}. Values are percent-encoded; a record"
        " whose value is empty, or has a slash, becomes a dead letter.",
        examples=["https://example.test/hook"],
    )
    headers: Headers = Field(
        default={},
        description="Public headers of every request. Authorization, Cookie, X-Api-Key and other headers that are"
        " credentials by their name belong into header_files. A value may have CEL expressions in braces, with the"
        " names of data; a header whose value is empty is left out.",
        examples=[{"X-Team": "shop", "X-Namespace": "{object.metadata.namespace}"}],
    )
    content_type: MediaType | None = Field(
        default=None,
        description="With format raw, the Content-Type of the body, in place of application/json, or of text/plain"
        " for a text. With application/x-ndjson (or another type of lines), each record, and each item"
        " of a list, is a line: for endpoints for bulks.",
        examples=["application/x-ndjson"],
    )
    header_files: HeaderFiles = Field(
        default={},
        description="Secret headers of every request: name to a file with a single line. A changed file is read again.",
        examples=[{"X-Api-Key": "/run/secrets/hook-token"}],
    )
    username: Annotated[str, Matching(r"[^\x00-\x1f\x7f:]+", "a user's name has no colon", longest=256)] | None = Field(
        default=None,
        description="The user of HTTP Basic authentication (Authorization: Basic), with password_file.",
        examples=["kubedelta"],
    )
    password_file: Path | None = Field(
        default=None,
        description="The file with the password of username. A changed file is read again.",
        examples=["/run/secrets/hook-password"],
    )
    bearer_token_file: Path | None = Field(
        default=None,
        description="The file with a token that every request carries (Authorization: Bearer). A changed file is read"
        " again: tokens of service accounts, which the kubelet renews, work.",
        examples=["/var/run/secrets/tokens/hook"],
    )
    oauth2: OAuth2Options | None = Field(
        default=None,
        description="Every request carries an access token by the client credentials grant of OAuth 2.0. It is"
        " renewed before its end, and once when the endpoint answers 401. While there is no token, the"
        " sink waits.",
        examples=[
            {
                "token_url": "https://idp.example.test/oauth2/token",
                "client_id": "kubedelta",
                "client_secret_file": "/run/secrets/hook-client",
            }
        ],
    )
    secret_file: Path | None = Field(
        default=None,
        description="Signs every request after Standard Webhooks. The file holds a key per line: whsec_ and base64"
        " of 24 to 64 bytes for v1 (HMAC-SHA256), or whsk_ and base64 of an Ed25519 key (32 bytes, or 64"
        " with the public key) for v1a. Several lines, while a key is replaced, give a signature each. A"
        " changed file is read again.",
        examples=["/run/secrets/hook"],
    )
    timeout: Annotated[Duration, Between(0.001, 600)] = Field(
        default=Duration(15),
        description="Timeout of a request, from connecting to the end of the answer. 15 is the least that Standard"
        " Webhooks asks for.",
    )
    concurrency: Count = Field(
        default=8,
        ge=1,
        le=256,
        description="Most requests in flight at once. Requests about the same object always follow one another.",
    )
    batch: Count = Field(
        default=1,
        ge=1,
        le=200,
        description="Most events in a request. Above 1, events are sent as application/cloudevents-batch+json, which an"
        " endpoint must have asked for; so the default is 1. Data with format raw are sent as a JSON array, or as"
        " lines: see content_type.",
    )
    request_origin: Origin | None = Field(
        default=None,
        description="Abuse protection of CloudEvents' WebHooks: before the first delivery, the endpoint must agree"
        " to this sender, a DNS name. A WebHook-Allowed-Rate holds beside rate. Permission by callback"
        " is not supported.",
        examples=["kubedelta.example.com"],
    )
    rate: RateOptions | None = Field(
        default=None,
        description="Most requests in a time. A retry is a request, too. Without the option, only concurrency and the"
        " endpoint's own 429 bound the rate.",
        examples=[{"requests": 100}],
    )
    compression: ContentEncoding = Field(
        default=ContentEncoding.NONE,
        description="The Content-Encoding of bodies. Off because an endpoint must understand it. With secret_file, the"
        " signature is about the compressed bytes, so a receiver must verify before it inflates.",
    )
    compress_above: Annotated[Size, Between(0, 1 << 30)] = Field(
        default=Size(1024),
        description="With compression, bodies of more bytes than this are compressed. Below the default a packet is"
        " sent in any case.",
    )
    ca_file: Path | None = Field(
        default=None,
        description="Certificates (PEM) of the authorities to trust, in place of the system's.",
        examples=["/run/secrets/ca.crt"],
    )
    cert_file: Path | None = Field(
        default=None, description="The certificate (PEM) to show to the endpoint.", examples=["/run/secrets/tls.crt"]
    )
    key_file: Path | None = Field(
        default=None,
        description="The private key (PEM) of cert_file, if that file does not hold it.",
        examples=["/run/secrets/tls.key"],
    )

    allow_networks: tuple[Network, ...] | None = Field(
        default=None,
        max_length=100,
        description="The networks that the sink may connect to, as addresses with or without a prefix; each"
        " connection is checked by its real address. Without the option all are permitted, private ones"
        " and loopback too, but not link-local addresses (169.254.0.0/16, fe80::/10) and others where"
        " clouds serve credentials of the machine. Those need an entry of their own, such as"
        " 169.254.7.7; 0.0.0.0/0 does not permit them.",
        examples=[["10.0.0.0/8", "fd00::/8"]],
    )

    rules = (
        *EventOptions.rules,
        *together("username", "password_file"),
        *(
            Rule(
                Given(one), Not(Given(other)), f"{one} and {other} both make the header Authorization: keep one of them"
            )
            for index, one in enumerate(_AUTHORIZATION)
            for other in _AUTHORIZATION[:index]
        ),
        needs("key_file", "cert_file"),
        Rule(
            Above("batch", 1),
            AnyOf(Is("format", Format.CLOUDEVENTS.value, Format.ROW.value, default=True), Given("data")),
            "a batch holds CloudEvents, rows or data: with format envelope, or raw without data, leave batch at 1",
        ),
        Rule(
            Given("content_type"),
            Is("format", Format.RAW.value),
            "content_type belongs to format: raw, as the others have a type of their own",
        ),
        Rule(
            Contains("url", "{"),
            Is("format", Format.RAW.value, Format.ROW.value),
            "a url with expressions needs format: raw or format: row, since notices have no values for them",
        ),
        Rule(
            Given("request_origin"),
            Not(Contains("url", "{")),
            "request_origin asks one URL for its consent: leave it out, or the expressions in url",
        ),
    )

    @property
    def compresses_above(self) -> int | None:
        """Bytes of a body; None if no body is compressed."""
        return None if self.compression is ContentEncoding.NONE else self.compress_above

    def expressions(self) -> Iterator[OptionExpression]:
        yield from super().expressions()
        for option, text in (("url", self.url), *((f"headers.{name}", value) for name, value in self.headers.items())):
            for each in placeholders(text):
                yield OptionExpression(option, each.expression, Makes.TEXT, each.offset)

    def clear_text(self) -> str | None:
        names = ("header_files", "password_file", "bearer_token_file")
        credentials = [name for name in names if getattr(self, name)]
        if self.oauth2 is not None:
            credentials.append("the token of oauth2")
        found = []
        if credentials and not _is_private(self.url):
            found.append(f"url is http://: anybody on the way can read {' and '.join(credentials)}; use https://")
        if self.oauth2 is not None and not _is_private(self.oauth2.token_url):
            text = "oauth2.token_url is http://: anybody on the way can read the client_secret_file; use https://"
            found.append(text)
        return "; ".join(found) or None

    @model_validator(mode="after")
    def _has_each_header_once(self) -> Self:
        files = {name.lower() for name in self.header_files}
        if both := {name.lower() for name in self.headers} & files:
            raise ValueError(f"{', '.join(sorted(both))} is in headers and in header_files: keep one of them")
        for option in _AUTHORIZATION:
            if "authorization" in files and getattr(self, option) is not None:
                raise ValueError(f"Authorization is in header_files and made by {option}: keep one")
        return self


def _is_private(url: str) -> bool:
    """Whether nobody on the way can read a request to this URL."""
    parts = urlsplit(url)
    return parts.scheme == "https" or is_loopback(parts.hostname or "")
