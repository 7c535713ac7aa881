"""Tables as lines that fit the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from bridge.cli.top.rows import Cell, Column, Table

_GAP = 2
"""Blanks between two columns."""
_NARROWEST = 8
"""Cells of a column that is cut."""


def table_lines(table: Table, width: int | None, most: int | None) -> list[Text]:
    """At most ``width`` cells wide: columns that matter less are left out, then the widest are cut. At most ``most``
    lines: the last tells how many rows are left out. None for no bound."""
    columns = _fitting(table, width)
    widths = _widths(table, columns)
    if width is not None:
        _cut(widths, width)
    rows = table.rows
    hidden = 0
    if most is not None and len(rows) + 1 > most:
        hidden = len(rows) - max(0, most - 2)
        rows = rows[: len(rows) - hidden]
    header = _line([Cell(table.columns[each].name, "bold") for each in columns], table, columns, widths)
    lines = [header, *(_line([row[each] for each in columns], table, columns, widths) for row in rows)]
    return [*lines, Text(f"and {hidden} more", "dim")] if hidden else lines


def summary_line(cells: Sequence[Cell], width: int | None) -> Text:
    """As many of the first cells as fit."""
    line = Text()
    for cell in cells:
        part = " · " if line.plain else ""
        if width is not None and line.plain and cell_len(line.plain + part + cell.text) > width:
            break
        line.append(part, "dim").append(cell.text, cell.style or None)
    if width is not None:
        line.truncate(width, overflow="ellipsis")
    return line


def _fitting(table: Table, width: int | None) -> list[int]:
    columns = [
        index for index, column in enumerate(table.columns) if column.name or any(row[index].text for row in table.rows)
    ]
    if width is None:
        return columns
    while _total(_least(table, columns)) > width:
        dropped = max(columns, key=lambda each: table.columns[each].drop)
        if not table.columns[dropped].drop:
            break
        columns.remove(dropped)
    return columns


def _widths(table: Table, columns: Sequence[int]) -> list[int]:
    return [max(map(cell_len, [table.columns[each].name, *(row[each].text for row in table.rows)])) for each in columns]


def _least(table: Table, columns: Sequence[int]) -> list[int]:
    """Widths with texts cut; notes, which have no name, stay long enough to tell something."""
    return [
        width if column.right else min(width, 3 * _NARROWEST if column.name else 5 * _NARROWEST)
        for width, column in zip(_widths(table, columns), [table.columns[each] for each in columns], strict=True)
    ]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)


def _cut(widths: list[int], width: int) -> None:
    while (excess := _total(widths) - width) > 0:
        widest = max(range(len(widths)), key=widths.__getitem__)
        if widths[widest] <= _NARROWEST:
            break
        widths[widest] = max(_NARROWEST, widths[widest] - excess)


def _line(cells: Sequence[Cell], table: Table, columns: Sequence[int], widths: Sequence[int]) -> Text:
    line = Text(no_wrap=True, overflow="crop", end="")
    for place, (cell, index, width) in enumerate(zip(cells, columns, widths, strict=True)):
        line.append(" " * _GAP if place else "").append(
            _sized(cell.text, table.columns[index], width), cell.style or None
        )
    line.rstrip()
    return line


def _sized(text: str, column: Column, width: int) -> str:
    length = cell_len(text)
    if length > width and not column.name:
        # A reason ends with what tells most.
        tail = (width - 1) * 2 // 3
        return set_cell_size(text, width - 1 - tail) + "…" + set_cell_size(text[::-1], tail)[::-1]
    if length > width:
        return set_cell_size(text, width - 1) + "…"
    blanks = " " * (width - length)
    return blanks + text if column.right else text + blanks
