"""What is in the databases of replicas."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import apsw

from bridge.outbox import FILE
from bridge.outbox.commits import CommitHistory, history_of


def content(database: apsw.Connection) -> dict[str, list[tuple[Any, ...]]]:
    """Table → its rows, ascending: all that the database has, however it got there."""
    names = database.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    return {name: sorted(database.execute(f"SELECT * FROM {name}"), key=repr) for (name,) in [*names]}


def rows_of_all_tables(directory: Path) -> dict[str, list[tuple[Any, ...]]]:
    with closing(_opened(directory)) as database:
        return content(database)


def history_in(directory: Path) -> CommitHistory:
    with closing(_opened(directory)) as database:
        return history_of(database)


def are_equal(first: Path, second: Path) -> bool:
    """Whether both states have the same commit; a replica without a state has none yet. Raises AssertionError for
    different rows at the same commit."""
    if not all((each / FILE).exists() for each in (first, second)):
        return False
    with closing(_opened(first)) as here, closing(_opened(second)) as there, here, there:
        if history_of(here) != history_of(there):
            return False
        assert content(here) == content(there)
    return True


def _opened(directory: Path) -> apsw.Connection:
    database = apsw.Connection(str(directory / FILE), flags=apsw.SQLITE_OPEN_READWRITE)
    database.set_busy_timeout(10_000)
    return database
