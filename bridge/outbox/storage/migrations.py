"""Changes a database of an earlier format into one of this format, in a single transaction, when a bridge opens it.

A step adds tables, columns and indexes, so it takes milliseconds, whatever the size of the log: a rewrite of the log
would take minutes and the size of the file. New columns stand behind the others. The first release writes format 10,
and no format before it was released.

The price of columns behind the others: in a migrated file the bits of a record stand behind its body, and a sink that
passes over a record follows its pages to their end.
"""

from __future__ import annotations

from collections.abc import Mapping

import apsw

STEPS: Mapping[int, str] = {}
"""Format → SQL that makes the next format of it."""


def migrate(database: apsw.Connection, was: int, now: int) -> None:
    """The caller's transaction makes all steps one."""
    for step in range(was, now):
        database.execute(STEPS[step])
