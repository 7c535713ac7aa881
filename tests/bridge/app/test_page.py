"""The page of a whole bridge."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from bridge.model.policies import RedactionRule
from bridge.model.primitives.field_path import FieldPath
from bridge.plan.plan import PagePlan, PlanRefused
from bridge.telemetry.facts.process import PageOpened
from bridge.views.selection import SelectorText
from tests.bridge.app.page.page import AViewer
from tests.bridge.app.test_bridge import running
from tests.kit.bridges import World, a_config_map
from tests.kit.deadlines import BUSY, until
from tests.kit.sinks import RecordingSink

PAGE = PagePlan("127.0.0.1", 0)


@asynccontextmanager
async def looking(world: World, query: str = "") -> AsyncIterator[AViewer]:
    await until(lambda: world.reported(PageOpened))
    url = f"http://{world.reported(PageOpened)[0].address}/v1/events{query}"
    timeout = aiohttp.ClientTimeout(total=20 * BUSY)
    async with aiohttp.ClientSession(timeout=timeout) as client, client.get(url) as answer:
        assert answer.status == 200
        yield AViewer(answer)


async def test_the_page_shows_resources_and_sinks() -> None:
    sink = RecordingSink()
    async with running(sink, page=PAGE) as world:
        await world.until_ready()
        async with looking(world) as viewer:
            world.cluster.create("configmaps", a_config_map("a"))
            await sink.until(lambda sink: "added default/a" in sink.delivered())
            async with asyncio.timeout(20 * BUSY):
                while not (picture := await viewer.next("picture"))["sinks"][0]["rate"]:
                    pass

    [resource], [shown] = picture["resources"], picture["sinks"]
    assert (resource["status"]["resource"], resource["status"]["state"], resource["ready"]) == (
        "configmaps",
        "live",
        True,
    )
    assert picture["rates"]["configmaps"] > 0
    assert (shown["status"]["name"], shown["status"]["delivered"] > 0) == ("sink-0", True)


async def test_the_tail_is_selected_and_redacted_as_the_sinks_records() -> None:
    sink = RecordingSink()
    rule = RedactionRule((FieldPath.parsed("data.value"),))
    selected = (SelectorText(resource="configmaps", namespaces=("shop",)),)
    options = {"sink-0": {"redact": (rule,), "select": selected}}
    async with running(sink, options=options, page=PAGE) as world:
        await world.until_ready()
        async with looking(world, "?sink=sink-0") as viewer:
            await viewer.next("picture")
            world.cluster.create("configmaps", a_config_map("other", "hunter2"))
            world.cluster.create("configmaps", a_config_map("mine", "hunter2", namespace="shop"))
            [line] = (await viewer.next("tail"))["lines"]
        await sink.until(lambda sink: any(each.key == "shop/mine" for each in sink.deltas))

    [delta] = [each for each in sink.deltas if each.key == "shop/mine"]
    assert (line["namespace"], line["name"]) == ("shop", "mine")
    assert line["body"].encode() == delta.body
    assert "hunter2" not in line["body"]


async def test_an_address_that_is_taken_ends_the_start() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(ExceptionGroup) as ended:
        async with running(RecordingSink(), page=PagePlan(*taken.getsockname())):
            pass

    [error] = ended.value.exceptions
    assert isinstance(error, PlanRefused)
    assert str(error).startswith("page.listen: cannot listen on 127.0.0.1:")


async def test_an_open_page_does_not_hold_up_the_end() -> None:
    async with running(RecordingSink(), page=PAGE) as world:
        await world.until_ready()
        async with looking(world) as viewer:
            await viewer.next("picture")
            world.bridge.stop()
            with pytest.raises(EOFError):
                await viewer.next("never")
