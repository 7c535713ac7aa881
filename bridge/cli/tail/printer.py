"""Prints records as lines, for people or unchanged."""

from __future__ import annotations

from collections.abc import Iterable

from bridge.cli.tail.filters import TailFilter
from bridge.cli.tail.lines import TailLines
from bridge.cli.terminal.colours import Colours
from bridge.cli.terminal.output import complain, flush, say, say_escaped
from bridge.model.versions.followed_record import FollowedRecord


class Printer:
    """Prints records as lines."""

    def __init__(self, chosen: TailFilter, *, as_json: bool) -> None:
        self.chosen = chosen
        self._as_json = as_json
        self._lines = TailLines(Colours.of_output())
        self._waits = False

    def wait_for(self, target: str) -> None:
        if not self._waits:
            complain(f"waiting for {target}")
        self._waits = True

    def print(self, records: Iterable[FollowedRecord]) -> None:
        self._waits = False
        for record in records:
            if self._as_json:
                if not record.foreign:
                    say(record.text.decode(errors="replace"))
            else:
                say_escaped(self._lines.line(record))
        if (failed := self.chosen.failed()) is not None:
            complain(f"--where fails on {failed.resource} {failed.key}, and chooses no such record: {failed.reason}")
        flush()
