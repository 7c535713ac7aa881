"""People watch what a running bridge commits."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack, aclosing
from functools import partial
from typing import Any

import pytest

from bridge.app.admin.client import AdminClient
from bridge.delivery import live_tail
from bridge.model.admin import SnapshotRequest, UnknownTarget
from bridge.model.formats.cloudevent import CloudEvents
from bridge.model.formats.envelope import Envelopes
from bridge.model.policies import RedactionMode, RedactionRule
from bridge.model.primitives.field_path import FieldPath
from bridge.views.selection import SelectorText
from tests.bridge.app.test_bridge import running
from tests.kit.bridges import World, a_config_map
from tests.kit.deadlines import until
from tests.kit.sinks import RecordingSink, StuckSink

SECRET = RedactionRule((FieldPath.parsed("data.value"),), RedactionMode.REMOVE)


class Follower:
    """Takes events one by one, through the admin socket."""

    def __init__(self, admin: AdminClient, sink: str | None = None) -> None:
        self.answers = admin.follow(sink)
        self.events: list[dict[str, Any]] = []
        self.dropped = 0
        self.rejected: list[str] = []

    async def begin(self) -> None:
        assert not (await anext(self.answers)).records, "it begins before any record"

    async def event(self) -> dict[str, Any]:
        while not self.events:
            answer = await anext(self.answers)
            self.events += [json.loads(bytes(each)) for each in answer.records]
            self.dropped += answer.dropped
            self.rejected += answer.rejected
        return self.events.pop(0)


class Watched(AsyncExitStack):
    """Followers of a bridge, until the block ends."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._state = world.bridge._plan.state

    async def following(self, sink: str | None = None) -> Follower:
        admin = await self.enter_async_context(AdminClient(self._state))
        follower = Follower(admin, sink)
        await self.enter_async_context(aclosing(follower.answers))
        await follower.begin()
        return follower


async def test_commits_come_while_the_destination_is_away() -> None:
    async with running(StuckSink()) as world:
        await world.until_ready()
        async with Watched(world) as watched:
            follower = await watched.following()
            world.cluster.create("configmaps", a_config_map("a"))
            event = await follower.event()
    assert (event["op"], event["data"]["metadata"]["name"]) == ("added", "a")


async def test_a_sink_is_followed_in_its_own_form() -> None:
    options = {
        "sink-1": {
            "redact": (SECRET,),
            "select": (SelectorText(resource="configmaps", namespaces=("shop",)),),
            "events": partial(CloudEvents, "test", Envelopes("test")),
        }
    }
    async with running(RecordingSink(), RecordingSink(), options=options) as world:
        await world.until_ready()
        async with Watched(world) as watched:
            every, mine = await watched.following(), await watched.following("sink-1")
            world.cluster.create("configmaps", a_config_map("a"))
            world.cluster.create("configmaps", a_config_map("b", namespace="shop"))
            assert [(await every.event())["data"]["data"]["value"] for _ in range(2)] == ["1", "1"]
            envelope = await mine.event()
    assert envelope["type"] == "kubedelta.envelope.added.v1"
    assert envelope["data"]["source"]["namespace"] == "shop"
    assert "value" not in json.dumps(envelope["data"]["after"]["data"])


async def test_a_sinks_follower_sees_its_snapshot_and_no_others() -> None:
    view = {"select": (SelectorText(resource="configmaps", namespaces=("shop",)),), "redact": (SECRET,)}
    async with running(RecordingSink(), RecordingSink(), options={"sink-0": view}) as world:
        await world.until_ready()
        world.cluster.create("configmaps", a_config_map("a"))
        world.cluster.create("configmaps", a_config_map("b", namespace="shop"))
        await until(lambda: [each.delivered for each in world.bridge.status().sinks] == [1, 2])
        async with Watched(world) as watched:
            mine, every = await watched.following("sink-0"), await watched.following()
            async with AdminClient(world.bridge._plan.state) as admin:
                for sink in ("sink-1", "sink-0"):
                    await admin.snapshot(SnapshotRequest(sink))
            events = [await mine.event() for _ in range(3)]
            world.cluster.create("configmaps", a_config_map("c"))
            assert (await every.event())["data"]["metadata"]["name"] == "c"
    types = [each["type"].removeprefix("kubedelta.").removesuffix(".v1") for each in events]
    assert types == ["snapshot.began", "object.sync", "snapshot.ended"]
    assert events[1]["data"]["metadata"]["name"] == "b"
    assert "value" not in events[1]["data"]["data"]
    assert events[0]["data"]["sink"] == "sink-0"


async def test_a_slow_follower_misses_records_and_delays_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_tail, "_WAITING", 5)
    sink = RecordingSink()
    async with running(sink) as world:
        await world.until_ready()
        async with Watched(world) as watched:
            follower = await watched.following()
            names = [f"{number:04}-{'x' * 200}" for number in range(500)]
            for start in range(0, 500, 100):
                for name in names[start : start + 100]:
                    world.cluster.create("configmaps", a_config_map(name))
                await sink.until(lambda sink, count=start + 100: len(sink.delivered()) >= count)  # type: ignore[misc]
            seen = 0
            while seen + follower.dropped < 500:
                await follower.event()
                seen += 1
                if not follower.events and seen + follower.dropped < 500 and follower.dropped:
                    answer = await anext(follower.answers)
                    follower.dropped += answer.dropped
                    follower.events += [json.loads(bytes(each)) for each in answer.records]
    assert seen + follower.dropped == 500


async def test_followers_are_bounded_and_sinks_are_known() -> None:
    async with running(RecordingSink()) as world:
        await world.until_ready()
        async with Watched(world) as watched:
            with pytest.raises(UnknownTarget, match="there are: sink-0"):
                await watched.following("nobody")
            for _ in range(live_tail.MOST_FOLLOWERS):
                await watched.following()
            with pytest.raises(UnknownTarget, match="end one of them"):
                await watched.following()


async def test_the_end_of_the_bridge_ends_them_at_once() -> None:
    async with AsyncExitStack() as stack, running(RecordingSink()) as world:
        await world.until_ready()
        follower = await stack.enter_async_context(Watched(world))
        one = await follower.following()
        world.bridge.stop()
        assert [answer async for answer in one.answers if answer.records] == []
