"""A part of the destination that takes no records holds up the records of its objects alone."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from bridge.delivery import worker as worker_module
from bridge.model.record import Delta, Record
from bridge.telemetry.facts.delivery import CircuitOpened
from sinks.base import ALL_STORED, Receipt, RetryLater
from tests.bridge.delivery.fakes import ScriptedSink, pods
from tests.bridge.delivery.world import World, virtual
from tests.kit.records import a_snapshot

CLOSED = RetryLater("topic x: not authorized", partly=True)


class TwoTopics(ScriptedSink):
    """Objects whose key ends in x are of a topic that takes nothing while it is ``closed``."""

    def __init__(self) -> None:
        super().__init__()
        self.closed = True
        self.answer = self._answer

    def _answer(self, batch: Sequence[Record]) -> Receipt:
        refused = [n for n, each in enumerate(batch) if self.closed and isinstance(each, Delta) and each.key[-1] == "x"]
        return Receipt(refused, CLOSED) if refused else ALL_STORED

    @property
    def names(self) -> list[str]:
        """Of the stored records."""
        return ["notice" if not isinstance(each, Delta) else f"{each.key[-1]}{each.sequence}" for each in self.stored]


@virtual
async def test_records_of_other_objects_go_past() -> None:
    sink = TwoTopics()
    world = World(sink, pods("axbxcd" * 20), max_batch=5)
    async with world.running() as worker:
        await world.until(lambda: len(sink.stored) == 80)
        assert not any(name.startswith("x") for name in sink.names)
        assert world.pending.settled < 3, "the first one that waits, and all behind it, come again after a crash"
        assert worker.last_error == "topic x: not authorized"
        sink.closed = False
        await worker.wait_idle()

    assert world.pending.settled == 120
    assert world.worker.last_error is None
    assert world.reported(CircuitOpened) == []
    for key in "abcdx":
        of_key = [int(name[1:]) for name in sink.names if name[0] == key]
        assert of_key == sorted(of_key)
        assert len(of_key) == (40 if key == "x" else 20)


@virtual
async def test_a_notice_waits_for_all_records_in_front_of_it() -> None:
    sink = TwoTopics()
    world = World(sink, [*pods("ax"), a_snapshot(through=2), *pods("abcd")[2:]], max_batch=10)
    async with world.running() as worker:
        await world.until(lambda: len(sink.batches) > 5)
        assert sink.names == ["a1"]
        sink.closed = False
        await worker.wait_idle()

    assert sink.names == ["a1", "x2", "notice", "c3", "d4"]


@pytest.mark.parametrize("bound", ["MOST_RECORDS", "MOST_BEHIND"])
@virtual
async def test_so_many_wait_or_go_past_at_most(monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    monkeypatch.setattr(worker_module, bound, 8)
    sink = TwoTopics()
    world = World(sink, pods("ax" * 100), max_batch=4)
    async with world.running() as worker:
        await world.until(lambda: len(sink.batches) > 40)
        assert len(sink.stored) <= 12
        sink.closed = False
        await worker.wait_idle()

    assert len(sink.stored) == 200


@virtual
async def test_an_object_with_many_records_keeps_their_order() -> None:
    sink = TwoTopics()
    world = World(sink, pods("x" * 50 + "a" * 3), max_batch=7)
    async with world.running() as worker:
        await world.until(lambda: len(sink.stored) == 3)
        sink.closed = False
        await worker.wait_idle()

    assert sink.names[3:] == [f"x{number}" for number in range(1, 51)]
    assert max(map(len, sink.batches)) <= 7
