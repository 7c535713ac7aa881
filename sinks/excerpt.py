"""The beginning of what a destination answered, fit to be kept with a dead letter and to be shown. Pure.

An answer is a stranger's: it may be endless, compressed to nothing, in any charset, or an echo of what was sent to it.
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
"""Bytes of UTF-8."""
READ = 16 * KEPT
"""Bytes of an answer that are enough to find secrets in the part that is kept."""
REDACTED = "[redacted]"

_SHORTEST = 4
"""Characters of a secret. Whatever is shorter stands in every text."""
_SCHEMES = re.compile(r"(?i)(?:basic|bearer|token|digest|apikey|v1,)\s*")
_NO_TEXT = {"idna", "punycode", "unicode-escape", "raw-unicode-escape", "undefined", "utf-7"}
"""Codecs that are no charset of an answer, or slow ones."""


class Secrets:
    """What no answer may bring back, in whichever way it is quoted: as it is, for JSON, a URL or HTML."""

    def __init__(self, values: Iterable[str]) -> None:
        parts = {part for value in values for part in _parts(value) if len(part) >= _SHORTEST}
        self._patterns = [_pattern(part) for part in sorted(parts, key=len, reverse=True)]
        self.longest = max((sum(1 if _is_plain(letter) else 8 for letter in part) for part in parts), default=0)
        """Characters, of one that is quoted."""

    def removed(self, text: str) -> str:
        for pattern in self._patterns:
            text = pattern.sub(REDACTED, text)
        return text


def excerpt(body: bytes, secrets: Secrets, *, whole: bool = True, charset: str = "", encoding: str = "") -> str:
    """At most ``KEPT`` bytes of an answer that begins with ``body``; ``whole`` where it is all of it. ``charset`` and
    ``encoding`` are what the answer says of itself. Nothing that a terminal would obey is in it."""
    inflated = _inflated(body, encoding.strip().lower(), whole)
    if inflated is None:
        return ""
    data, whole = inflated
    # Once as bytes, because an answer may lie about its charset, and once as what it says.
    data = secrets.removed(data.decode("latin-1")).encode("latin-1")
    text = secrets.removed(_decoded(data, charset))
    if not whole and secrets.longest:
        text = text[: -secrets.longest]  # One that was cut in two is not recognised.
    shown = "".join(letter if letter.isprintable() or letter in "\n\t" else "�" for letter in text)
    return shown.encode(errors="replace")[:KEPT].decode(errors="ignore").strip()


def _inflated(body: bytes, encoding: str, whole: bool) -> tuple[bytes, bool] | None:
    """At most ``READ`` bytes, and whether they are all; None for an encoding that nobody asked for."""
    if encoding in ("", "identity"):
        return body[:READ], whole and len(body) <= READ
    if encoding not in ("gzip", "deflate"):
        return None
    inflater = zlib.decompressobj(zlib.MAX_WBITS | 32)
    try:
        data = inflater.decompress(body, READ)
    except zlib.error:
        return None
    return data, whole and inflater.eof


def _decoded(data: bytes, charset: str) -> str:
    try:
        codec = codecs.lookup(charset or "utf-8")
        if codec.name not in _NO_TEXT:
            return data.decode(codec.name, errors="replace")
    except (LookupError, ValueError):  # Not a charset, or one that cannot replace.
        pass
    return data.decode(errors="replace")


def _parts(value: str) -> Iterable[str]:
    """A secret, and what in it is one by itself: the credentials behind a scheme, the password in them."""
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
    """Nothing quotes it."""
    return letter.isalnum() and letter.isascii()


def _quoted(letter: str) -> str:
    """Every way in which it is written down. No repetition without a bound: an answer is made by a stranger."""
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
