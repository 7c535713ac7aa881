"""SQL of what an operator asks of dead letters."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from bridge.model.admin import UnknownTarget
from bridge.outbox.letters import dead_letters_sql
from bridge.outbox.storage.database import one


def retry(database: apsw.Connection, sink: str, numbers: Sequence[int] | None) -> int:
    """Marks dead letters for retry: these numbers, or all (None). If an object has parked dead letters, all of that
    object are marked, to keep their order. Returns how many these are. Raises UnknownTarget."""
    if numbers is None:
        database.execute("UPDATE dead_letters SET retrying = 1 WHERE sink = ?", (sink,))
        return database.changes()
    alone: set[int] = set()
    chains: dict[tuple[str, str], int] = {}
    for number, name, key in _named(database, sink, numbers):
        if (name, key) in chains:
            continue
        database.execute("UPDATE dead_letters SET retrying = 1 WHERE number = ?", (number,))
        chain = one(
            database,
            "SELECT EXISTS (SELECT 1 FROM dead_letters WHERE sink = ? AND resource_name = ? AND key = ? AND parked)",
            (sink, name, key),
        )
        if chain:
            database.execute(
                "UPDATE dead_letters SET retrying = 1 WHERE sink = ? AND resource_name = ? AND key = ?",
                (sink, name, key),
            )
            chains[name, key] = database.changes()
        else:
            alone.add(number)
    return len(alone) + sum(chains.values())


def drop(database: apsw.Connection, sink: str, numbers: Sequence[int] | None) -> tuple[list[int], bool]:
    """Deletes dead letters: these numbers, or all (None). Parked ones without a rejected one left in front are marked
    for retry. Returns the deleted numbers, and whether some were marked. Raises UnknownTarget."""
    if numbers is None:
        deleted = [
            row[0] for row in database.execute("DELETE FROM dead_letters WHERE sink = ? RETURNING number", (sink,))
        ]
        return deleted, False
    named = _named(database, sink, numbers)
    deleted = dead_letters_sql.delete(database, sink, [number for number, _, _ in named])
    released = 0
    for name, key in dict.fromkeys((name, key) for _, name, key in named):
        of_object = "sink = ?1 AND resource_name = ?2 AND key = ?3"
        first_rejected = f"(SELECT min(number) FROM dead_letters WHERE {of_object} AND NOT parked)"
        database.execute(
            f"UPDATE dead_letters SET retrying = 1 WHERE {of_object} AND parked"
            f" AND number < coalesce({first_rejected}, number + 1)",
            (sink, name, key),
        )
        released += database.changes()
    return deleted, released > 0


def _named(database: apsw.Connection, sink: str, numbers: Sequence[int]) -> list[tuple[int, str, str]]:
    found = []
    for number in numbers:
        row = database.execute(
            "SELECT number, resource_name, key FROM dead_letters WHERE number = ? AND sink = ?", (number, sink)
        ).fetchone()
        if row is None:
            raise UnknownTarget(f"sink {sink} has no dead letter {number}")
        found.append(row)
    return found
