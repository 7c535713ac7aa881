"""What every file with SQL needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apsw

from bridge.outbox.errors import Damaged


def row(database: apsw.Connection, query: str, values: Sequence[Any] = ()) -> tuple[Any, ...]:
    """The one row that this query always has. Raises Damaged."""
    found = database.execute(query, values).fetchone()
    if found is None:
        raise Damaged(f"no row: {query}")
    return tuple(found)


def one(database: apsw.Connection, query: str, values: Sequence[Any] = ()) -> int:
    """The number in it."""
    return int(row(database, query, values)[0])
