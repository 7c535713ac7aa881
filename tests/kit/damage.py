"""Ways in which a state directory comes to hold what was never written to it, each made of one seed."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw

from bridge.outbox.storage.directory_lock import FILE

PAGE = 4096
_WRONG: dict[str, tuple[Any, ...]] = {
    "INTEGER": (b"\xff\xfe", "text", 2.5, None),
    "REAL": (b"\xff\xfe", "text", None),
    "TEXT": (b"\xff\xfe", None),
    "BLOB": ("text", 7, 2.5, None),
}
"""By the type that a column has: a right one could have been written."""


def harm(directory: Path, seed: int) -> str:
    """Damage the state of a bridge that does not run, and say how. The same seed on the same files does the same."""
    chance = random.Random(seed)
    ways: list[Callable[[Path, random.Random], str]] = [_flip, _flip, _flip, _cut, _blank, _swap, _mistype, _misspell]
    return f"seed {seed}: {chance.choice(ways)(directory, chance)}"


def loosely(directory: Path, table: str, statement: str, *values: Any) -> None:
    """What only a table that is not STRICT takes."""
    file = str(directory / FILE)
    schema = "SELECT sql FROM sqlite_schema WHERE name = ?"
    with closing(apsw.Connection(file)) as connection:
        [(strict,)] = connection.execute(schema, (table,))
        _set_schema(connection, table, strict.replace("STRICT, ", "").replace(" STRICT", "").replace(" NOT NULL", ""))
    with closing(apsw.Connection(file)) as connection:
        connection.execute(statement, values)
        _set_schema(connection, table, strict)


def _set_schema(connection: apsw.Connection, table: str, sql: str) -> None:
    connection.pragma("writable_schema", True)
    connection.execute("UPDATE sqlite_schema SET sql = ? WHERE name = ?", (sql, table))
    connection.pragma("schema_version", int(connection.pragma("schema_version")) + 1)


def _some_file(directory: Path, chance: random.Random) -> Path:
    """Mostly the database itself; sometimes its write-ahead log, where a killed process left one."""
    log = directory / f"{FILE}-wal"
    return log if log.exists() and log.stat().st_size and chance.random() < 0.3 else directory / FILE


def _flip(directory: Path, chance: random.Random) -> str:
    file = _some_file(directory, chance)
    count, content = chance.randint(1, 20), bytearray(file.read_bytes())
    for _ in range(count):
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    file.write_bytes(content)
    return f"{count} bits of {file.name} are flipped"


def _cut(directory: Path, chance: random.Random) -> str:
    file = _some_file(directory, chance)
    size = chance.randrange(file.stat().st_size)
    os.truncate(file, size)
    return f"{file.name} is cut off at {size}"


def _blank(directory: Path, chance: random.Random) -> str:
    file = _some_file(directory, chance)
    content = bytearray(file.read_bytes())
    page = chance.randrange(max(1, len(content) // PAGE))
    content[page * PAGE : (page + 1) * PAGE] = chance.choice([bytes(PAGE), chance.randbytes(PAGE)])
    file.write_bytes(content)
    return f"page {page + 1} of {file.name} is blank or rubbish"


def _swap(directory: Path, chance: random.Random) -> str:
    """Each is whole, with a right checksum, and not where it belongs."""
    file = directory / FILE
    pages = [file.read_bytes()[start : start + PAGE] for start in range(0, file.stat().st_size, PAGE)]
    one, other = chance.randrange(len(pages)), chance.randrange(len(pages))
    pages[one], pages[other] = pages[other], pages[one]
    file.write_bytes(b"".join(pages))
    return f"pages {one + 1} and {other + 1} are swapped"


def _mistype(directory: Path, chance: random.Random) -> str:
    kind = chance.choice(["INTEGER", "INTEGER", "TEXT", "TEXT", "BLOB", "REAL"])
    return _set(directory, *_some_column(directory, chance, kind), chance.choice(_WRONG[kind]))


def _misspell(directory: Path, chance: random.Random) -> str:
    """Bytes that are no UTF-8, of the type TEXT."""
    return _set(directory, *_some_column(directory, chance, "TEXT"), b"web-\xff", "CAST(? AS TEXT)")


def _set(directory: Path, table: str, column: str, value: Any, form: str = "?") -> str:
    try:
        loosely(directory, table, f"UPDATE OR IGNORE {table} SET {column} = {form}", value)
    except (apsw.ConstraintError, apsw.MismatchError) as error:
        return f"{table}.{column} cannot be {value!r}: {error}"
    return f"{table}.{column} is {value!r}"


def _some_column(directory: Path, chance: random.Random, kind: str) -> tuple[str, str]:
    with closing(apsw.Connection(str(directory / FILE))) as connection:
        found = list(
            connection.execute(
                "SELECT s.name, c.name FROM sqlite_schema s, pragma_table_info(s.name) c WHERE s.type = 'table'"
                " AND s.name NOT LIKE 'sqlite_%' AND c.type = ? ORDER BY 1, 2",
                (kind,),
            )
        )
    table, column = chance.choice(found)
    return str(table), str(column)
