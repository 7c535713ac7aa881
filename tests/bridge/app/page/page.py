"""A page on a loopback address, of a bridge in memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from bridge.app.operators import Form, PageSources
from bridge.app.page.server import PageServer
from bridge.model.record import Record
from bridge.model.status import BridgeStatus, InformerState, InformerStatus, SinkState, SinkStatus
from bridge.plan.plan import PagePlan
from bridge.processor.shared_processor import SharedProcessor
from bridge.telemetry.facts import Fact
from tests.kit.deadlines import BUSY
from tests.kit.fake_admin import FakeAdmin
from tests.kit.records import a_delta

TOKEN = "a-token-of-twenty-nine-letters"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
POD_STATUS = InformerStatus(
    resource="pods", scope="all", state=InformerState.LIVE, synced=True, live=True, objects=3, last_contact=1.0
)
HOOK = SinkStatus(name="hook", type="webhook", state=SinkState.IDLE)


class ABridge:
    """The sources of a page, which count how often they are asked."""

    def __init__(self) -> None:
        self.processor: SharedProcessor[Record] = SharedProcessor(targets=lambda record: record.targets)
        self.last = 0
        self.now = BridgeStatus(informers=(POD_STATUS,), sinks=(HOOK,))
        self.looks = 0
        self.forms: dict[str, Form] = {"hook": lambda record: record}
        self.sources = PageSources(self.processor, lambda: self.status(), self.forms.get)

    def status(self) -> BridgeStatus:
        self.looks += 1
        return self.now

    def commit(self, *keys: str, body: bytes = b'{"kind":"Pod"}') -> None:
        deltas = [a_delta(self.last + count, key=key, body=body) for count, key in enumerate(keys, 1)]
        self.last += len(deltas)
        self.processor.distribute(deltas, self.last)


class APage:
    """A running page, and a client."""

    def __init__(self, server: PageServer, bridge: ABridge, admin: FakeAdmin, facts: list[Fact]) -> None:
        self.server = server
        self.bridge = bridge
        self.admin = admin
        self.facts = facts
        self.client: aiohttp.ClientSession

    async def ask(self, method: str, path: str, **options: Any) -> tuple[int, str, Any]:
        """Status, text and headers of the answer."""
        async with self.client.request(method, f"http://127.0.0.1:{self.server.port}{path}", **options) as answer:
            return answer.status, await answer.text(), answer.headers

    @asynccontextmanager
    async def looking(self, query: str = "", **headers: str) -> AsyncIterator[AViewer]:
        url = f"http://127.0.0.1:{self.server.port}/v1/events{query}"
        async with self.client.get(url, headers=headers) as answer:
            assert answer.status == 200, await answer.text()
            yield AViewer(answer)


class AViewer:
    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self.answer = answer

    async def next(self, kind: str) -> Any:
        """The data of the next event of this kind; others are passed over."""
        while True:
            found, data = await self.event()
            if found == kind:
                return data

    async def event(self) -> tuple[str, Any]:
        lines: list[str] = []
        while line := (await self.answer.content.readline()).decode():
            if line == "\n":
                kind, data = lines
                return kind.removeprefix("event: ").strip(), json.loads(data.removeprefix("data: "))
            lines.append(line)
        raise EOFError


@asynccontextmanager
async def a_page(
    *, token: Path | None = None, host: str = "127.0.0.1", most_viewers: int = 8, bridge: ABridge | None = None
) -> AsyncIterator[APage]:
    bridge = bridge or ABridge()
    admin, facts = FakeAdmin(), list[Fact]()
    plan = PagePlan(host, 0, token)
    server = PageServer(plan, admin, bridge.sources, facts.append, cluster="test", most_viewers=most_viewers)
    timeout = aiohttp.ClientTimeout(total=20 * BUSY)
    async with server, aiohttp.ClientSession(timeout=timeout) as client, asyncio.TaskGroup() as tasks:
        page = APage(server, bridge, admin, facts)
        page.client = client
        running = tasks.create_task(server.run())
        yield page
        running.cancel()
