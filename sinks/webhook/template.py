"""The URL and the headers of a webhook as templates: ``/k8s/_doc/{object.metadata.uid}``, with CEL in braces.

The values belong to whoever may write objects, and the text around them to the operator. So a value can neither end its
segment of the path, nor its parameter of the query, nor its line of the header. Pure.

Values are percent-encoded, and refused where a server or proxy may resolve them after decoding (a slash, a backslash, a
segment of dots), because proxies that decode before they route undo ``%2F`` and ``%2E%2E``. Elsewhere placeholders are
names (``{resource}``); here they are CEL, since the API of a destination needs values of the object in its paths.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import quote, unquote, urlsplit

MOST_TARGET = 8000
"""Bytes of path and query. RFC 9110 (4.1) asks servers to take as many."""
MOST_HEADER = 4096
"""Bytes of a header's value."""

_SPLIT = re.compile("(https?://[^/?]*)(.*)", re.DOTALL)
_EXPRESSION = re.compile(r"\{([^{}]+)\}")
_NOT_IN_A_SEGMENT = re.compile(r"[/\\\x00-\x1f\x7f]")
_NOT_IN_A_HEADER = re.compile(r"[^\x20-\x24\x26-\x7e]+")
"""Everything but printable ASCII, and the percent sign, which begins an encoded byte."""


@dataclass(frozen=True, slots=True)
class Placeholder:
    """An expression in a template."""

    expression: str
    offset: int
    """Characters of the template in front of the expression."""


def has_expressions(text: str) -> bool:
    return "{" in text


def placeholders(text: str) -> Iterator[Placeholder]:
    for found in _EXPRESSION.finditer(text):
        yield Placeholder(found[1], found.start(1))


class UrlTemplate:
    """The path and the query of a URL with expressions."""

    def __init__(self, url: str) -> None:
        origin, target = _SPLIT.findall(url)[0]
        target = target if target.startswith("/") else f"/{target}"
        path = target.partition("{")[0].partition("?")[0]
        self.base = f"{origin}{path[: path.rfind('/') + 1]}"
        """The URL up to the last slash in front of the first expression."""
        self._parts = _EXPRESSION.split(target)
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
        if len(target) > MOST_TARGET:
            raise ValueError(f"url: path and query would have {len(target)} bytes; {MOST_TARGET} are the most")
        # Servers and proxies resolve such a segment, also when it is encoded.
        if any(unquote(segment) in (".", "..") for segment in urlsplit(target).path.split("/")):
            raise ValueError("url: a segment of the path would be . or .., which leads to another path")
        return target


class HeaderTemplate:
    """The value of a header with expressions."""

    def __init__(self, name: str, value: str) -> None:
        self.name = name.lower()
        self._parts = _EXPRESSION.split(value)

    def render(self, texts: Mapping[str, str]) -> str:
        """The value; bytes of expressions beside printable ASCII, and percent signs, become ``%XX``. Empty for a header
        that is to be left out. Raises ValueError for a value that is too long."""
        parts = [_encoded(texts[part]) if index % 2 else part for index, part in enumerate(self._parts)]
        value = "".join(parts).strip()
        if len(value) > MOST_HEADER:
            raise ValueError(f"headers.{self.name} would have {len(value)} bytes; {MOST_HEADER} are the most")
        return value


def _encoded(value: str) -> str:
    return _NOT_IN_A_HEADER.sub(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), value)
