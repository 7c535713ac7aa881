"""The options of a webhook sink: their types (URLs, headers, networks), the mappings among them, and the templates of
URL and headers, ``/k8s/_doc/{object.metadata.uid}``, with CEL in braces.

The values in a template belong to whoever may write objects, and the text around them to the operator. So a value can
neither end its segment of the path, nor its parameter of the query, nor its line of the header.

Values are percent-encoded, and refused where a server or proxy may resolve them after decoding (a slash, a backslash, a
segment of dots), because proxies that decode before they route undo ``%2F`` and ``%2E%2E``. Elsewhere placeholders are
names (``{resource}``); here they are CEL, since the API of a destination needs values of the object in its paths.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Self, TypeAlias
from urllib.parse import quote, unquote, urlsplit

from pydantic import AfterValidator, Field, model_validator

from bridge.model.formats.content import Makes, OptionExpression
from bridge.model.primitives.network import is_loopback
from config.rules import Above, AnyOf, Contains, Given, Is, Not, Rule, needs, together
from config.values import (
    HOST,
    PORT,
    Between,
    CaFile,
    CertFile,
    Count,
    Duration,
    KeyFile,
    Matching,
    Names,
    Section,
    Size,
)
from sinks.options import EventOptions, Format

# ── Types of options ─────────────────────────────────────────────────────────


def _any_case(pattern: str) -> str:
    """The pattern for letters of any case. Without a flag, because a JSON Schema has no flags."""
    return re.sub("[a-z]", lambda letter: f"[{letter[0]}{letter[0].upper()}]", pattern)


class ContentEncoding(StrEnum):
    """How the body of a request is compressed."""

    NONE = "none"
    GZIP = "gzip"


# ── Headers ──────────────────────────────────────────────────────────────────

_NAME = "[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_OURS = _any_case("content-type|content-length|content-encoding|transfer-encoding|host|connection|ce-.*|webhook-.*")
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
_EXPRESSION = r"\{[^{}]+\}"
_HEADER_TEMPLATE = Matching(
    rf"(?:[\t\x20-\x7a\x7c\x7e]|{_EXPRESSION})*",
    "the value of a header is printable ASCII, with expressions in braces",
)

Headers: TypeAlias = Annotated[dict[str, Annotated[str, _HEADER_TEMPLATE]], Names(_HEADER)]
HeaderFiles: TypeAlias = Annotated[dict[str, Path], Names(_HEADER_OF_FILE)]

MediaType: TypeAlias = Annotated[
    str,
    Matching(
        rf"{_NAME}/{_NAME}(?:; ?{_NAME}={_NAME})*",
        "a media type is expected, such as application/x-ndjson",
        longest=256,
    ),
]


def _is_document(text: str) -> str:
    try:
        json.loads(text.replace("[]", '[""]'))  # Quotes: in a text, the list would be none.
    except ValueError:
        raise ValueError(_NO_WRAP) from None
    return text


_NO_WRAP = 'a JSON document with one [] is expected, such as {"streams": []}'
Wrap: TypeAlias = Annotated[
    str, Matching(r"[^\[\]]*\[\][^\[\]]*", _NO_WRAP, longest=1024), AfterValidator(_is_document)
]

_LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
Origin: TypeAlias = Annotated[
    str, Matching(rf"{_LABEL}(?:\.{_LABEL})*", "a DNS name is expected, such as kubedelta.example.com", longest=253)
]

# ── Addresses ────────────────────────────────────────────────────────────────


def _why_no_template(url: str) -> str:
    bare = re.sub(_EXPRESSION, "x", url)
    if "{" in bare or "}" in bare:
        return "a brace in the URL belongs to no expression: write %7B or %7D for a brace of the URL itself"
    if "{" in re.split("[/?#]", url.partition("://")[2])[0]:
        return "expressions stand in the path and in the query of the URL, and never in its host"
    return _why_no_url(bare)


def _why_no_url(url: str) -> str:
    if re.search(r"[\x00-\x20\x7f]", url):
        return "a URL has no spaces and no control characters"
    if "@" in re.split("[/?#]", url.partition("://")[2])[0]:
        return "no user and password in the URL: see username and password_file"
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


Url: TypeAlias = Annotated[
    str,
    Matching(rf"https?://{HOST}(?::{PORT})?(?:[/?][^\x00-\x20\x7f#]*)?", _why_no_url),
    AfterValidator(_has_an_address),
]


TemplateUrl: TypeAlias = Annotated[
    str,
    Matching(rf"https?://{HOST}(?::{PORT})?(?:[/?](?:[^\x00-\x20\x7f#{{}}]|{_EXPRESSION})*)?", _why_no_template),
    AfterValidator(_has_an_address),
]
"""A URL with expressions in its path and query."""


def _is_network(text: str) -> str:
    try:
        ip_network(text)
    except ValueError:
        raise ValueError(f"{text} is no network: an address, or an address and a prefix, as 10.0.0.0/8") from None
    return text


Network: TypeAlias = Annotated[
    str,
    Matching(r"[0-9A-Fa-f:.]+(?:/[0-9]{1,3})?", "a network is expected, such as 10.0.0.0/8", longest=64),
    AfterValidator(_is_network),
]


# ── Mappings ─────────────────────────────────────────────────────────────────

_TEXT = Matching(r"[\x20-\x7e]+", "printable ASCII is expected", longest=1024)
_SCOPE = Matching(r"[\x21\x23-\x5b\x5d-\x7e]+", "a scope is one word of printable ASCII without quotes", longest=1024)
_PARAMETER = Matching(
    r"(?!(?:grant_type|scope|client_id|client_secret|client_assertion.*|password)$)[A-Za-z0-9_.:-]+",
    lambda name: f"{name!r} is no further parameter of a token request: credentials stand in files",
    longest=256,
)


class ClientAuth(StrEnum):
    """How a client proves itself to the token endpoint, by the names of OpenID Connect."""

    BASIC = "client_secret_basic"
    POST = "client_secret_post"


class OAuth2Options(Section):
    """The client credentials grant of OAuth 2.0 (RFC 6749, 4.4)."""

    token_url: Url = Field(
        description="The token endpoint. Redirects are not followed, and allow_networks holds here too.",
        examples=["https://idp.example.test/oauth2/token"],
    )
    client_id: Annotated[str, _TEXT] = Field(description="The client's id.", examples=["kubedelta"])
    client_secret_file: Path = Field(
        description="The file with the client's secret.",
        examples=["/run/secrets/hook-client"],
    )
    scopes: tuple[Annotated[str, _SCOPE], ...] = Field(
        default=(), max_length=100, description="The scopes to ask for.", examples=[["events.write"]]
    )
    endpoint_params: Annotated[dict[str, Annotated[str, _TEXT]], Names(_PARAMETER)] = Field(
        default={},
        description="Further parameters of the token request, such as audience or resource.",
        examples=[{"audience": "hook"}],
    )
    client_auth: ClientAuth = Field(
        default=ClientAuth.BASIC,
        description="How id and secret are sent: in the header Authorization, or in the body of the token request.",
    )
    ca_file: Path | None = Field(
        default=None,
        description="Certificates (PEM) of the authorities to trust for token_url, in place of the sink's ca_file.",
        examples=["/run/secrets/idp-ca.crt"],
    )


class RateOptions(Section):
    """A token bucket for requests."""

    requests: Count = Field(
        ge=1, le=1_000_000, description="Requests in each time of per, evenly spaced.", examples=[100]
    )
    per: Annotated[Duration, Between(0.001, 3600)] = Field(
        default=Duration(1), description="The time for that many requests.", examples=["1m"]
    )
    burst: Count = Field(
        default=1,
        ge=1,
        le=1_000_000,
        description="Requests that may begin at once after a quiet time.",
    )

    @property
    def per_second(self) -> float:
        return self.requests / self.per


# ── Templates ────────────────────────────────────────────────────────────────

MAX_TARGET_BYTES = 8000
"""Bytes of path and query. RFC 9110 (4.1) asks servers to take as many."""
MAX_HEADER_BYTES = 4096
"""Bytes of a header's value."""

_SPLIT = re.compile("(https?://[^/?]*)(.*)", re.DOTALL)
_PLACEHOLDER = re.compile(r"\{([^{}]+)\}")
_NOT_IN_A_SEGMENT = re.compile(r"[/\\\x00-\x1f\x7f]")
_NOT_IN_A_HEADER = re.compile(r"[^\x20-\x24\x26-\x7e]+")
"""Everything but printable ASCII, and the percent sign, which begins an encoded byte."""


def has_expressions(text: str) -> bool:
    return "{" in text


class UrlTemplate:
    """The path and the query of a URL with expressions."""

    def __init__(self, url: str) -> None:
        origin, target = _SPLIT.findall(url)[0]
        target = target if target.startswith("/") else f"/{target}"
        path = target.partition("{")[0].partition("?")[0]
        self.base = f"{origin}{path[: path.rfind('/') + 1]}"
        """The URL up to the last slash in front of the first expression."""
        self._parts = _PLACEHOLDER.split(target)
        self.literals = tuple(self._parts[::2])
        """The texts around the expressions, which may hold a secret."""

    def render(self, texts: Mapping[str, str]) -> str:
        """Path and query for these values of the expressions. Raises ValueError for a value that cannot be a part of a
        segment of the path, with no value of the object in the message."""
        rendered, in_query = [], False
        for index, part in enumerate(self._parts):
            if index % 2:
                value = texts[part]
                if not in_query and (not value or _NOT_IN_A_SEGMENT.search(value)):
                    found = "is empty" if not value else "has a slash, a backslash or a control character"
                    raise ValueError(f"url: the value of {{{part}}} {found}, which a path cannot take")
                rendered.append(quote(value, safe=""))
            else:
                in_query = in_query or "?" in part
                rendered.append(part)
        target = "".join(rendered)
        if len(target) > MAX_TARGET_BYTES:
            raise ValueError(f"url: path and query would have {len(target)} bytes; {MAX_TARGET_BYTES} are the most")
        # Servers and proxies resolve such a segment, also when it is encoded.
        if any(unquote(segment) in (".", "..") for segment in urlsplit(target).path.split("/")):
            raise ValueError("url: a segment of the path would be . or .., which leads to another path")
        return target


class HeaderTemplate:
    """The value of a header with expressions."""

    def __init__(self, name: str, value: str) -> None:
        self.name = name.lower()
        self._parts = _PLACEHOLDER.split(value)

    def render(self, texts: Mapping[str, str]) -> str:
        """The value; bytes of expressions beside printable ASCII, and percent signs, become ``%XX``. Empty for a header
        that is to be left out. Raises ValueError for a value that is too long."""
        parts = [_encoded(texts[part]) if index % 2 else part for index, part in enumerate(self._parts)]
        value = "".join(parts).strip()
        if len(value) > MAX_HEADER_BYTES:
            raise ValueError(f"headers.{self.name} would have {len(value)} bytes; {MAX_HEADER_BYTES} are the most")
        return value


def _encoded(value: str) -> str:
    return _NOT_IN_A_HEADER.sub(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), value)


# ── The options ──────────────────────────────────────────────────────────────

_AUTHORIZATION = ("username", "bearer_token_file", "oauth2")
"""Options that give the header Authorization; at most one of them is set."""


class WebhookOptions(EventOptions):
    """A POST for each record: a CloudEvent in the structured form; an envelope, a row, an object or its data as the
    data of a binary CloudEvent."""

    url: TemplateUrl = Field(
        description="The URL of the POST, without user and password. With format raw or row, path and query may have "
        "CEL expressions in braces: https://example.test/{resource}/{object.metadata.name}. Values are "
        "percent-encoded; an empty one, or one with a slash, makes a dead letter.",
        examples=["https://example.test/hook"],
    )
    headers: Headers = Field(
        default={},
        description="Public headers of every request; credentials belong into header_files. A value may have CEL "
        "expressions in braces; a header whose value is empty is left out.",
        examples=[{"X-Team": "shop", "X-Namespace": "{object.metadata.namespace}"}],
    )
    content_type: MediaType | None = Field(
        default=None,
        description="With format raw, the Content-Type, by default application/json, or text/plain for a text. With "
        "application/x-ndjson (or another type of lines), each record, and each item of a list, is a line.",
        examples=["application/x-ndjson"],
    )
    header_files: HeaderFiles = Field(
        default={},
        description="Secret headers of every request: name to a file with a single line. It is read again when it "
        "changes, as are all files below.",
        examples=[{"X-Api-Key": "/run/secrets/hook-token"}],
    )
    username: Annotated[str, Matching(r"[^\x00-\x1f\x7f:]+", "a user's name has no colon", longest=256)] | None = Field(
        default=None,
        description="The user of HTTP Basic authentication, with password_file.",
        examples=["kubedelta"],
    )
    password_file: Path | None = Field(
        default=None,
        description="A file with the password of username.",
        examples=["/run/secrets/hook-password"],
    )
    bearer_token_file: Path | None = Field(
        default=None,
        description="The file with a token that every request carries (Authorization: Bearer), such as that of a "
        "service account.",
        examples=["/var/run/secrets/tokens/hook"],
    )
    oauth2: OAuth2Options | None = Field(
        default=None,
        description="Every request carries an access token by the client credentials grant of OAuth 2.0, renewed "
        "before its end, and once after a 401.",
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
        description="Signs every request after Standard Webhooks. The file holds a key per line: whsec_ and base64 of "
        "24 to 64 bytes for v1 (HMAC-SHA256), or whsk_ and base64 of an Ed25519 key for v1a; several while a key is "
        "replaced.",
        examples=["/run/secrets/hook"],
    )
    timeout: Annotated[Duration, Between(0.001, 600)] = Field(
        default=Duration(15),
        description="Timeout of a request, from connecting to the end of the answer.",
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
        description="Most events in a request. Above 1, events are sent as application/cloudevents-batch+json, which "
        "an endpoint must have asked for; data with format raw as a JSON array, or as lines (content_type).",
    )
    wrap: Wrap | None = Field(
        default=None,
        description="With batch, a JSON document with one [], in which the records of a request stand, in place of a "
        "bare array.",
        examples=['{"streams": []}'],
    )
    expect: Annotated[str, _TEXT] | None = Field(
        default=None,
        description="A text in the first 4KiB of every answer that accepts, for endpoints that answer 200 and refuse "
        "in the body. An answer 2xx without it counts as 422.",
        examples=['"errors":false'],
    )
    retry_if: tuple[Annotated[str, _TEXT], ...] | None = Field(
        default=None,
        max_length=20,
        description="Texts in the first 4KiB of an answer 2xx without the text of expect. With one of them, the answer "
        "is no refusal: records were not stored because the endpoint is busy, and all of the request are sent again "
        "later.",
        examples=[['"status":429', '"status":503']],
    )
    request_origin: Origin | None = Field(
        default=None,
        description="Abuse protection of CloudEvents' WebHooks: before the first delivery, the endpoint must "
        "agree to this sender, a DNS name.",
        examples=["kubedelta.example.com"],
    )
    rate: RateOptions | None = Field(
        default=None,
        description="Most requests in a time; a retry is one, too. Without it, concurrency and the endpoint's 429 "
        "bound the rate.",
        examples=[{"requests": 100}],
    )
    compression: ContentEncoding = Field(
        default=ContentEncoding.NONE,
        description="The Content-Encoding of bodies. Off because an endpoint must understand it. With "
        "secret_file, a receiver must verify before it inflates.",
    )
    compress_above: Annotated[Size, Between(0, 1 << 30)] = Field(
        default=Size(1024),
        description="With compression, bodies of more bytes than this are compressed.",
    )
    ca_file: CaFile = None
    cert_file: CertFile = None
    key_file: KeyFile = None

    allow_networks: tuple[Network, ...] | None = Field(
        default=None,
        max_length=100,
        description="The networks that the sink may connect to, by the real address of each connection. By default "
        "all, but not where clouds serve credentials of the machine (169.254.0.0/16, fe80::/10 and others): such an "
        "address needs an entry of its own, like 169.254.7.7.",
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
        Rule(Given("wrap"), Above("batch", 1), "wrap needs a batch: set batch above 1, or leave it out"),
        Rule(
            Given("wrap"),
            Is("format", Format.RAW.value, Format.ROW.value),
            "wrap makes a document of your own: set format: raw or format: row, or leave it out",
        ),
        Rule(Given("wrap"), Not(Given("content_type")), "wrap makes application/json: leave content_type out"),
        needs("retry_if", "expect"),
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
    def around_batch(self) -> tuple[bytes, bytes]:
        """What stands before and behind the records of a batch, with a comma between two."""
        before, _, behind = (self.wrap or "[]").partition("[]")
        return f"{before}[".encode(), f"]{behind}".encode()

    @property
    def compresses_above(self) -> int | None:
        """Bytes of a body; None if no body is compressed."""
        return None if self.compression is ContentEncoding.NONE else self.compress_above

    def expressions(self) -> Iterator[OptionExpression]:
        yield from super().expressions()
        for option, text in (("url", self.url), *((f"headers.{name}", value) for name, value in self.headers.items())):
            for found in _PLACEHOLDER.finditer(text):
                yield OptionExpression(option, found[1], Makes.TEXT, found.start(1))

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
