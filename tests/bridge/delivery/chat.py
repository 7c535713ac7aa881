"""Starts of a bridge with one sink, chat, that has a selection; without an API server and without a destination."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from bridge.delivery.selecting import Selecting
from bridge.delivery.sink_feed import SinkFeed
from bridge.kube import Catalogue
from bridge.model.change import Change, ChangeBatch, Evidence, ObjectVersion, Op
from bridge.model.object import ApiObject
from bridge.model.policies import StartPolicy
from bridge.model.record import Delta
from bridge.model.resource import Scope
from bridge.outbox import Outbox, Retention
from bridge.plan.entries import Resolution
from bridge.plan.plan import SinkPlan
from bridge.telemetry.facts import Fact
from bridge.views.selection import SelectorText
from tests.kit.pipelines import opened_feeds, without_worker
from tests.kit.records import PODS
from tests.kit.sinks import RecordingSink

SCOPE = Scope()
RESOLUTION = Resolution({("pods", SCOPE): PODS}, {}, {})
BIG = (SelectorText(resource="pods", where="object.spec.n > 5"),)
EVERY = (SelectorText(resource="pods"),)


@asynccontextmanager
async def started(
    directory: Path,
    select: Sequence[SelectorText] | None,
    facts: list[Fact] | None = None,
    *,
    start: StartPolicy = StartPolicy.NOW,
    retained: int = 1 << 30,
) -> AsyncIterator[tuple[Outbox, SinkFeed]]:
    """A start with the sink, or without it: then the feed belongs to the sink "other", which gets everything. Raises
    PlanRefused. ``retained``: bytes of settled records."""
    name = "other" if select is None else "chat"
    plan = SinkPlan(name=name, type="fake", make=RecordingSink, max_batch=10, select=tuple(select) if select else None)
    report = (facts if facts is not None else []).append
    feeds = await opened_feeds(
        directory,
        {name: start},
        selecting=["chat"] if select else [],
        report=report,
        retention=Retention(retain_bytes=retained),
    )
    async with feeds.outbox as outbox:
        feed = feeds.feed(name)
        pipelines = {name: without_worker(plan, feed, outbox)}
        await Selecting(pipelines, "test", outbox.selections, report).prepare(Catalogue(), RESOLUTION)
        await outbox.ledger.adopt(PODS, [SCOPE])
        yield outbox, feed


async def put(outbox: Outbox, *numbers: int, padding: int = 0) -> None:
    """New objects, named by their numbers."""
    await change(outbox, *((str(number), number) for number in numbers), padding=padding)


async def change(outbox: Outbox, *numbers: tuple[str, int], padding: int = 0) -> None:
    """Gives objects these numbers, each in a batch of its own."""
    for name, number in numbers:
        known = (await outbox.ledger.adopt(PODS, [SCOPE]))[0][SCOPE]
        before: ObjectVersion | None = None if known is None else known.objects.get(f"shop/{name}")
        body = msgspec.json.encode({"spec": {"n": number, "text": "x" * padding}})
        thing = ApiObject(f"shop/{name}", f"uid-{name}", str(outbox.last + 1), body)
        op = Op.ADDED if before is None else Op.UPDATED
        changes = [Change(op, Evidence.WATCHED, thing, before)]
        await outbox.append(ChangeBatch(PODS, SCOPE, changes, thing.resource_version))


async def taken(feed: SinkFeed) -> list[str]:
    """What the sink gets now, such as "added 1"."""
    found: list[str] = []
    while not feed.exhausted:
        fetch = await feed.take(100)
        found += [f"{each.op} {each.key.removeprefix('shop/')}" for each in fetch.items if isinstance(each, Delta)]
        feed.settle(fetch)
    return found
