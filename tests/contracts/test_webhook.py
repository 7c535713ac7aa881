"""What only an operator of an endpoint can do to a sink."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bridge.delivery import LaneWorker, WorkerSettings
from bridge.model.record import Record
from bridge.model.status import PauseCause, SinkState
from bridge.telemetry.facts import discard
from sinks import registry
from sinks.base import SinkUnavailable
from tests.bridge.delivery.fakes import FakeDeadLetters, FakeFeed
from tests.bridge.delivery.world import never_gone
from tests.contracts.destinations import AnEndpoint
from tests.contracts.rules import Results, assert_holds, deliver
from tests.kit.deadlines import BUSY
from tests.kit.records import changes
from tests.kit.sinks import ALONE
from tests.kit.webhook_receiver import ACCEPTED, Answer, Posted


@pytest.fixture
async def endpoint() -> AsyncIterator[AnEndpoint]:
    endpoint = AnEndpoint()
    await endpoint.prepare(None)
    yield endpoint
    await endpoint.remove()


def a_worker(endpoint: AnEndpoint, sent: Sequence[Record], letters: FakeDeadLetters, **settings: Any) -> LaneWorker:
    """With the lanes that the sink's type asks for."""
    kind = registry.types()["webhook"]
    lanes = kind.lanes(kind.options.model_validate(endpoint.options()))
    assert lanes is not None
    make_sink, feed = partial(endpoint.sink, **endpoint.patience), FakeFeed(sent).as_feed
    known: dict[str, Any] = {"name": "hook", "report": discard, "now": str, "max_batch": kind.max_batch, **settings}
    stored = letters.as_dead_letters
    return LaneWorker(WorkerSettings(make_sink=make_sink, pending=feed, dead_letters=stored, **known), lanes)


@pytest.mark.parametrize("batch", [1, 10])
async def test_in_the_bridge_one_failing_object_blocks_no_other(batch: int) -> None:
    endpoint = AnEndpoint(batch=batch)
    await endpoint.prepare(None)
    sent = changes(600, keys=12)
    bad = next(record for record in sent if record.sequence == 5)
    fails, others, goal = 0, 0, 0

    def answer(posted: Posted) -> Answer:
        """The bad object fails until 150 more of the others are there."""
        nonlocal fails, others, goal
        if (not fails or others < goal) and any(event["id"] == bad.id for event in posted.events):
            goal = goal or others + 150
            fails += 1
            return Answer(500)
        others += len(posted.events)
        return ACCEPTED

    endpoint.receiver.answer = answer
    worker = a_worker(endpoint, sent, FakeDeadLetters(), save_pause=never_gone, jitter=lambda: 0.99)
    async with asyncio.timeout(30 * BUSY), asyncio.TaskGroup() as group:
        running = group.create_task(worker.run())
        await worker.wait_idle()
        running.cancel()
    found = await endpoint.stored()
    await endpoint.remove()

    assert fails > 0
    assert_holds(found, sent, {record.id for record in sent})
    assert len(found) == len(sent)
    assert [record.id for record in found].index(bad.id) >= 150, "others went on while it waited"


@pytest.mark.parametrize("batch", [1, 10])
async def test_in_the_bridge_a_410_ends_the_deliveries(batch: int) -> None:
    """Until an operator resumes the sink; then every record comes, in its order."""
    endpoint = AnEndpoint(batch=batch)
    await endpoint.prepare(None)
    sent, gone, saved = changes(300, keys=12), False, 0

    def answer(posted: Posted) -> Answer:
        nonlocal gone
        gone = gone or (saved == 0 and len(endpoint.receiver.accepted) >= 12)
        return Answer(410) if gone else ACCEPTED

    async def save_gone(_cause: PauseCause) -> None:
        nonlocal saved
        saved += 1

    endpoint.receiver.answer = answer
    letters = FakeDeadLetters()
    worker = a_worker(endpoint, sent, letters, save_pause=save_gone)
    async with asyncio.timeout(30 * BUSY), asyncio.TaskGroup() as group:
        running = group.create_task(worker.run())
        while worker.state is not SinkState.GONE:  # noqa: ASYNC110 (a state is not announced)
            await asyncio.sleep(0.001)
        asked = len(endpoint.receiver.asked)
        worker.retry_now()
        for _ in range(100):
            await asyncio.sleep(0)
        assert len(endpoint.receiver.asked) == asked, "it is left alone"
        assert "answers 410: it is gone for good" in (worker.last_error or "")
        gone = False
        worker.resume()
        await worker.wait_idle()
        running.cancel()
    found = await endpoint.stored()
    await endpoint.remove()

    assert (saved, letters.kept) == (1, {})
    assert_holds(found, sent, {record.id for record in sent})
    assert len(found) == len(sent)


@pytest.mark.parametrize("secret", ["Bearer hush\nBearer hush", "Bearer hüsh", "Bearer hush\x00"])
async def test_a_secret_that_is_no_header_fails_without_its_text(
    endpoint: AnEndpoint, tmp_path: Path, secret: str
) -> None:
    file = tmp_path / "token"
    file.write_text("Bearer hush")
    results = Results()
    async with endpoint.opened(header_files={"Authorization": file}) as sink:
        assert await deliver(sink, changes(3), results) == []
        file.write_text(secret)
        assert await deliver(sink, changes(3, first=4), results) == changes(3, first=4)
        file.write_text("Bearer hush")
        assert await deliver(sink, changes(3, first=4), results) == []

    assert results.failures == [f"header_files.Authorization: {file} is not one line of printable ASCII"]
    file.write_text(secret)
    sink = endpoint.sink(header_files={"Authorization": file})
    with pytest.raises(SinkUnavailable, match=r"header_files.Authorization: .* is not one line"):
        await sink.open(ALONE)
    await sink.close()
    with pytest.raises(SinkUnavailable, match=r"header_files.Authorization: .* is not one line"):
        await endpoint.sink(header_files={"Authorization": file}).check()


async def test_an_address_that_the_client_cannot_use_is_unavailable(endpoint: AnEndpoint) -> None:
    url = {"url": "http://xn--/"}
    results = Results()
    async with endpoint.opened(**url) as sink:
        assert await deliver(sink, changes(3), results) == changes(3)
    sink = endpoint.sink(**url)
    with pytest.raises(SinkUnavailable, match="is no address that can be asked; see url"):
        await sink.check()
    await sink.close()

    assert results.failures == ["http://xn-- is no address that can be asked; see url"]
