"""Sinks with selections against a model: objects that enter and leave, selections that change in a running process and
between two, kills, compaction, replay, and a resource that leaves the configuration and comes back. A consumer's state
is exactly the selected objects, and an id stands for one record."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from itertools import count
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from bridge.delivery.backfills import begin_snapshot, cancel_snapshot
from bridge.delivery.selecting import Selecting
from bridge.delivery.sink_feed import SinkFeed
from bridge.delivery.sink_pipeline import SinkPipeline
from bridge.kube import Catalogue
from bridge.model.admin import UnknownTarget
from bridge.model.change import Change, ChangeBatch, Evidence, ObjectVersion, Op
from bridge.model.object import ApiObject
from bridge.model.policies import StartPolicy
from bridge.model.primitives.ring import Fetch
from bridge.model.record import Delta, Record, SnapshotScope
from bridge.model.resource import Resource, Scope
from bridge.model.versions import VersionTable
from bridge.outbox import CleanerPolicy, Retention
from bridge.plan.entries import Resolution
from bridge.plan.plan import SinkPlan
from bridge.telemetry.facts import discard
from bridge.views.selection import SelectorText
from tests.bridge.outbox.opened import crashed, rows_of
from tests.kit import memory
from tests.kit.deadlines import BUSY
from tests.kit.examples import examples
from tests.kit.pipelines import opened_feeds, replay, without_worker
from tests.kit.sinks import RecordingSink

PODS = Resource("", "v1", "pods", "Pod", True)
NODES = Resource("", "v1", "nodes", "Node", False)
SCOPE = Scope()
RESOLUTION = Resolution({("pods", SCOPE): PODS, ("nodes", SCOPE): NODES}, {}, {})
KEYS = ("shop/a", "shop/b", "pay/a")

Manifest: TypeAlias = dict[str, Any]
View: TypeAlias = tuple[tuple[SelectorText, ...] | None, Callable[[str, Manifest], bool]]


def entry(resource: str = "pods", **options: Any) -> SelectorText:
    return SelectorText(resource=resource, **options)


def is_web(_key: str, manifest: Manifest) -> bool:
    return bool(manifest["metadata"]["labels"].get("tier") == "web")


def is_big(_key: str, manifest: Manifest) -> bool:
    return bool(manifest["spec"]["n"] > 1)


VIEWS: Mapping[str, View] = {
    "all": (None, lambda _key, _manifest: True),
    "web": ((entry(label_selector="tier=web"),), is_web),
    "big": ((entry("po", where="object.spec.n > 1"),), is_big),
    "shop": ((entry("*", namespaces=["shop"]),), lambda key, _manifest: key.startswith("shop/")),
    "web or big": (
        (entry(where="object.spec.n > 1"), entry(label_selector="tier=web")),
        lambda key, manifest: is_web(key, manifest) or is_big(key, manifest),
    ),
    "failing": ((entry(where="object.spec.missing == 1"),), lambda _key, _manifest: True),
    "nodes": ((entry("nodes"),), lambda _key, _manifest: False),
}
ABSENT = "absent"
SINKS = ("whole", "view", "late")


@dataclass
class Consumer:
    """Keeps the state of each object, and judges what it receives."""

    state: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Key → uid and version."""
    rows: dict[str, list[tuple[int, tuple[str, str] | None]]] = field(default_factory=dict)
    """Key → the rows of a table, each with its sequence number: a state, None after a delete."""
    sequences: dict[tuple[int, str, str | None], int] = field(default_factory=dict)
    """Epoch, id and snapshot → the record that had the id first."""
    once: bool = True
    """Every record was received once so far, and no other delete: no kill, replay, or compaction after a restart."""

    def receive(self, record: Record) -> None:
        if not isinstance(record, Delta):
            return
        assert msgspec.json.decode(record.body)["metadata"], "the state of the object"
        if record.op is not Op.SYNC or record.snapshot:  # Every resync of an unchanged object has the same id.
            first = self.sequences.setdefault((record.epoch, record.id, record.snapshot), record.sequence)
            assert first == record.sequence, f"{record.id} is of records {first} and {record.sequence}"
        if self.once:
            assert (record.key in self.state) is (record.op is not Op.ADDED), f"{record.id}, evidence {record.evidence}"
            assert record.sequence >= max((row[0] for row in self.rows.get(record.key, ())), default=0), record.id
        if record.op is Op.DELETED:
            self.state.pop(record.key, None)
        else:
            self.state[record.key] = record.uid, record.resource_version
        self.rows.setdefault(record.key, []).append((record.sequence, self.state.get(record.key)))

    def table(self, since: int = 0) -> dict[str, tuple[str, str]]:
        """The objects in a table that keeps the row with the largest number, without rows that are older than
        ``since``."""
        newest = {key: max(reversed(rows), key=itemgetter(0)) for key, rows in self.rows.items() if rows}
        return {key: state for key, (sequence, state) in newest.items() if state and sequence >= since}

    def lose_newest(self, keys: Iterable[str]) -> None:
        """The table loses the newest rows of these objects."""
        for key in keys:
            rows = self.rows.get(key, [])
            newest = max((sequence for sequence, _ in rows), default=0)
            self.rows[key] = [row for row in rows if row[0] != newest]


def _selecting(views: Mapping[str, str]) -> list[str]:
    return [sink for sink, view in views.items() if VIEWS[view][0] is not None]


class Run:
    """A bridge without an API server and without destinations: changes are made, and records taken, by hand."""

    def __init__(self, folder: Path, late: StartPolicy = StartPolicy.SNAPSHOT) -> None:
        """``late``: where the sink of that name begins."""
        self._late = late
        self._folder = folder
        self._directory = folder / "0"
        self._directory.mkdir()
        self._copies, self._versions = count(1), count(1)
        self._stack = AsyncExitStack()
        self.objects: dict[str, tuple[ApiObject, Manifest]] = {}
        self.consumers = {sink: Consumer() for sink in SINKS}
        self.views: dict[str, str] = {}
        self.feeds: dict[str, SinkFeed] = {}
        self._known = VersionTable()
        self._is_watched = True
        self._epoch = 1
        self._held: list[tuple[SinkFeed, Fetch[Record]]] = []
        self._big: set[tuple[str, str]] = set()
        """uid and version of states for which ``object.spec.n > 1`` holds."""
        self._again: set[str] = set()
        """Sinks that had an earlier feed in the process."""

    async def start(self, views: Mapping[str, str]) -> None:
        self.views = {sink: view for sink, view in views.items() if view != ABSENT}
        self._feeds = await opened_feeds(
            self._directory,
            self._starts(self.views),
            report=discard,
            retention=Retention(retain_bytes=1 << 20),
            selecting=_selecting(self.views),
            cleaner_policy=CleanerPolicy(min_bytes=0, min_ratio=0.0),
        )
        self.outbox = await self._stack.enter_async_context(self._feeds.outbox)
        self._again.clear()
        self._pipelines: dict[str, SinkPipeline] = {}
        self._selections = Selecting(self._pipelines, "test", self.outbox.selections, discard)
        await self._begin(self.views)

    async def reload(self, views: Mapping[str, str]) -> None:
        """Other views in the same process. Records that a sink has taken and not settled come again."""
        was, self.views = self.views, {sink: view for sink, view in views.items() if view != ABSENT}
        for sink in [sink for sink, view in was.items() if self.views.get(sink) != view]:
            self.consumers[sink].once &= not self.feeds[sink].handed_out
            async with self.feeds[sink].ending():
                pass
            self._feeds.end(sink)
            self.outbox.sinks.end(sink)
            del self._pipelines[sink]
        begun = {sink: view for sink, view in self.views.items() if sink not in self._pipelines}
        await self.outbox.sinks.begin(self._starts(begun), _selecting(begun), before=False)
        self._again |= begun.keys()
        await self._begin(begun)

    async def _begin(self, views: Mapping[str, str]) -> None:
        for sink, view in views.items():
            plan = SinkPlan(name=sink, type="fake", make=RecordingSink, max_batch=10, select=VIEWS[view][0])
            self._pipelines[sink] = without_worker(plan, self._feeds.feed(sink, window=3), self.outbox)
        self.feeds = {sink: each.feed for sink, each in self._pipelines.items()}
        await self._selections.prepare(Catalogue(), RESOLUTION)
        await self._adopt()

    def _starts(self, views: Mapping[str, str]) -> dict[str, StartPolicy]:
        return {sink: self._late if sink == "late" else StartPolicy.SNAPSHOT for sink in views}

    async def _adopt(self) -> None:
        known, _ = await self.outbox.ledger.adopt(PODS, [SCOPE] if self._is_watched else [])
        checkpoint = known.get(SCOPE)
        self._known = VersionTable() if checkpoint is None else checkpoint.objects
        self._epoch = 1 if checkpoint is None else checkpoint.epoch

    async def watch(self, again: bool) -> None:
        """The configuration names the resource, or does not any more."""
        if again is not self._is_watched:
            self._is_watched = again
            await self._adopt()
            if again:
                await self._list()

    async def _list(self) -> None:
        for key, (thing, _) in self.objects.items():
            self._known[key] = ObjectVersion(thing.uid, thing.resource_version, thing.body)
        await self._export([Change(Op.ADDED, Evidence.LISTED, thing) for thing, _ in self.objects.values()])

    async def restart(self, views: Mapping[str, str], killed: bool) -> None:
        for sink, feed in self.feeds.items():
            if killed or feed.handed_out:
                self.consumers[sink].once = False
        if killed:
            copy = crashed(self._directory, self._folder / str(next(self._copies)))
            await self.stop()
            self._directory = copy
        else:
            await self.stop()
        await self.start(views)

    async def stop(self) -> None:
        await self._stack.aclose()
        self._stack = AsyncExitStack()

    # ── The cluster ──────────────────────────────────────────────────────────

    async def put(self, written: Sequence[tuple[str, str, int]]) -> None:
        """Objects by key, tier and number, in one batch."""
        await self._export([self._change(*each) for each in written])

    def _change(self, key: str, tier: str, n: int) -> Change:
        version = str(next(self._versions))
        uid = self.objects[key][0].uid if key in self.objects else f"uid-{version}"
        manifest: Manifest = {"metadata": {"labels": {"tier": tier} if tier else {}}, "spec": {"n": n}}
        thing = ApiObject(key, uid, version, msgspec.json.encode(manifest))
        self.objects[key] = thing, manifest
        if is_big(key, manifest):
            self._big.add((uid, version))
        before = self._known.get(key)
        if self._is_watched:
            self._known[key] = ObjectVersion(uid, version, thing.body)
        return Change(Op.ADDED if before is None else Op.UPDATED, Evidence.WATCHED, thing, before)

    async def delete(self, key: str) -> None:
        if key in self.objects:
            await self._export([self._gone(key)])

    async def vanish(self, key: str) -> None:
        """A list lacks the object: its delete has the version of its last state."""
        if key in self.objects:
            thing, _ = self.objects.pop(key)
            await self._export([Change(Op.DELETED, Evidence.RELISTED, thing, self._known.pop(key, None))])

    async def replace(self, written: tuple[str, str, int]) -> None:
        """Another object under the same name, in one batch; then a change of it."""
        key, tier, n = written
        if key in self.objects:
            await self._export([self._gone(key), self._change(key, tier, n), self._change(key, tier, n + 1)])

    async def resync(self, sink: str) -> None:
        if self._is_watched:
            things = [(self._known[key], thing) for key, (thing, _) in self.objects.items()]
            await self._export([Change(Op.SYNC, Evidence.WATCHED, thing, known, (sink,)) for known, thing in things])

    def _gone(self, key: str) -> Change:
        thing, _ = self.objects.pop(key)
        last = msgspec.structs.replace(thing, resource_version=str(next(self._versions)))
        return Change(Op.DELETED, Evidence.WATCHED, last, self._known.pop(key, None))

    async def _export(self, changes: list[Change]) -> None:
        if not self._is_watched or not changes:
            return
        batch = ChangeBatch(PODS, SCOPE, changes, changes[-1].object.resource_version, self._epoch)
        deltas = await self.outbox.append(batch)
        for delta in deltas:
            if delta.op.has_state:
                self._known.offload(delta.key, delta.sequence, 0 if delta.selected is None else delta.selected.members)

    # ── The sinks ────────────────────────────────────────────────────────────

    async def take(self, sink: str, limit: int = 100) -> int:
        """Returns the number of records."""
        if (feed := self.feeds.get(sink)) is None or feed.exhausted:
            return 0
        fetch = await feed.take(limit)
        for record in fetch.items:
            self.consumers[sink].receive(record)
        feed.settle(fetch)
        return len(fetch.items)

    async def hold(self, sink: str, limit: int) -> None:
        """Takes records that stay unsettled, until later ones are settled."""
        if (feed := self.feeds.get(sink)) is not None and not feed.exhausted:
            fetch = await feed.take(limit)
            self._held.append((feed, fetch))
            for record in fetch.items:
                self.consumers[sink].receive(record)

    def _settle_held(self, feed: SinkFeed) -> None:
        """The last records of a backfill: later ones wait for them."""
        for of_feed, fetch in self._held:
            if of_feed is feed:
                feed.settle(fetch)
        self._held = [each for each in self._held if each[0] is not feed]

    async def take_all(self, sink: str) -> None:
        behind, taken = self.outbox.sinks.backlog_records(sink), 0
        held = self.feeds[sink].handed_out
        async with asyncio.timeout(20 * BUSY):
            while not self.feeds[sink].exhausted or self.feeds[sink].backfill is not None:
                if self.feeds[sink].exhausted:
                    self._settle_held(self.feeds[sink])
                taken += await self.take(sink)
        if sink in self.outbox.selections.stored and not held:
            assert taken == behind, f"{sink}: {taken} records came, and its backlog was {behind}"

    async def extend(self, sink: str) -> None:
        if sink in self.feeds and sink in self.outbox.selections.stored:
            await self.feeds[sink].extend()

    async def compact(self, sink: str) -> None:
        if sink in self.feeds:
            # The sink may have received records of an earlier process or feed: compaction keeps their deletes.
            self.consumers[sink].once &= not self.outbox.last_at_start and sink not in self._again
            await self.feeds[sink].compact()

    async def replay(self, sink: str) -> None:
        if sink in self.feeds and self.feeds[sink].backfill is None:
            await self.take_all(sink)
            self.consumers[sink].once = False
            await replay(self.outbox, self.feeds[sink], self.outbox.first)

    async def snapshot(self, sink: str, namespace: str | None, where: str | None) -> None:
        """A snapshot on demand. Without conditions, it lacks no object that the sink has, and has no other."""
        if sink not in self.feeds:
            return
        feed = self.feeds[sink]
        scope = None if namespace is where is None else SnapshotScope(None, namespace, where)
        try:
            await begin_snapshot(self.outbox, sink, feed, cluster="test", report=discard, scope=scope)
        except UnknownTarget:
            return
        if self._again or feed.handed_out:  # Records that come again may be older than the consumer's state.
            return
        through, consumer = feed.taken, self.consumers[sink]
        due = {
            key: thing
            for key, thing in consumer.state.items()
            if (namespace is None or key.startswith(f"{namespace}/")) and (where is None or thing in self._big)
        }
        items = await self.items(sink)
        assert consumer.once is False or items == due, f"as of {through}"

    async def items(self, sink: str) -> dict[str, tuple[str, str]]:
        """The objects of a snapshot that no record of was taken."""
        return {
            str(key): (str(uid), str(version))
            for key, uid, version in rows_of(
                self._directory,
                "SELECT key, uid, version FROM backfill_items b JOIN log l ON l.seq = b.seq"
                f" WHERE b.sink = '{sink}' AND item > 0 AND b.op = 'sync'",
            )
        }

    async def cancel(self, sink: str) -> None:
        if sink in self.feeds:
            with suppress(UnknownTarget):
                await cancel_snapshot(self.outbox, sink, self.feeds[sink])

    def expected(self, sink: str) -> dict[str, tuple[str, str]]:
        matches = VIEWS[self.views[sink]][1]
        if not self._is_watched:
            return {}
        return {
            key: (thing.uid, thing.resource_version)
            for key, (thing, manifest) in self.objects.items()
            if matches(key, manifest)
        }


KEY = st.sampled_from(KEYS)
VIEW = st.sampled_from([*VIEWS, ABSENT])
OBJECT = st.tuples(KEY, st.sampled_from(["web", "db", ""]), st.integers(0, 3))
SINK = st.sampled_from(SINKS)
VIEWS_OF_SINKS = st.fixed_dictionaries({"whole": VIEW, "view": VIEW, "late": VIEW})
STEPS: Mapping[str, Sequence[st.SearchStrategy[Any]]] = {
    "put": [st.lists(OBJECT, min_size=1, max_size=4)],
    "delete": [KEY],
    "vanish": [KEY],
    "watch": [st.booleans()],
    "replace": [OBJECT],
    "resync": [SINK],
    "take": [SINK, st.integers(1, 3)],
    "compact": [SINK],
    "replay": [SINK],
    "snapshot": [SINK, st.sampled_from([None, "shop"]), st.sampled_from([None, "object.spec.n > 1"])],
    "cancel": [SINK],
    "extend": [SINK],
    "hold": [SINK, st.integers(1, 3)],
    "restart": [VIEWS_OF_SINKS, st.booleans()],
    "reload": [VIEWS_OF_SINKS],
}
"""Methods of a ``Run``, and what they get."""
STEP = st.one_of(*(st.tuples(st.just(name), *arguments) for name, arguments in STEPS.items()))


async def play(steps: Sequence[Any], folder: Path, late: StartPolicy) -> None:
    run = Run(folder, late)
    await run.start({"whole": "all", "view": "web", "late": ABSENT})
    try:
        for name, *arguments in steps:
            await getattr(run, name)(*arguments)
        for sink in run.feeds:
            await run.take_all(sink)
            consumer, expected = run.consumers[sink], run.expected(sink)
            assert consumer.state == expected, f"{sink}: {run.views[sink]}"
            assert consumer.table() == expected, f"table of {sink}"
        assert not (await run.outbox.check()).problems
    finally:
        await run.stop()


async def test_a_delete_at_the_version_of_a_leave_is_another_event(tmp_path: Path) -> None:
    run = Run(tmp_path)
    await run.start({"view": "web"})
    try:
        await run.put([("shop/a", "web", 1)])
        await run.put([("shop/a", "db", 2)])
        await run.restart({"view": "all"}, killed=False)
        await run.vanish("shop/a")
        await run.take_all("view")
        ids = [each.rpartition("/2/")[2] for _, each, _ in run.consumers["view"].sequences if "/2/" in each]
        assert ids == ["unselected", "added/2", "deleted"]
    finally:
        await run.stop()


SOME_VIEWS = st.sampled_from(["all", "web", "shop", "nodes"])


async def repair(changes: Sequence[Any], lost: Iterable[str], folder: Path) -> None:
    """Changes of objects and views; then the table of the sink loses rows, and gets a snapshot."""
    run = Run(folder)
    await run.start({"view": "all"})
    try:
        for written, view in changes:
            await run.put(written)
            await run.reload({"view": view})
            await run.take_all("view")
        consumer = run.consumers["view"]
        consumer.lose_newest(lost)
        through = run.feeds["view"].taken
        await run.snapshot("view", None, None)
        await run.take_all("view")
        assert consumer.table(since=through) == run.expected("view")
    finally:
        await run.stop()


@examples(10)
@given(st.lists(st.tuples(st.lists(OBJECT, max_size=3), SOME_VIEWS), min_size=2, max_size=5), st.sets(KEY))
def test_a_snapshot_repairs_a_table_that_lost_rows(changes: Sequence[Any], lost: set[str]) -> None:
    with tempfile.TemporaryDirectory(dir=memory.folder()) as folder:
        asyncio.run(repair(changes, lost, Path(folder)))


@examples(10)
@given(st.lists(STEP, max_size=25), st.sampled_from([StartPolicy.SNAPSHOT, StartPolicy.EARLIEST]))
def test_each_consumer_has_exactly_the_selected_objects(steps: Sequence[Any], late: StartPolicy) -> None:
    with tempfile.TemporaryDirectory(dir=memory.folder()) as folder:
        asyncio.run(play(steps, Path(folder), late))
