"""A build that is killed before each of its statements in turn: ``main(FOLDER)``.

Each fork builds a file of its own and ends by SIGKILL right before statement n; then the build goes on in this process.
Prints a line for each file that then differs from one of a build that nobody killed, and at the end how many were
killed.
"""

from __future__ import annotations

import os
import signal
import sys
from itertools import count
from pathlib import Path

import apsw

from bridge.history.recorder import HistoryBounds
from tests.bridge.history.streams import Stream, build

BOUNDS = HistoryBounds(keep=30, max_bytes=1 << 40)
TABLES = ("history", "resources", "coverage", "objects", "steps", "gaps", "known", "reader")
EVERY = 5
"""Statements between two kills."""


def churn() -> Stream:
    """Changes, deletes, a gap and a snapshot, more than the bounds keep."""
    stream = Stream()
    for number in range(60):
        stream.tell("abcd"[number % 4], {"n": number}, "deleted" if number % 7 == 6 else "updated")
        if number == 30:
            stream.notice("gap", {"reason": "lost", "resources": None})
        if number == 40:
            stream.snapshot({"a": {"n": 1}, "b": {"n": 1}})
    return stream


def kill_before(last: int) -> None:
    statements = count(1)

    def trace(cursor: object, statement: object, values: object) -> bool:
        if next(statements) == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return True

    apsw.connection_hooks.append(lambda connection: connection.set_exec_trace(trace))


def content(path: Path) -> list[object]:
    connection = apsw.Connection(str(path))
    rows: list[object] = [list(connection.execute(f"SELECT * FROM {table}")) for table in TABLES]
    connection.close()
    return rows


def main(folder: str) -> None:
    events = churn().events
    expected = content(build(Path(folder) / "whole.db", events, BOUNDS))
    killed = 0
    for last in count(1, EVERY):
        path = Path(folder) / f"{last}.db"
        child = os.fork()
        if not child:
            kill_before(last)
            build(path, events, BOUNDS)
            os._exit(0)
        if os.waitpid(child, 0)[1] != signal.SIGKILL:
            break
        killed += 1
        build(path, events, BOUNDS)
        if content(path) != expected:
            print(f"killed before statement {last}")
    print(killed)


if __name__ == "__main__":
    main(sys.argv[1])
