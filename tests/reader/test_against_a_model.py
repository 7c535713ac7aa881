"""A reader against a model of the bridge: a log, a cursor that is moved back, records that never come, and snapshots.

The model is the whole truth about the objects. What the reader knows may differ from it only where a gap says so.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from kubedelta_reader import Changed, Deleted, Event, Left, MemoryStore, Reader, SnapshotEnded, SqliteStore, StateStore

KEYS = [f"prod/core/{plural}/shop/{name}" for plural in ("pods", "secrets") for name in "abc"]


class Bridge:
    """What a bridge knows and has delivered."""

    def __init__(self) -> None:
        self.sequence = 0
        self.objects: dict[str, str] = {}
        """Key → uid."""
        self.log: list[Event] = []
        self.uids = 0
        self.snapshots = 0

    def change(self, key: str, kind: str) -> None:
        self.sequence += 1
        if kind == "deleted" and key not in self.objects:
            return
        uid = self.objects.get(key, "")
        if not uid or kind == "replaced":
            self.uids += 1
            uid = f"uid-{self.uids}"
        op = "deleted" if kind == "deleted" else "updated" if key in self.objects else "added"
        if op == "deleted":
            del self.objects[key]
        else:
            self.objects[key] = uid
        self.log.append(self._event(key, uid, op, f"{uid}/{self.sequence}/{op}"))

    def _event(self, key: str, uid: str, op: str, id: str, snapshot: str = "") -> Event:
        return Event(
            type=f"kubedelta.object.{op}.v1",
            id=id,
            source="/clusters/prod",
            sequence=self.sequence,
            key=key,
            uid=uid,
            op=op,
            evidence="watched",
            snapshot=snapshot,
            data=msgspec.json.encode({"uid": uid}),
        )

    def gap(self, lost: list[Event]) -> None:
        self.sequence += 1
        resources = sorted({each.key.split("/")[2] for each in lost})
        self.log.append(
            Event(
                type="kubedelta.gap.v1",
                id=f"gap/{self.sequence}",
                sequence=self.sequence,
                data=msgspec.json.encode({"resources": resources}),
            )
        )

    def snapshot(self) -> list[Event]:
        self.snapshots += 1
        name = f"snapshot/audit/{self.sequence}/{self.snapshots}"
        began, ended = (
            Event(
                type=f"kubedelta.snapshot.{edge}.v1",
                id=f"{name}/{edge}",
                sequence=self.sequence,
                snapshot=name,
                data=msgspec.json.encode({"objects": len(self.objects)}),
            )
            for edge in ("began", "ended")
        )
        records = [
            self._event(key, uid, "sync", f"{uid}/sync/{name}", snapshot=name) for key, uid in self.objects.items()
        ]
        return [began, *records, ended]


changes = st.tuples(st.sampled_from(KEYS), st.sampled_from(["changed", "changed", "deleted", "replaced"]))
acts = st.lists(
    st.one_of(
        changes,
        st.tuples(st.just("lose"), st.lists(changes, min_size=1, max_size=4)),
        st.just("snapshot"),
        st.tuples(st.just("again"), st.integers(1, 12)),
        st.just("killed"),
    ),
    max_size=40,
)


def applied(reader: Reader, events: Iterable[Event]) -> None:
    for event in events:
        reader.apply(event)


def run(store: StateStore, acts: list[object]) -> tuple[Bridge, Reader]:
    bridge, reader = Bridge(), Reader(store)
    for act in acts:
        came = len(bridge.log)
        match act:
            case ("lose", list(lost)):
                for key, kind in lost:
                    bridge.change(key, kind)
                missing, bridge.log[came:] = bridge.log[came:], []
                bridge.gap(missing)
            case "snapshot":
                bridge.log += bridge.snapshot()
            case ("again", int(count)):
                applied(reader, bridge.log[-count:])
            case "killed":
                reader = Reader(store)
            case (str(key), str(kind)):
                bridge.change(key, kind)
        applied(reader, bridge.log[came:])
    return bridge, reader


@given(acts)
@settings(max_examples=300)
def test_what_differs_from_the_truth_is_uncertain_or_lacking(acts: list[object]) -> None:
    bridge, reader = run(MemoryStore(), acts)

    known = {key: each.uid for key, each in reader.objects()}
    unsure = set(reader.uncertain())
    lacking = {resource for gap in reader.gaps for resource in gap.resources or ()}
    for key in KEYS:
        if known.get(key) != bridge.objects.get(key):
            assert key in unsure or (key not in known and key.split("/")[2] in lacking), key


@given(acts)
@settings(max_examples=150)
def test_behind_a_snapshot_the_objects_are_the_truth(acts: list[object]) -> None:
    bridge, reader = run(MemoryStore(), acts)
    applied(reader, bridge.snapshot())
    applied(reader, bridge.log)  # All of it once more: nothing is revived.

    assert {key: each.uid for key, each in reader.objects()} == bridge.objects
    assert list(reader.uncertain()) == []
    assert reader.gaps == ()


@given(acts)
@settings(max_examples=60)
def test_both_stores_come_to_the_same(acts: list[object]) -> None:
    store = SqliteStore(":memory:")
    _, reader = run(store, acts)
    _, other = run(MemoryStore(), acts)

    assert sorted(reader.objects()) == sorted(other.objects())
    assert sorted(reader.uncertain()) == sorted(other.uncertain())
    store.close()


@given(acts)
@settings(max_examples=100)
def test_steps_alone_keep_a_table_equal(acts: list[object]) -> None:
    """Whoever follows the steps, and looks at nothing else, has the reader's objects."""
    bridge, _ = run(MemoryStore(), acts)
    reader, table = Reader(MemoryStore()), dict[str, str]()
    for event in bridge.log:
        for step in reader.apply(event):
            match step:
                case Changed(key, of, _):
                    table[key] = of.uid
                case Deleted(key) | Left(key):
                    table.pop(key, None)
                case SnapshotEnded(swept=swept):
                    for key, _ in swept:
                        del table[key]

    assert table == {key: each.uid for key, each in reader.objects()}
