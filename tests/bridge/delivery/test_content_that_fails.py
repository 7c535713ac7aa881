"""Whatever the content of a record raises, that record becomes a dead letter, and its neighbours arrive."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pytest
from msgspec.structs import replace

from bridge.delivery.sink_pipeline import ContentThread
from bridge.model.formats.content import Content, Include
from bridge.model.record import Delta, Record
from bridge.telemetry.facts.delivery import RecordRejected
from bridge.views.content_maker import ContentMaker, RecentValues, RecordValues, SinkContent
from sinks.base import BatchResult, Lanes, Receipt
from tests.bridge.delivery.fakes import ScriptedSink, named, pods
from tests.bridge.delivery.test_transaction_worker import Transactions
from tests.bridge.delivery.world import World, virtual

ERRORS = [ValueError("of shop/b"), RecursionError("hunter2"), MemoryError(), KeyError("hunter2"), AssertionError()]


class Encoding(ScriptedSink):
    """A sink that encodes the content."""

    def __init__(self, raises: BaseException | None = None) -> None:
        super().__init__()
        self._raises = raises

    async def deliver(self, batch: Sequence[Record]) -> Receipt:
        result = BatchResult(batch)
        forms = result.encode(self._encode)
        self.stored += [batch[index] for index in forms]
        return result.receipt()

    def _encode(self, record: Record) -> object:
        if self._raises is None:
            return record.made if isinstance(record, Delta) else None
        if is_bad(record):
            raise self._raises
        return record


class BadValues(RecentValues):
    def __init__(self, error: BaseException) -> None:
        super().__init__("prod", (), (), shared=False)
        self._error = error

    def of(self, delta: Delta) -> RecordValues:
        if is_bad(delta):
            raise self._error
        return super().of(delta)


def is_bad(record: Record) -> bool:
    return isinstance(record, Delta) and record.key == "shop/b"


def world_of(kind: str, sink: ScriptedSink) -> World:
    records = pods("abcbd")
    match kind:
        case "worker":
            return World(sink, records)
        case "lanes":
            return World(sink, records, lanes=Lanes(concurrency=3))
        case "shared lanes":
            return World(sink, records, lanes=Lanes(concurrency=2, batch=3))
        case _:
            return Transactions(sink, records)


KINDS = pytest.mark.parametrize("kind", ["worker", "lanes", "shared lanes", "transactions"])


@KINDS
@pytest.mark.parametrize("error", ERRORS, ids=repr)
@virtual
async def test_what_making_raises_is_one_records_dead_letter(kind: str, error: Exception) -> None:
    world = world_of(kind, Encoding())
    content = SinkContent((), frozenset({Include.CHANGED}))
    made = partial(ContentThread(world.facts.append).made, "audit", ContentMaker(content, BadValues(error)))
    world._settings = replace(world._settings, make_content=made)
    await judged(world, f"include: the content cannot be made: {type(error).__name__}")


@KINDS
@pytest.mark.parametrize("error", ERRORS, ids=repr)
@virtual
async def test_what_encoding_raises_is_one_records_dead_letter(kind: str, error: Exception) -> None:
    reason = str(error) if isinstance(error, ValueError) else f"it cannot be encoded: {type(error).__name__}"
    await judged(world_of(kind, Encoding(error)), reason)


@KINDS
@virtual
async def test_a_record_that_cannot_be_redacted_is_one_dead_letter(kind: str) -> None:
    world = world_of(kind, Encoding(AssertionError("no sink sees the record")))
    unfit = Content(failure="redact: redaction fails: KeyError")
    world.pending.records = [
        replace(each, content=unfit) if isinstance(each, Delta) and is_bad(each) and each.sequence == 2 else each
        for each in world.pending.records
    ]
    world._settings = replace(world._settings, redacts=True)
    await judged(world, "redact: redaction fails: KeyError")
    [rejected] = world.reported(RecordRejected)
    assert (rejected.sink, rejected.resource, rejected.key, rejected.number) == ("audit", "pods", "shop/b", 1)
    assert world.worker.rejected == 1


async def judged(world: World, reason: str) -> None:
    async with world.running() as worker:
        await worker.wait_idle()
    assert sorted(named(world.sink.stored)) == ["a1", "c3", "d5"]
    letters = sorted(world.dead_letters.added, key=lambda each: each.record.sequence)
    assert [(*named([each.record]), each.parked) for each in letters] == [("b2", False), ("b4", True)]
    assert letters[0].reason == reason
