"""The event stream of a viewer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import aiohttp
import pytest
from msgspec.structs import replace

from bridge.app.page import viewers as room
from bridge.app.page.picture import MOST, BacklogHistory, Rates
from bridge.app.page.viewers import MOST_BODY, MOST_LINES, Viewer
from bridge.http import listener as connections
from bridge.model.record import Delta, Record
from bridge.model.status import BridgeStatus, SinkState
from bridge.telemetry.facts.process import ConnectionCut, CutReason, PageFailed
from tests.bridge.app.page.page import BEARER, HOOK, ABridge, APage, AViewer, a_page
from tests.kit.deadlines import BUSY, until
from tests.kit.records import a_delta


async def gone(page: APage) -> None:
    """Returns when no viewer is left."""
    await until(lambda: not len(page.server.viewers) and not page.bridge.processor.receivers)


@asynccontextmanager
async def tailing(page: APage, query: str = "?sink=hook") -> AsyncIterator[AViewer]:
    """A viewer who gets all records from now on."""
    async with page.looking(query) as viewer:
        await viewer.next("picture")
        await until(lambda: page.bridge.processor.receivers)
        yield viewer


async def test_a_viewer_sees_the_state_and_the_history(open_page: APage) -> None:
    page = open_page
    page.bridge.now = replace(page.bridge.now, sinks=(replace(HOOK, backlog_records=7, dead_letters=2),))

    async with page.looking() as viewer:
        hello = await viewer.next("hello")
        history = await viewer.next("history")
        picture = await viewer.next("picture")

    assert (hello["cluster"], hello["may_change"]) == ("test", False)
    assert history["records"].keys() == {"hook"}
    assert picture["ready"]
    assert [each["status"]["resource"] for each in picture["resources"]] == ["pods"]
    sink = picture["sinks"][0]
    assert (sink["status"]["backlog_records"], sink["status"]["dead_letters"], sink["well"]) == (7, 2, False)


async def test_the_holder_of_the_token_may_change(page: APage) -> None:
    async with page.looking(**BEARER) as viewer:
        hello = await viewer.next("hello")

    assert hello["may_change"]
    assert "/v1/replay" in hello["commands"]


async def test_rates_follow_the_records(open_page: APage) -> None:
    bridge = open_page.bridge
    async with open_page.looking() as viewer:
        await viewer.next("picture")
        bridge.commit("shop/web", "shop/db")
        bridge.now = replace(bridge.now, sinks=(replace(HOOK, delivered=2),))
        async with asyncio.timeout(10 * BUSY):
            while not (picture := await viewer.next("picture"))["rates"]["pods"]:
                pass

    assert picture["sinks"][0]["rate"] > 0


async def test_nothing_happens_while_nobody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "EVERY", 3600.0)
    async with a_page() as page:
        bridge = page.bridge
        await until(lambda: bridge.looks)
        tasks = asyncio.all_tasks()
        assert (bridge.looks, bridge.processor.receivers) == (1, [])  # The first sample of the backlogs.

        async with tailing(page):
            assert len(asyncio.all_tasks()) > len(tasks)
        await gone(page)

        await until(lambda: asyncio.all_tasks() == tasks)
        assert bridge.processor.receivers == []


async def test_the_tail_has_the_chosen_records(open_page: APage) -> None:
    async with tailing(open_page, "?sink=hook&resource=pod&namespace=shop&name=we") as viewer:
        open_page.bridge.commit("shop/web", "shop/db", "other/web", body=b'{"kind":"Pod","x":"' + b"y" * 9000 + b'"}')
        tail = await viewer.next("tail")

    [line] = tail["lines"]
    assert (line["sequence"], line["resource"], line["namespace"], line["name"]) == (1, "pods", "shop", "web")
    assert (line["op"], line["evidence"], line["bytes"]) == ("updated", "watched", 9021)
    assert len(line["body"]) == MOST_BODY
    assert tail["dropped"] == 0


async def test_the_tail_has_the_form_of_the_sink(open_page: APage) -> None:
    """Selection and redaction of the sink come first."""

    def form(record: Record) -> Record | None:
        assert isinstance(record, Delta)
        return replace(record, body=b'"redacted"') if record.key == "shop/web" else None

    open_page.bridge.forms["hook"] = form

    async with tailing(open_page) as viewer:
        open_page.bridge.commit("shop/secret", "shop/web")
        tail = await viewer.next("tail")

    assert [(line["name"], line["body"]) for line in tail["lines"]] == [("web", '"redacted"')]


async def test_markup_in_a_record_stays_text(open_page: APage) -> None:
    """A line break would begin another event."""
    async with tailing(open_page) as viewer:
        open_page.bridge.commit("shop/web", body=b'{"a":"\\n\\ndata: x"}\n\nevent: hello\n\n\xff')
        tail = await viewer.next("tail")

    assert tail["lines"][0]["body"] == '{"a":"\\n\\ndata: x"}\n\nevent: hello\n\n\ufffd'


@pytest.mark.parametrize("query", ["?sink=hook&more=1", "?sink=hook&sequence=1"])
async def test_an_unknown_filter_is_refused(open_page: APage, query: str) -> None:
    assert (await open_page.ask("GET", f"/v1/events{query}"))[0] == 400


async def test_the_number_of_viewers_is_bounded() -> None:
    async with a_page(most_viewers=1) as page:
        async with page.looking():
            status, text, headers = await page.ask("GET", "/v1/events")
            assert (status, text) == (503, "1 viewers look at the page already\n")
            assert headers["Retry-After"]
        await gone(page)
        async with page.looking() as viewer:
            await viewer.next("picture")


async def test_a_stream_ends_after_its_time(open_page: APage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "LONGEST", 0.3)
    async with open_page.looking() as viewer:
        with pytest.raises(EOFError):
            await viewer.next("never")
    await gone(open_page)


async def test_streams_end_with_the_bridge(open_page: APage) -> None:
    async with open_page.looking() as viewer:
        await viewer.next("picture")
        open_page.server.viewers.end()
        with pytest.raises(EOFError):
            await viewer.next("never")


def test_a_slow_viewer_drops_records_and_counts_them() -> None:
    viewer = Viewer(None)
    for number in range(MOST_LINES + 5):
        viewer.add(a_delta(number + 1))
    viewer.drop(10)

    text = viewer.take()
    assert b'"dropped":15,' in text
    assert text.count(b'"sequence"') == MOST_LINES
    assert viewer.take() == b""


def test_large_records_for_a_slow_viewer_are_bounded() -> None:
    viewer = Viewer(None)
    for number in range(MOST_LINES):
        viewer.add(a_delta(number + 1, body=b"x" * 100_000))
    assert len(viewer.take()) < room.MOST_BYTES + 2 * MOST_BODY


async def test_a_tail_that_falls_behind_counts_what_it_lost(open_page: APage) -> None:
    async with tailing(open_page) as viewer:
        for _ in range(3):  # Within one turn of the event loop.
            open_page.bridge.commit(*["shop/web"] * 1500)
        tails = [await viewer.next("tail")]
        async with asyncio.timeout(10 * BUSY):
            while sum(tail["dropped"] + len(tail["lines"]) for tail in tails) < 4500:
                tails.append(await viewer.next("tail"))

    assert all(tail["dropped"] >= 0 for tail in tails)


class Broken(ABridge):
    """Fails once at a picture."""

    fails = 2

    def status(self) -> BridgeStatus:
        self.fails -= 1
        if not self.fails:
            raise ZeroDivisionError
        return super().status()


async def test_a_bug_of_the_page_does_not_end_the_bridge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_AGAIN", 0.01)
    async with a_page(bridge=Broken()) as page:
        async with page.looking() as viewer:
            await viewer.next("picture")
        [failure] = [fact for fact in page.facts if isinstance(fact, PageFailed)]

    assert "ZeroDivisionError" in repr(failure.error)


async def test_a_viewer_that_reads_nothing_is_cut(open_page: APage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "WRITE_SECONDS", 0.2)
    monkeypatch.setattr(room, "_PAUSE", 0.0)
    _, writer = await asyncio.open_connection("127.0.0.1", open_page.server.port, limit=1024)
    writer.write(b"GET /v1/events?sink=hook HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await until(lambda: open_page.bridge.processor.receivers)
    async with asyncio.timeout(30 * BUSY):
        while len(open_page.server.viewers):
            open_page.bridge.commit(*["shop/web"] * 100, body=b"x" * 10_000)
            await asyncio.sleep(0.005)
    assert ConnectionCut("page.listen", CutReason.SLOW) in open_page.facts
    writer.close()


async def test_a_connection_serves_one_request(open_page: APage) -> None:
    connector = aiohttp.TCPConnector(limit=1)
    async with aiohttp.ClientSession(connector=connector) as client:
        for _ in range(3):
            async with client.get(f"http://127.0.0.1:{open_page.server.port}/") as answer:
                assert answer.headers["Connection"] == "close"


def test_the_history_is_bounded_and_keeps_the_newest() -> None:
    history = BacklogHistory()
    for number in range(MOST + 40):
        sinks = [replace(HOOK, backlog_records=number)]
        if number >= MOST:
            sinks.append(replace(HOOK, name="late", backlog_records=1, state=SinkState.PAUSED))
        history.add(1000.0 + 10 * number, sinks)

    series = history.series()
    assert len(series.times) == MOST
    assert (series.times[-1], series.records["hook"][-1]) == (1000 + 10 * (MOST + 39), MOST + 39)
    assert series.records["late"] == [None] * (MOST - 40) + [1] * 40


def test_rates_are_those_of_the_last_seconds() -> None:
    look = partial(Rates().look)
    assert look(0.0, {"a": 100}) == {"a": 0.0}
    assert look(1.0, {"a": 110, "b": 5}) == {"a": 10.0, "b": 0.0}
    for second in range(2, 20):
        found = look(float(second), {"a": 110, "b": 5 + second})
    assert found == {"a": 0.0, "b": 1.0}


def test_a_counter_that_begins_anew_has_no_rate() -> None:
    rates = Rates()
    rates.look(0.0, {"a": 100})
    assert rates.look(1.0, {"a": 3}) == {"a": 0.0}
