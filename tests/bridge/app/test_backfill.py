"""The records of sinks when backfills, crashes and full disks meet: an outbox as the bridge uses it, and one
taker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

from bridge.delivery import LaneWorker, WorkerSettings
from bridge.delivery.feeds import Feeds
from bridge.delivery.sink_feed import SinkFeed
from bridge.model.change import Change, ChangeBatch, Evidence, ObjectVersion, Op
from bridge.model.object import ApiObject
from bridge.model.policies import StartPolicy
from bridge.model.primitives.fetch import Fetch
from bridge.model.record import Delta, Record
from bridge.model.resource import Resource, Scope
from bridge.outbox import Retention
from bridge.telemetry.facts import discard
from sinks.base import Lanes
from tests.bridge.delivery.world import never_gone
from tests.kit.deadlines import BUSY
from tests.kit.sinks import RecordingSink

PODS = Resource("", "v1", "pods", "Pod", True)
SHOP = Scope("shop")


class Bench:
    """One informer that appends, and sinks whose records are taken by hand."""

    versions = count(1)

    def __init__(self, feeds: Feeds, sinks: Mapping[str, StartPolicy]) -> None:
        self.outbox = feeds.outbox
        self._known: dict[str, ObjectVersion] = {}
        self.feeds = {name: feeds.feed(name) for name in sinks}

    async def change(self, *ops: str, body: Callable[[], bytes] = lambda: b"{}") -> None:
        """Each is an op and a name, such as ``added a``; one batch."""
        changes = []
        for each in ops:
            op, name = each.split()
            key, version = f"shop/{name}", str(next(self.versions))
            thing = ApiObject(key, f"uid-{name}", version, body())
            changes.append(Change(Op(op), Evidence.WATCHED, thing, self._known.pop(key, None)))
            if op != Op.DELETED:
                self._known[key] = ObjectVersion(thing.uid, version, thing.body)
        for delta in await self.outbox.append(ChangeBatch(PODS, SHOP, changes, changes[-1].object.resource_version)):
            if delta.key in self._known:
                self._known[delta.key] = ObjectVersion(delta.uid, delta.resource_version, delta.sequence)

    def know(self, *names: str) -> None:
        """What an informer would know after a restart."""
        self._known.update(
            {f"shop/{name}": ObjectVersion(f"uid-{name}", "1", place) for place, name in enumerate(names, 1)}
        )

    async def take_all(self, sink: str = "one", *, settle: bool = True, limit: int = 100) -> list[str]:
        """Everything that there is, as ``op name``; notices by their type."""
        delivered, feed = list[str](), self.feeds[sink]
        while not feed.exhausted:
            taken = await feed.take(limit)
            delivered += map(shown, taken.items)
            if settle:
                feed.settle(taken)
        return delivered

    async def take(self, limit: int, sink: str = "one") -> tuple[Fetch[Record], list[str]]:
        taken = await self.feeds[sink].take(limit)
        return taken, list(map(shown, taken.items))


def shown(record: Record) -> str:
    return f"{record.op} {record.key[5:]}" if isinstance(record, Delta) else type(record).__name__


@asynccontextmanager
async def bench(
    state: Path, sinks: Mapping[str, StartPolicy] | None = None, *, retention: Retention | None = None
) -> AsyncIterator[Bench]:
    sinks = sinks or {"one": StartPolicy.SNAPSHOT}
    feeds = await Feeds.open(state, sinks, report=discard, retention=retention)
    async with feeds.outbox as outbox:
        await outbox.ledger.adopt(PODS, [SHOP])
        yield Bench(feeds, sinks)


RETAINED = Retention(retain_bytes=1 << 30)


async def test_a_new_sink_gets_a_snapshot_unnoticed_by_the_others(tmp_path: Path) -> None:
    async with bench(tmp_path) as it:
        await it.change("added a", "added b")
        await it.take_all()
    async with bench(tmp_path, {"one": StartPolicy.SNAPSHOT, "late": StartPolicy.SNAPSHOT}) as it:
        it.know("a", "b")
        began, delivered = await it.take(1, "late")
        it.feeds["late"].settle(began)
        await it.change("updated a")
        assert await it.take_all() == ["updated a"]
        assert delivered + await it.take_all("late") == ["Snapshot", "added a", "added b", "Snapshot", "updated a"]


async def test_a_delete_behind_a_replay_is_delivered_after_compaction(tmp_path: Path) -> None:
    async with bench(tmp_path, retention=RETAINED) as it:
        await it.change("added a")
        assert await it.take_all() == ["added a"]
        await it.feeds["one"].replay(1, None, None)
        await it.change("deleted a")
        await it.feeds["one"].compact()
        delivered = await it.take_all()
    assert delivered[-1:] == ["deleted a"], "the sink has the object since before the replay"


async def test_a_drop_of_what_was_handed_out_disturbs_nobody(tmp_path: Path) -> None:
    async with bench(tmp_path) as it:
        await it.change("added a", "updated a")
        await it.take(10)
        async with asyncio.TaskGroup() as tasks:
            taking = tasks.create_task(it.take(10))
            for _ in range(3):
                assert await it.feeds["one"].drop(2) == (0, 0)
            assert not taking.done(), "lanes would remember each empty fetch as long as something in front is stuck"
            taking.cancel()


async def test_a_backlog_is_compacted_while_a_snapshot_object_is_stuck(tmp_path: Path) -> None:
    async with bench(tmp_path, {"other": StartPolicy.NOW}) as it:
        await it.change("added a", "added b")
    both = {"one": StartPolicy.SNAPSHOT, "other": StartPolicy.NOW}
    async with bench(tmp_path, both) as it:
        it.know("a", "b")
        _, delivered = await it.take(100)
        assert delivered == ["Snapshot", "added a", "added b", "Snapshot"]
        await it.change("updated a", "updated a", "added c", "deleted c", "deleted b")
        assert await it.feeds["one"].compact() == (5, 2)
        assert await it.feeds["one"].drop(it.outbox.last) == (0, 0), "all of it is in the backfill"
        _, delivered = await it.take(100)
        assert delivered == ["updated a", "deleted b"]
    async with bench(tmp_path, both) as it:
        assert await it.take_all() == ["Snapshot", "added a", "added b", "Snapshot", "updated a", "deleted b"]


async def test_records_behind_a_backfill_wait_until_it_is_settled(tmp_path: Path) -> None:
    async with bench(tmp_path, retention=RETAINED) as it:
        await it.change("added a", "updated a")
        await it.take_all()
        await it.feeds["one"].replay(1, None, None)
        await it.change("updated a")
        one, _ = await it.take(1)
        two, _ = await it.take(1)
        async with asyncio.TaskGroup() as tasks:
            taking = tasks.create_task(some_items(it.feeds["one"]))
            for _ in range(20):  # What stands in the window is handed out in fewer turns of the loop.
                await asyncio.sleep(0)
            assert not taking.done()
            it.feeds["one"].settle(one)
            it.feeds["one"].settle(two)
        assert [f"{delta.op} {delta.key}" for delta in taking.result()] == ["updated shop/a"]


async def some_items(feed: SinkFeed) -> Sequence[Delta]:
    """What comes next. Who was woken takes nothing, and takes again."""
    while not (taken := await feed.take(10)).items:
        pass
    return [item for item in taken.items if isinstance(item, Delta)]


async def test_a_replay_in_lanes_ends_and_what_is_behind_it_follows(tmp_path: Path) -> None:
    sink = RecordingSink()
    async with bench(tmp_path, retention=RETAINED) as it:
        await it.change("added a", "added b", "updated a")
        settings = WorkerSettings(
            save_pause=never_gone,
            name="one",
            make_sink=lambda: sink,
            pending=it.feeds["one"],
            dead_letters=it.outbox.sinks.dead_letters["one"],
            report=discard,
            now=lambda: "2026-11-21T08:30:00.000001Z",
            max_batch=2,
        )
        worker = LaneWorker(settings, Lanes(concurrency=4))
        async with asyncio.timeout(10 * BUSY), asyncio.TaskGroup() as tasks:
            working = tasks.create_task(worker.run())
            await worker.wait_idle()
            await it.feeds["one"].replay(1, None, None)
            await it.change("updated b")
            await sink.until(lambda sink: len(sink.records) == 7)
            await worker.wait_idle()
            assert it.outbox.sinks.backlog_records("one") == 0
            working.cancel()
    assert sorted(sink.delivered()[3:6]) == ["added shop/a", "added shop/b", "updated shop/a"]
    assert sink.delivered()[6:] == ["updated shop/b"]
