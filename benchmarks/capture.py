"""What a follower costs in each transaction of the leader, before a byte is sent: ``python -m benchmarks.capture``.

A transaction appends records as a batch of a watch does, with and without a capture. CPU time of the thread, each
behind a pause of 20 ms, as transactions come at 500 changes a second, and the median: a process that sleeps meanwhile
finds cold caches.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from contextlib import closing
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import apsw

from benchmarks.redaction import PODS, a_pod
from bridge.model.change import Evidence, Op
from bridge.model.primitives.packing import pack
from bridge.model.record import Delta
from bridge.outbox.commits import Capture, Frame, Replicas
from bridge.outbox.log import statements
from bridge.outbox.log.record_codec import kind_id, resource_id
from bridge.outbox.storage.database import open_writer
from bridge.outbox.storage.directory_lock import FILE

CHANGES = (1, 10, 100)
"""Of a transaction."""
PAUSE = 0.02
"""Seconds."""
ROUNDS = 100
BODY = a_pod().body


class _NoReplica(Replicas):
    def committed(self, frame: Frame | None, finish: object) -> None: ...


def microseconds(database: apsw.Connection, capture: Capture | None, deltas: Sequence[Delta]) -> float:
    """CPU time of a transaction with these records."""
    progress = statements.InformerProgress(
        informer=1, resource=1, position="1", newest=deltas[-1].resource_version, epoch=1
    )
    changes = len(deltas)
    batch = statements.Append(1, [1] * changes, [True] * changes, [None] * changes, progress, removing=False)
    start = time.thread_time()
    database.execute("BEGIN IMMEDIATE")
    if capture is not None:
        capture.begin()
    statements.append(database, deltas, batch, pack)
    if capture is not None:
        capture.end()
    database.execute("COMMIT")
    return (time.thread_time() - start) * 1e6


def main() -> None:
    with TemporaryDirectory(prefix="kubedelta-bench-") as folder, closing(_state(Path(folder))) as database:
        capture = Capture(1, _NoReplica(), Path(folder))
        capture.open(database)
        capture.opened()
        numbers = count(1)
        print(f"{'changes':>7} {'plain':>8} {'captured':>8}  us, median of {ROUNDS}")
        for changes in CHANGES:
            found: tuple[list[float], list[float]] = ([], [])
            for _ in range(ROUNDS):
                for captured, times in enumerate(found):
                    deltas = [_delta(next(numbers)) for _ in range(changes)]
                    time.sleep(PAUSE)
                    times.append(microseconds(database, capture if captured else None, deltas))
            plain, captured_too = map(statistics.median, found)
            print(f"{changes:7} {plain:8.0f} {captured_too:8.0f}", flush=True)


def _state(folder: Path) -> apsw.Connection:
    database = open_writer(folder / FILE, made=True)
    resource = resource_id(database, PODS)
    kind = kind_id(database, PODS.name)
    database.execute(
        "INSERT INTO informers (kind, resource, label_selector, field_selector) VALUES (?, ?, '', '')", (kind, resource)
    )
    return database


def _delta(number: int) -> Delta:
    time_ = "2026-11-21T08:30:00.000001Z"
    return Delta(number, Op.UPDATED, Evidence.WATCHED, PODS, "shop/web", "uid", str(number), time_, 1, BODY)


if __name__ == "__main__":
    main()
