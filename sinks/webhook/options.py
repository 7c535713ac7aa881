"""The options of a webhook sink."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from bridge.model.primitives.addresses import is_loopback
from config.rules import Above, Is, Rule, needs
from config.values import HOST, PORT, Between, Count, Duration, Matching, Names
from sinks.options import EventOptions, Format


def _any_case(pattern: str) -> str:
    """The pattern for letters of any case. Without a flag, because a JSON Schema has no flags."""
    return re.sub("[a-z]", lambda letter: f"[{letter[0]}{letter[0].upper()}]", pattern)


_NAME = "[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_OURS = _any_case("content-type|content-length|transfer-encoding|host|connection|ce-.*|webhook-.*")
_CREDENTIALS = _any_case(
    ".*authorization.*|.*cookie.*|.*token.*|.*secret.*|.*password.*|.*credential.*|.*signature.*|.*api[-_]?key.*|.*-aut"
    "h"
)


def _why_no_header(name: str) -> str:
    if not re.fullmatch(_NAME, name):
        return f"{name!r} is no name for a header"
    if re.fullmatch(_OURS, name):
        return f"the header {name} is set by the sink"
    return f"{name} is a credential by its name: put its value into a file, and name the file in header_files"


_HEADER_OF_FILE = Matching(f"(?!(?:{_OURS})$){_NAME}", _why_no_header, longest=256)
_HEADER = Matching(f"(?!(?:{_OURS}|{_CREDENTIALS})$){_NAME}", _why_no_header, longest=256)
HEADER_VALUE = Matching(r"[\t\x20-\x7e]*", "the value of a header is printable ASCII")


def _why_no_url(url: str) -> str:
    if re.search(r"[\x00-\x20\x7f]", url):
        return "a URL has no spaces and no control characters"
    if "@" in re.split("[/?#]", url.partition("://")[2])[0]:
        return "no user and password in the URL: put an Authorization header into header_files"
    if "#" in url:
        return "a fragment (#…) is never sent: leave it out"
    if re.match(f"https?://{HOST}", url):
        return "the host or the port in the URL is none: a port is a number up to 65535"
    return "a URL that begins with http:// or https:// and names a host is needed"


def _has_an_address(url: str) -> str:
    try:
        (urlsplit(url).hostname or "").encode("idna")
    except ValueError:
        raise ValueError("the host or the port in the URL is none") from None
    return url


class WebhookOptions(EventOptions):
    """A POST for each record: a CloudEvent in the structured form, or an envelope as the data of a binary
    CloudEvent."""

    url: Annotated[
        str,
        Matching(rf"https?://{HOST}(?::{PORT})?(?:[/?][^\x00-\x20\x7f#]*)?", _why_no_url),
        AfterValidator(_has_an_address),
    ] = Field(
        description="The URL of the POST: http:// or https://. Redirects are not followed. User and password belong"
        " into header_files.",
        examples=["https://example.test/hook"],
    )
    headers: Annotated[dict[str, Annotated[str, HEADER_VALUE]], Names(_HEADER)] = Field(
        default={},
        description="Public headers of every request. Authorization, Cookie, X-Api-Key and other headers that are"
        " credentials by their name belong into header_files.",
        examples=[{"X-Team": "shop"}],
    )
    header_files: Annotated[dict[str, Path], Names(_HEADER_OF_FILE)] = Field(
        default={},
        description="Secret headers of every request: name to a file with a single line. A changed file is read again.",
        examples=[{"Authorization": "/run/secrets/hook-token"}],
    )
    secret_file: Path | None = Field(
        default=None,
        description="Signs every request after Standard Webhooks (webhook-id, webhook-timestamp, webhook-signature)."
        " The file holds a key per line: whsec_ and base64 of 24 to 64 bytes for v1 (HMAC-SHA256), or whsk_ and base64"
        " of an Ed25519 key (32 bytes, or 64 with the public key) for v1a, whose public half alone the endpoint needs."
        " With several lines, while a key is replaced, each gives a signature. A changed file is read again. Without"
        " the option requests are not signed.",
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
        " endpoint must have asked for; so the default is 1.",
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

    rules = (
        *EventOptions.rules,
        needs("key_file", "cert_file"),
        Rule(
            Above("batch", 1),
            Is("format", Format.CLOUDEVENTS.value, default=True),
            "a batch holds CloudEvents: with format envelope, leave batch at 1",
        ),
    )

    def clear_text(self) -> str | None:
        parts = urlsplit(self.url)
        if parts.scheme == "https" or not self.header_files or is_loopback(parts.hostname or ""):
            return None
        return "url is http://: anybody on the way can read the header_files; use https://"

    @model_validator(mode="after")
    def _has_each_header_once(self) -> Self:
        both = {name.lower() for name in self.headers} & {name.lower() for name in self.header_files}
        if both:
            raise ValueError(f"{', '.join(sorted(both))} is in headers and in header_files: keep one of them")
        return self
