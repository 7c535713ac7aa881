"""Makes untrusted text (names, reasons, bodies) safe for a terminal or a log."""

from __future__ import annotations

import re

_SHORT = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}
_LETTER = re.compile(r"[^\x20-\x7e]")


def escaped(text: str, *, keep: str = "") -> str:
    """Replaces every unprintable character by ``\\u…``: control characters (C0, DEL, C1), marks of the direction of
    writing, separators of lines and paragraphs, invisible characters, halves of surrogate pairs. The result cannot
    move a cursor, begin a line, or look like another text.

    Escapes are JSON's, so that a JSON document keeps its meaning. Characters of ``keep`` stay.
    """
    if text.isprintable():
        return text
    return _LETTER.sub(lambda found: _escape(found[0], keep), text)


def _escape(dead_letter: str, keep: str) -> str:
    if dead_letter.isprintable() or dead_letter in keep:
        return dead_letter
    if dead_letter in _SHORT:
        return _SHORT[dead_letter]
    code = ord(dead_letter)
    if code < 0x10000:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
