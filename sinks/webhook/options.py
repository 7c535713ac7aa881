"""What an operator may set for a webhook."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Self
from urllib.parse import SplitResult, urlsplit

from pydantic import Field, field_validator, model_validator

from sinks.base import EventOptions, Format
from sinks.tls import is_loopback

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
HEADER_VALUE = re.compile(r"[\t\x20-\x7e]*")
_OURS = re.compile(r"content-type|content-length|transfer-encoding|host|connection|ce-.*|webhook-.*", re.IGNORECASE)


def _is_an_address(parts: SplitResult) -> bool:
    try:
        _ = parts.port
        (parts.hostname or "").encode("idna")
    except ValueError:  # Its text may repeat a part of a password that was written into the URL.
        return False
    return True


class WebhookOptions(EventOptions):
    """One POST for each record: a CloudEvent in its structured form; an envelope as the data of one in binary form."""

    url: str = Field(
        description="Where to POST: http:// or https://. Redirects are not followed. No user and password in it: they"
        " belong into header_files.",
        examples=["https://example.test/hook"],
    )
    headers: dict[str, str] = Field(
        default={}, description="Headers of every request, none of them secret.", examples=[{"X-Team": "shop"}]
    )
    header_files: dict[str, Path] = Field(
        default={},
        description="Headers whose values are secrets: name to file. A file that changes is read again.",
        examples=[{"Authorization": "/run/secrets/hook-token"}],
    )
    secret_file: Path | None = Field(
        default=None,
        description="Signs every request as Standard Webhooks has it (webhook-id, webhook-timestamp,"
        " webhook-signature). The file holds one secret a line, whsec_ and base64 of 24 to 64 bytes; with several"
        " lines, while a secret is replaced, each gives a signature. A file that changes is read again. Without it"
        " nothing is signed.",
        examples=["/run/secrets/hook"],
    )
    timeout: float = Field(
        default=15.0,
        gt=0,
        le=600,
        description="Seconds for one request, from connecting to the end of the answer. 15 is the least that Standard"
        " Webhooks asks for.",
    )
    concurrency: int = Field(
        default=8,
        ge=1,
        le=256,
        description="Requests under way at once. Those about one object always follow one another.",
    )
    batch: int = Field(
        default=1,
        ge=1,
        le=200,
        description="Most events in one request. Above 1 they are sent as application/cloudevents-batch+json, which an"
        " endpoint must have asked for; so the default is 1.",
    )
    ca_file: Path | None = Field(
        default=None,
        description="Certificates (PEM) of the authorities to trust in place of the system's.",
        examples=["/run/secrets/ca.crt"],
    )
    cert_file: Path | None = Field(
        default=None, description="Certificate (PEM) to show to the endpoint.", examples=["/run/secrets/tls.crt"]
    )
    key_file: Path | None = Field(
        default=None,
        description="Its private key (PEM), where cert_file does not hold it.",
        examples=["/run/secrets/tls.key"],
    )

    def clear_text(self) -> str | None:
        parts = urlsplit(self.url)
        if parts.scheme == "https" or not self.header_files or is_loopback(parts.hostname or ""):
            return None
        return "url is http://: anybody on the way can read the header_files; use https://"

    @field_validator("url")
    @classmethod
    def _is_an_endpoint(cls, url: str) -> str:
        if re.search(r"[\s\x00-\x1f\x7f]", url):
            raise ValueError("a URL has no spaces and no control characters")
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("a URL that begins with http:// or https:// and names a host is needed")
        if parts.username is not None or parts.password is not None:
            raise ValueError("no user and password in the URL: put an Authorization header into header_files")
        if not _is_an_address(parts):
            raise ValueError("the host or the port in the URL is none: a port is a number up to 65535")
        if parts.fragment:
            raise ValueError("a fragment (#…) is never sent: leave it out")
        return url

    @field_validator("headers", "header_files")
    @classmethod
    def _may_be_set(cls, headers: dict[str, Any]) -> dict[str, Any]:
        for name, value in headers.items():
            if not _HEADER_NAME.fullmatch(name):
                raise ValueError(f"{name!r} is no name for a header")
            if _OURS.fullmatch(name):
                raise ValueError(f"the header {name} is set by the sink")
            if isinstance(value, str) and not HEADER_VALUE.fullmatch(value):
                raise ValueError(f"the value of {name} is not printable ASCII")
        return headers

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.key_file is not None and self.cert_file is None:
            raise ValueError("key_file is of no use without cert_file")
        if self.batch > 1 and self.format is not Format.CLOUDEVENTS:
            raise ValueError("a batch holds CloudEvents: with format envelope, leave batch at 1")
        both = {name.lower() for name in self.headers} & {name.lower() for name in self.header_files}
        if both:
            raise ValueError(f"{', '.join(sorted(both))} is in headers and in header_files: keep one")
        return self
