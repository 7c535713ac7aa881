"""The number of the database's format, the check of its tables, and their making."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from functools import cache
from typing import TypeAlias

import apsw

from bridge.outbox.errors import Damaged, UnknownFormat
from bridge.outbox.storage import migrations
from bridge.outbox.storage.tables import SQL

FORMAT = _FIRST = 10
"""PRAGMA user_version. A change of the tables takes the next number, and a step in ``migrations``."""
APPLICATION_ID = 0x6B646F62
"""PRAGMA application_id: "kdob", for kubedelta's outbox. SQLite and file(1) read it from bytes 68 to 71 of the file."""
_UNRELEASED_ID = 0x6B646C74
"""The application id "kdlt" of the very first files."""


Part: TypeAlias = tuple[str, str, str, int, str, int]
"""A part of a table: "column", "index" or "table", then its name and four properties."""
Shape: TypeAlias = Mapping[str, frozenset[Part]]
"""Parts by table."""


def shape(database: apsw.Connection) -> Shape:
    """The tables of a database: columns with their types, explicit indexes, and storage options."""
    return {table: frozenset(_parts(database, table)) for table in _tables(database) if not table.startswith("sqlite_")}


@cache
def expected() -> Shape:
    """The tables of a database of this format."""
    with closing(apsw.Connection(":memory:")) as database:
        database.execute(SQL)
        return shape(database)


def _parts(database: apsw.Connection, table: str) -> Iterator[Part]:
    for name, kind, filled, default, key in database.execute(
        'SELECT name, type, "notnull" OR pk, dflt_value, pk FROM pragma_table_xinfo(?)', (table,)
    ):
        yield ("column", name, kind, filled, default or "", key)
    for name, unique in database.execute(
        "SELECT name, \"unique\" FROM pragma_index_list(?) WHERE origin = 'c'", (table,)
    ):
        columns = [str(column) for (column,) in database.execute("SELECT name FROM pragma_index_info(?)", (name,))]
        yield ("index", name, ",".join(columns), unique, "", 0)
    for without_rowid, strict in database.execute(
        "SELECT wr, strict FROM pragma_table_list(?) WHERE schema = 'main'", (table,)
    ):
        yield ("table", "", "strict" if strict else "", without_rowid, "", 0)


def recognise(database: apsw.Connection, *, new: bool) -> int:
    """The format of the file: FORMAT, or an earlier one that ``prepare`` migrates; FORMAT for an empty file. Refuses a
    file that this version cannot use, before anything in it changes. ``new``: the file was created just now, and may be
    empty. Raises UnknownFormat for another program's database and for an unknown format, and Damaged for a file of this
    format whose header or tables were lost."""
    application, found = int(database.pragma("application_id")), _format(database)
    if application == APPLICATION_ID and found == FORMAT:
        return found
    if application == _UNRELEASED_ID or (application == APPLICATION_ID and 0 < found < _FIRST):
        raise UnknownFormat(
            f"{database.filename} was written by an unreleased kubedelta (format {found}), and no release reads it: "
            "give state.directory an empty directory; the next start exports every object again, without a migration"
        )
    if _has_our_shape(database):  # Another format has other tables: so the header is wrong, and not the version.
        raise Damaged(f"its header does not say kubedelta's format {FORMAT}, although its tables are of that format")
    if application == APPLICATION_ID and found in migrations.STEPS:
        return found
    if not found and not _tables(database):
        if not new:
            raise Damaged("the file has no tables")
        return FORMAT
    if application != APPLICATION_ID:
        raise UnknownFormat(f"{database.filename} is a database, but none of kubedelta's: move it away")
    oldest = min(migrations.STEPS, default=FORMAT)
    raise UnknownFormat(
        f"{database.filename} has format {found}, written by another kubedelta; this version reads the formats from "
        f"{oldest} to {FORMAT}: run the version that wrote it, restore the copy of state.directory from "
        "before that version, or give state.directory an empty directory: the next start exports every object again"
    )


def format_for_followers(database: apsw.Connection) -> int | None:
    """The format of a database that a follower of this version can have: its own, or an earlier one, which is migrated
    when the follower leads. None for a file that has lost its header or its tables: a base copy takes its place. Raises
    UnknownFormat for one that another version or program wrote: nothing may take its place."""
    try:
        found = recognise(database, new=False)
    except Damaged:
        return None
    return found if found in migrations.STEPS or _has_our_shape(database) else None


def is_earlier(database: apsw.Connection) -> bool:
    """Whether it is of an earlier format, and waits for its migration."""
    return _format(database) in migrations.STEPS and not _has_our_shape(database)


def waits_for_migration(file: str, found: int) -> str:
    """Why a command cannot use a file of an earlier format."""
    return f"{file} has format {found}, and this version has format {FORMAT}: the next start of the bridge migrates it"


def _has_our_shape(database: apsw.Connection) -> bool:
    try:
        return shape(database) == expected()
    except (apsw.Error, UnicodeDecodeError):  # What a newer format has, this SQLite may not be able to read.
        return False


def prepare(database: apsw.Connection) -> None:
    """Creates the tables in an empty file, and migrates a file of an earlier format; each in one transaction. Raises
    Damaged for a file whose tables are not those of its format, and which stays as it is."""
    if not _tables(database):
        with database:
            database.execute(SQL)
            database.pragma("user_version", FORMAT)
            database.pragma("application_id", APPLICATION_ID)
    elif (was := _format(database)) != FORMAT:
        with database:
            try:
                migrations.migrate(database, was, FORMAT)
            except apsw.SQLError as error:
                raise Damaged(f"its tables are not those of its format {was}: {error}") from error
            if not _has_our_shape(database):
                raise Damaged(f"its tables are not those of its format {was}")
            database.pragma("user_version", FORMAT)


def _format(database: apsw.Connection) -> int:
    return int(database.pragma("user_version"))


def _tables(database: apsw.Connection) -> set[str]:
    return {name for (name,) in database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
