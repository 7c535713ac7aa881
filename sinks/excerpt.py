"""An excerpt of a destination's answer, which is stored with the dead letter and shown to the operator. Pure.

The answer is not trusted: it may be endless, highly compressed, in any charset, or an echo of the request.
"""

from __future__ import annotations

import codecs
import html
import re
import zlib
from base64 import b64decode
from binascii import Error as NoBase64
from collections.abc import Iterable
from functools import lru_cache

KEPT = 1024
"""Bytes of an excerpt, in UTF-8."""
READ = 16 * KEPT
"""Bytes of an answer that are searched for secrets: more than the excerpt, because redaction shortens the text."""
REDACTED = "[redacted]"

_MIN_SECRET = 4
"""Characters. A shorter text appears in every answer by chance."""
_SCHEMES = re.compile(r"(?i)(?:basic|bearer|token|digest|apikey|v1a?,)\s*")
_NO_TEXT = {"idna", "punycode", "unicode-escape", "raw-unicode-escape", "undefined", "utf-7"}
"""Codecs that are slow, or no charset of an answer."""


class Secrets:
    """Texts that an excerpt must not contain, in any quoting: plain, or escaped for JSON, a URL or HTML."""

    def __init__(self, values: Iterable[str]) -> None:
        parts = {part for value in values for part in _parts(value) if len(part) >= _MIN_SECRET}
        self._patterns = [_pattern(part) for part in sorted(parts, key=len, reverse=True)]
        self.longest = max((sum(1 if _is_plain(letter) else 8 for letter in part) for part in parts), default=0)
        """Characters of the longest secret in its longest quoting."""

    def redact(self, text: str) -> str:
        for pattern in self._patterns:
            text = pattern.sub(REDACTED, text)
        return text


def excerpt(body: bytes, secrets: Secrets, *, complete: bool = True, charset: str = "", encoding: str = "") -> str:
    """At most ``KEPT`` bytes of an answer, without the secrets and without control characters for a terminal.

    ``body``: the beginning of the answer; ``complete``: the whole answer. ``charset`` and ``encoding``: as the answer
    claims (Content-Type, Content-Encoding). Empty for an encoding that cannot be read."""
    inflated = _inflated(body, encoding.strip().lower(), complete)
    if inflated is None:
        return ""
    data, complete = inflated
    # Redacted twice, as bytes and as text, because the answer may lie about its charset.
    data = secrets.redact(data.decode("latin-1")).encode("latin-1")
    text = secrets.redact(_decoded(data, charset))
    if not complete and secrets.longest:
        text = text[: -secrets.longest]  # A secret that is cut in two would not be recognised.
    shown = "".join(letter if letter.isprintable() or letter in "\n\t" else "�" for letter in text)
    return shown.encode(errors="replace")[:KEPT].decode(errors="ignore").strip()


def _inflated(body: bytes, encoding: str, complete: bool) -> tuple[bytes, bool] | None:
    """At most ``READ`` bytes, and whether these are all; None for an unknown encoding."""
    if encoding in ("", "identity"):
        return body[:READ], complete and len(body) <= READ
    if encoding not in ("gzip", "deflate"):
        return None
    inflater = zlib.decompressobj(zlib.MAX_WBITS | 32)
    try:
        data = inflater.decompress(body, READ)
    except zlib.error:
        return None
    return data, complete and inflater.eof


def _decoded(data: bytes, charset: str) -> str:
    try:
        codec = codecs.lookup(charset or "utf-8")
        if codec.name not in _NO_TEXT:
            return data.decode(codec.name, errors="replace")
    except (LookupError, ValueError):  # No charset, or a codec without error handling.
        pass
    return data.decode(errors="replace")


def _parts(value: str) -> Iterable[str]:
    """The secret and its parts that are secret by themselves: the credentials behind a scheme, the password in them."""
    value = value.strip()
    yield value
    bare = _SCHEMES.sub("", value, count=1)
    yield bare
    yield from re.split(r"[\s,;]+", bare)
    try:
        pair = b64decode(bare, validate=True).decode("ascii")
    except (NoBase64, ValueError):
        return
    if ":" in pair and pair.isprintable():
        yield pair
        yield pair.partition(":")[2]


@lru_cache(maxsize=256)
def _pattern(secret: str) -> re.Pattern[str]:
    return re.compile("".join(map(_quoted, secret)), re.IGNORECASE)


def _is_plain(letter: str) -> bool:
    """The character is the same in every quoting."""
    return letter.isalnum() and letter.isascii()


def _quoted(letter: str) -> str:
    """A pattern for the character in every quoting. All repetitions are bounded, because a hostile answer could make an
    unbounded pattern slow."""
    if _is_plain(letter):
        return letter
    code = ord(letter)
    ways = {
        rf"\\{{0,3}}{re.escape(letter)}",
        "".join(f"%{byte:02x}" for byte in letter.encode()),
        rf"\\{{1,3}}u{code:04x}",
        rf"&#0{{0,5}}{code};",
        rf"&#x0{{0,5}}{code:x};",
        re.escape(html.escape(letter)),
    }
    if letter == " ":
        ways.add(r"\+")
    return f"(?:{'|'.join(sorted(ways))})"
