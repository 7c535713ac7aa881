"""Helpers for queries that always return a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apsw

from bridge.outbox.errors import Damaged


def row(database: apsw.Connection, query: str, values: Sequence[Any] = ()) -> tuple[Any, ...]:
    """The row of a query that always returns one. Raises Damaged without a row."""
    found = database.execute(query, values).fetchone()
    if found is None:
        raise Damaged(f"no row: {query}")
    return tuple(found)


def one(database: apsw.Connection, query: str, values: Sequence[Any] = ()) -> int:
    """The row's only value, as a number. Raises Damaged without a row."""
    return int(row(database, query, values)[0])
