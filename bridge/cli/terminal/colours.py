"""Colours of texts, on a terminal alone."""

from __future__ import annotations

import os
import sys

from bridge.model.primitives.printable import escaped

_CODES = {"dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36"}


class Colours:
    """Escapes control characters, and colours the rest."""

    def __init__(self, *, on: bool) -> None:
        self._on = on

    @classmethod
    def of_output(cls) -> Colours:
        """On if standard output is a terminal that takes them, unless NO_COLOR is set (https://no-color.org)."""
        environ = os.environ
        takes = sys.stdout.isatty() and environ.get("TERM") != "dumb" and not environ.get("NO_COLOR")
        return cls(on=takes)

    def paint(self, text: str, colour: str) -> str:
        """``colour``: a name of this module, or ``plain``."""
        shown = escaped(text)
        code = _CODES.get(colour) if self._on else None
        return f"\x1b[{code}m{shown}\x1b[0m" if code and shown else shown
