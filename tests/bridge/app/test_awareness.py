"""What a sink asks to be reminded of, and what it learns beside its records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from bridge.app.awareness import AwareSinks, Watched
from bridge.app.stream import SinkStream
from bridge.model.record import Record
from bridge.model.resource import Resource
from bridge.outbox import Outbox
from bridge.processor.shared_processor import SharedProcessor
from sinks.base import Receipt
from tests.bridge.outbox.opened import crashed, opened
from tests.kit.informed import Informed
from tests.kit.records import PODS
from tests.kit.sinks import RecordingSink


class Counting(RecordingSink):
    """Asks to be reminded of how many records it was ever given."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = b""
        self.watched: Callable[[], Sequence[Resource] | None] = tuple

    async def deliver(self, batch: Sequence[Record]) -> Receipt:
        receipt = await super().deliver(batch)
        self.memory = b"%d" % (int(self.memory or b"0") + len(batch))
        return receipt


def ends(outbox: Outbox, watched: Watched | None = None) -> tuple[AwareSinks, SinkStream]:
    processor = SharedProcessor[Record](outbox, audience=lambda record: getattr(record, "audience", None))
    outbox.committed = processor.distribute
    cursor = outbox.sinks["audit"]
    sinks = AwareSinks(Counting, cursor, watched or Watched())
    return sinks, SinkStream("audit", processor.add("audit", after=cursor.settled), outbox.sinks, sinks.memory)


async def test_a_memory_is_that_of_what_was_settled_whenever_the_bridge_is_killed(tmp_path: Path) -> None:
    """What is given again after a crash was not remembered: so nothing is counted twice, and nothing left out."""
    async with opened(tmp_path) as outbox:
        informer = await Informed().begin(outbox)
        await informer.tells(outbox, *(f"added shop/p{n}" for n in range(10)))
        sinks, stream = ends(outbox)
        sink = sinks.make()
        left = []
        for step in range(3):
            taken = await stream.take(3)
            await sink.deliver(taken.items)
            stream.settle(taken)
            taken = await stream.take(1)
            await sink.deliver(taken.items)
            await outbox.tidy()  # The last record was delivered and is not settled.
            left.append(crashed(tmp_path, tmp_path / f"left-{step}"))
            stream.settle(taken)
            if step == 1:
                break
    for step, copy in enumerate(left):
        async with opened(copy) as outbox:
            sinks, stream = ends(outbox)
            sink = sinks.make()
            assert isinstance(sink, Counting)
            before = int(sink.memory)
            while not stream.exhausted:
                taken = await stream.take(100)
                await sink.deliver(taken.items)
                stream.settle(taken)
            assert (before, sink.memory) == (3 + 4 * step, b"10")


async def test_a_sink_that_is_made_anew_has_the_memory_of_the_one_before(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        sinks, _ = ends(outbox)
        assert sinks.memory() == b""
        first = sinks.make()
        assert isinstance(first, Counting)
        outbox.sinks.remember("audit", b"5")
        again = sinks.make()
        assert isinstance(again, Counting)
        assert (again.memory, sinks.memory()) == (b"5", b"5")


async def test_what_is_watched_is_not_known_before_discovery_has_answered(tmp_path: Path) -> None:
    watched = Watched()
    async with opened(tmp_path) as outbox:
        sink = ends(outbox, watched)[0].make()
        assert isinstance(sink, Counting)
        assert sink.watched() is None
        watched.become([PODS])
        assert sink.watched() == (PODS,)
