"""Cuts an excerpt out of a destination's answer, which is stored with the dead letter and shown to the operator.

The answer is not trusted: it may be endless, highly compressed, in any charset, or an echo of the request. The excerpt
depends on its arguments alone.
"""

from __future__ import annotations

import codecs
import html
import re
import sys
import zlib
from base64 import b64decode
from binascii import Error as NoBase64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TypeAlias

KEPT = 1024
"""Bytes of an excerpt, in UTF-8."""
READ = 4 * KEPT
"""Bytes of an answer that are searched for secrets: more than the excerpt, because redaction shortens the text."""
REDACTED = "[redacted]"

_MIN_SECRET = 4
"""Characters. A shorter text appears in every answer by chance."""
_BACKSLASH = ord("\\")
"""May stand in front of any letter, several times where quotings are quoted."""
_QUOTED = re.compile(
    rb"(\+)|%([0-9a-f]{2})|&#([0-9]{1,8});|&#x([0-9a-f]{1,8});|&(amp|lt|gt|quot|apos);|(?<=\\)u([0-9a-f]{4})"
)
"""In lower case. No alternative is longer than a dozen bytes, and none begins inside of another."""
_Quoted: TypeAlias = tuple[int, bytes]
"""Where a quoted letter ends, and the letter."""
_SCHEMES = re.compile(r"(?i)(?:basic|bearer|token|digest|apikey|v1a?,)\s*")
_NO_TEXT = {"idna", "punycode", "unicode-escape", "raw-unicode-escape", "undefined", "utf-7"}
"""Codecs that are slow, or no charset of an answer."""


class Secrets:
    """Texts that an excerpt must not contain, in any quoting: plain, or escaped for JSON, a URL or HTML.

    The answer belongs to a stranger, so the time is linear in it. All secrets are sought at once: an integer has a bit
    for each of their letters, set where the answer up to that place ends in the secret up to that letter. A letter may
    be read in several ways (``+`` is a plus or a space), which only sets more bits. A second pass, backwards from the
    ends of secrets, finds the bytes that belong to them.
    """

    def __init__(self, values: Iterable[str]) -> None:
        parts = {part for value in values for part in _parts(value) if len(part) >= _MIN_SECRET}
        self.longest = max((sum(1 if _is_plain(letter) else 8 for letter in part) for part in parts), default=0)
        """Characters of the longest secret in its longest quoting."""
        self._letters = [0] * 256
        """Byte → bits of the letters that it is."""
        self._begins = self._ends = 0
        at = 0
        for part in sorted(parts):
            self._begins |= 1 << at
            for byte in part.encode().lower():
                at += 1
                self._letters[byte] |= 1 << at
            self._ends |= 1 << at
            at += 1
        self._first = [self._begins << 1 & letters for letters in self._letters]

    def redact(self, text: bytes) -> bytes:
        """``text``: in UTF-8, or in a charset that has ASCII in it."""
        if not self._begins:
            return text
        low = text.lower()
        quoted = {found.start(): (found.end(), _unquoted(found)) for found in _QUOTED.finditer(low)}
        reached = self._reached(low, quoted)
        if not any(bits & self._ends for bits in reached):
            return text
        return b"".join(
            REDACTED.encode() if is_secret else text[begin:end]
            for is_secret, begin, end in _runs(self._covered(low, quoted, reached))
        )

    def _reached(self, text: bytes, quoted: Mapping[int, _Quoted]) -> list[int]:
        """For each place, the letters of secrets that end there."""
        letters, first = self._letters, self._first
        reached = [0] * (len(text) + 1)
        for at, byte in enumerate(text):
            bits = reached[at]
            reached[at + 1] |= bits << 1 & letters[byte] | first[byte]
            if byte == _BACKSLASH:
                reached[at + 1] |= bits
            elif at in quoted:
                end, unquoted = quoted[at]
                bits |= self._begins
                for each in unquoted:
                    bits = bits << 1 & letters[each]
                reached[end] |= bits
        return reached

    def _covered(self, text: bytes, quoted: Mapping[int, _Quoted], reached: Sequence[int]) -> bytearray:
        """1 for each byte of a whole secret: the ways on which the ends were reached, backwards."""
        letters = self._letters
        covered = bytearray(len(text))
        ending = [bits & self._ends for bits in reached]
        for at in range(len(text) - 1, -1, -1):
            byte, bits = text[at], reached[at] | self._begins
            here = (ending[at + 1] & letters[byte]) >> 1 & bits
            if byte == _BACKSLASH:
                here |= ending[at + 1] & reached[at]
            covered[at] |= here > 0
            if at in quoted:
                end, unquoted = quoted[at]
                before = ending[end]
                for each in reversed(unquoted):
                    before = (before & letters[each]) >> 1
                if before & bits:
                    covered[at:end] = b"\1" * (end - at)
                here |= before & bits
            ending[at] |= here
        return covered


def excerpt(body: bytes, secrets: Secrets, *, complete: bool = True, charset: str = "", encoding: str = "") -> str:
    """At most ``KEPT`` bytes of an answer, without the secrets and without control characters for a terminal.

    ``body``: the beginning of the answer; ``complete``: the whole answer. ``charset`` and ``encoding``: as the answer
    claims (Content-Type, Content-Encoding). Empty for an encoding that cannot be read."""
    inflated = _inflated(body, encoding.strip().lower(), complete)
    if inflated is None:
        return ""
    data, complete = inflated
    # Redacted twice, as bytes and as text, because the answer may lie about its charset.
    text = _decoded(secrets.redact(data), charset)
    text = secrets.redact(text.encode(errors="replace")).decode()
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
        pair = b64decode(bare, validate=True).decode()
    except (NoBase64, ValueError):
        return
    if ":" in pair and pair.isprintable():
        yield pair
        yield pair.partition(":")[2]


def _is_plain(letter: str) -> bool:
    """The character is the same in every quoting."""
    return letter.isalnum() and letter.isascii()


def _unquoted(found: re.Match[bytes]) -> bytes:
    """The letter that a quoting stands for, in UTF-8 and lower case; as it is if it stands for none."""
    plus, byte, decimal, hexadecimal, name, escaped = found.groups()
    if plus:
        return b" "
    if byte:
        return bytes.fromhex(byte.decode()).lower()
    if name:
        return html.unescape(found[0].decode()).encode()
    code = int(decimal) if decimal else int(hexadecimal or escaped, 16)
    return chr(code).encode(errors="replace").lower() if code <= sys.maxunicode else found[0]


def _runs(flags: bytearray) -> Iterator[tuple[bool, int, int]]:
    """Each run of equal flags: the flag, its begin and its end."""
    at = 0
    for flag, run in groupby(flags):
        begin, at = at, at + sum(1 for _ in run)
        yield bool(flag), begin, at
