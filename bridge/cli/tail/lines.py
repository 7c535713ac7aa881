"""A record as a line for people."""

from __future__ import annotations

from bridge.cli.terminal.colours import Colours
from bridge.model.change import Evidence, Op
from bridge.model.versions.followed_record import FollowedRecord

_SIGNS = {Op.ADDED: "+", Op.UPDATED: "~", Op.DELETED: "-", Op.SYNC: "="}
_COLOURS = {Op.ADDED: "green", Op.UPDATED: "yellow", Op.DELETED: "red", Op.SYNC: "blue"}
_LONGEST_FOREIGN = 200
"""Characters."""


class TailLines:
    """Every text of a record is escaped before it is coloured. Columns of resources grow with the longest so far."""

    def __init__(self, colours: Colours) -> None:
        self._paint = colours.paint
        self._width = 0

    def line(self, record: FollowedRecord) -> str:
        paint = self._paint
        time = paint(f"{record.time[:19]}Z" if record.time else "", "dim")
        if record.foreign:
            text = record.text[:_LONGEST_FOREIGN].decode(errors="replace") or "a record without a readable text"
            return paint(f"? {text}", "dim")
        if record.notice:
            return f"{time} {paint(record.notice, 'red' if record.is_gap else 'dim')}"
        step, colour = "*", "plain"
        if record.op is not None:
            step, colour = f"{_SIGNS[record.op]} {record.op:<7}", _COLOURS[record.op]
        self._width = max(self._width, min(40, len(record.resource)))
        key = f"{record.namespace}/{record.name}" if record.namespace else record.name
        parts = [
            *([time] if record.time else []),
            paint(step, colour),
            paint(f"{record.resource:<{self._width}}", "cyan"),
            paint(key, "plain"),
            paint(f"@{record.version}", "dim"),
        ]
        if record.evidence not in ("", Evidence.WATCHED):
            parts.append(paint(record.evidence, "dim"))
        return " ".join(parts)
