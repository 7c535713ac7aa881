"""The store in SQLite: what a killed reader finds again, and who may read the file."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from kubedelta_reader import Event, GapFound, MemoryStore, Reader, Repeated, SqliteStore, structured

from tests.reader.test_vectors import READER

LINES = [
    json.dumps(each["record"]).encode()
    for each in json.loads((READER / "vectors/12-gap-settled.json").read_text(encoding="utf-8"))["given"]
]
EVENTS = [structured(line) for line in LINES]


def consumed(path: Path, events: list[Event]) -> None:
    store = SqliteStore(path)
    reader = Reader(store)
    with store.transaction():
        for event in events:
            reader.apply(event)
        store.position = str(len(events)).encode()
    store.close()


def test_a_reader_goes_on_where_its_last_transaction_ended(tmp_path: Path) -> None:
    consumed(tmp_path / "state.db", EVENTS[:3])
    store = SqliteStore(tmp_path / "state.db")
    reader = Reader(store)

    assert store.position == b"3"
    assert sorted(reader.uncertain()) == ["prod/core/pods/shop/a", "prod/core/pods/shop/b"]
    for event in EVENTS[int(store.position) :]:
        reader.apply(event)
    assert [key for key, _ in reader.objects()] == ["prod/core/pods/shop/a"]
    assert reader.gaps == ()
    store.close()


def test_a_failed_transaction_leaves_everything(tmp_path: Path) -> None:
    consumed(tmp_path / "state.db", EVENTS[:1])
    store = SqliteStore(tmp_path / "state.db")
    reader = Reader(store)

    def fails() -> None:
        with store.transaction():
            for event in EVENTS[1:3]:
                reader.apply(event)
            store.position = b"3"
            raise KeyError

    with pytest.raises(KeyError):
        fails()

    again = Reader(store)
    assert store.position == b"1"
    assert [key for key, _ in again.objects()] == ["prod/core/pods/shop/a"]
    assert again.gaps == ()
    assert isinstance(again.apply(EVENTS[0])[0], Repeated)
    assert isinstance(again.apply(EVENTS[2])[0], GapFound)
    store.close()


def test_nobody_else_may_read_the_file(tmp_path: Path) -> None:
    consumed(tmp_path / "state.db", EVENTS)

    assert stat.S_IMODE((tmp_path / "state.db").stat().st_mode) == 0o600


def test_an_empty_file_of_others_becomes_private(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    path.touch()
    path.chmod(0o644)
    SqliteStore(path).close()
    assert path.stat().st_mode & 0o777 == 0o600


def test_however_many_resources_a_stream_names_the_notes_are_bounded() -> None:
    store = MemoryStore()
    reader = Reader(store)
    for number in range(1500):
        key = f"prod/core/things-{number}/shop/a"
        made: dict[str, Any] = {"type": "kubedelta.object.updated.v1", "op": "updated", "epoch": 2, "key": key}
        reader.apply(Event(id=f"{number}", sequence=number, **made))
    assert len(json.loads(store.notes())["epochs"]) == 1000
