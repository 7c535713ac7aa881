"""The types of a webhook's options: URLs, names and values of headers, networks."""

from __future__ import annotations

import re
from enum import StrEnum
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator

from config.values import HOST, PORT, Matching, Names


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
