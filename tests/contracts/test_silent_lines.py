"""Networks that say nothing, or something else, where a destination should be: no call waits for ever."""

from __future__ import annotations

import asyncio

import pytest

from sinks.base import Sink, SinkContext, SinkUnavailable
from tests.contracts.conftest import ONE_WAY_EACH
from tests.contracts.destinations import Destination
from tests.contracts.rules import (
    CLOSES_IN,
    TIMELY,
    Results,
    assert_holds,
    deliver,
    deliver_all,
    repeats,
    say,
    the_loop_is_free,
)
from tests.kit.records import changes
from tests.kit.tcp_line import Line

pytestmark = pytest.mark.parametrize("kind", ONE_WAY_EACH, indirect=True)


async def test_silence_is_a_failure_in_time_and_then_all_goes_on(destination: Destination, line: Line) -> None:
    sent = changes(120, keys=8)
    results = Results()
    async with destination.opened() as sink, the_loop_is_free():
        await deliver_all(sink, sent[:40], 40, results)
        line.block()
        first = await deliver(sink, sent[40:80], results)
        second = await deliver(sink, first, results)
        line.mend()
        await deliver_all(sink, second, 40, results)
        await deliver_all(sink, sent[80:], 40, results)
    found = await destination.stored()

    assert first == second == sent[40:80]
    assert len(results.failures) >= 2
    assert_holds(found, sent, results.stored)
    say(destination.way, "silence", found, results)
    assert not destination.stores_once or repeats(found) == 0


async def test_no_call_waits_for_ever_on_a_line_silent_from_the_start(destination: Destination, line: Line) -> None:
    line.block()
    async with the_loop_is_free():
        sink = destination.sink()
        await _opened_or_refused(destination, sink)
        await asyncio.wait_for(sink.close(), CLOSES_IN)
        sink = destination.sink()
        with pytest.raises(SinkUnavailable):
            await asyncio.wait_for(sink.check(), TIMELY)
        await asyncio.wait_for(sink.close(), CLOSES_IN)


@pytest.mark.parametrize("during", ["open", "deliver", "check"])
async def test_on_a_silent_line_cancelling_ends_and_close_works(
    destination: Destination, line: Line, during: str
) -> None:
    sink = destination.sink()
    if during == "deliver":
        await sink.open(SinkContext())
    line.block()
    async with the_loop_is_free():
        task = asyncio.get_running_loop().create_task(_call(sink, during))
        await asyncio.wait({task}, timeout=0.2)
        task.cancel()
        await asyncio.wait({task}, timeout=CLOSES_IN)
        assert task.done()
        await asyncio.wait_for(sink.close(), CLOSES_IN)
        line.mend()

    async with destination.opened() as sink:
        await deliver_all(sink, changes(5), 5)


async def test_pending_records_of_an_ended_sink_go_through_the_next(destination: Destination, line: Line) -> None:
    sent = changes(200)
    results = Results()
    async with destination.opened() as sink, the_loop_is_free():
        await deliver_all(sink, sent[:100], 100, results)
        line.refusing = True
        line.cut()
        left = await deliver(sink, sent[100:], results)
        await asyncio.wait_for(sink.close(), CLOSES_IN)
    assert left == sent[100:]
    unreachable = destination.sink()
    with pytest.raises(SinkUnavailable):
        await asyncio.wait_for(unreachable.check(), TIMELY)
    await unreachable.close()
    line.refusing = False
    async with destination.opened() as sink:
        await deliver_all(sink, left, 100, results)
    found = await destination.stored()

    assert_holds(found, sent, results.stored)
    late = {record.id for record in left} if not destination.stores_once else results.stored
    assert repeats(each for each in found if each.id in late) == 0


@pytest.mark.parametrize("words", [b"SSH-2.0-OpenSSH_9.2\r\n", b""])
async def test_who_speaks_another_language_is_not_the_destination(destination: Destination, words: bytes) -> None:
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(words)
        writer.close()

    server = await asyncio.start_server(speak, "127.0.0.1", 0)
    async with server, the_loop_is_free():
        elsewhere = destination.at(server.sockets[0].getsockname()[1])
        sink = destination.sink(**elsewhere)
        await _opened_or_refused(destination, sink)
        await asyncio.wait_for(sink.close(), CLOSES_IN)


async def _opened_or_refused(destination: Destination, sink: Sink) -> None:
    if destination.kind == "webhook":  # It knows only when it posts.
        await sink.open(SinkContext())
        assert await deliver(sink, changes(5)) == changes(5)
    else:
        with pytest.raises(SinkUnavailable):
            await asyncio.wait_for(sink.open(SinkContext()), TIMELY)


async def _call(sink: Sink, what: str) -> None:
    match what:
        case "open":
            await sink.open(SinkContext())
        case "check":
            await sink.check()
        case _:
            await sink.deliver(changes(40))
