"""Text for people: untrusted text (names, reasons, bodies) made safe for a terminal or a log, counts, and why a file
cannot be written."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

_SHORT = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}
_NOT_ASCII = re.compile(r"[^\x20-\x7e]")


def escaped(text: str, *, keep: str = "") -> str:
    """Replaces every unprintable character by ``\\u…``: control characters (C0, DEL, C1), marks of the direction of
    writing, separators of lines and paragraphs, invisible characters, halves of surrogate pairs. The result cannot
    move a cursor, begin a line, or look like another text.

    Escapes are JSON's, so that a JSON document keeps its meaning. Characters of ``keep`` stay.
    """
    # Nearly every text: a single pass in C.
    if text.isprintable():
        return text
    return _NOT_ASCII.sub(lambda found: _escape(found[0], keep), text)


def _escape(character: str, keep: str) -> str:
    if character.isprintable() or character in keep:
        return character
    if character in _SHORT:
        return _SHORT[character]
    code = ord(character)
    if code < 0x10000:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"


def counted(count: int, one: str) -> str:
    """``1 record``, ``2 records``."""
    return f"{count} {one}" if count == 1 else f"{count} {one}s"


def why_not_writable(path: Path) -> str:
    """The reason behind an ``os.access`` that says no, in the system's words: a volume that is mounted read-only is not
    mended by other rights. Raises OSError."""
    return os.strerror(errno.EROFS if os.statvfs(path).f_flag & os.ST_RDONLY else errno.EACCES)
