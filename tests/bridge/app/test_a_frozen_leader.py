"""A leader that stands still beyond its deadline, as after SIGSTOP, hands no record over when it goes on."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bridge.model.policies import LeaseTiming
from bridge.plan.plan import ElectionPlan, SinkPlan
from bridge.telemetry.facts import Fact
from bridge.telemetry.facts.election import LeadershipLost
from sinks.base import Lanes
from sinks.webhook.options import WebhookOptions
from sinks.webhook.sink import WebhookSink
from tests.bridge.app.test_election import LEASE
from tests.kit.bridges import World, a_bridge, a_config_map
from tests.kit.deadlines import BUSY, until
from tests.kit.playground import Playground

TIMING = LeaseTiming(lease_duration=60.0, renew_deadline=40.0, retry_period=0.1)
FIRST = "1"
"""The term of the leader that is frozen."""


class Endpoint:
    """In threads of its own: it answers while the bridge stands still."""

    def __init__(self) -> None:
        self.terms: list[str] = []
        """Of each request."""
        self.status: Callable[[], int] = lambda: 204
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.answered = threading.Event()
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["content-length"]))
                endpoint.terms.append(self.headers["kubedelta-term"])
                status = endpoint.status()
                endpoint.may_answer.wait()
                self.send_response(status)
                self.send_header("content-length", "0")
                self.end_headers()
                self.wfile.flush()
                endpoint.answered.set()

            def log_message(self, *_: Any) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/hook"

    def close(self) -> None:
        self.may_answer.set()
        self._server.shutdown()
        self._server.server_close()


class Clock:
    """That of the event loop."""

    def __init__(self) -> None:
        self.stood_still = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.stood_still


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    times = SimpleNamespace(monotonic=clock.monotonic, get_clock_info=time.get_clock_info)
    monkeypatch.setattr("asyncio.base_events.time", times)
    return clock


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    endpoint = Endpoint()
    yield endpoint
    endpoint.close()


async def after_a_freeze(endpoint: Endpoint, clock: Clock, state: Path, **options: Any) -> list[str]:
    """The terms of the requests that begin after the freeze, until another term delivers."""
    hook = WebhookOptions(url=endpoint.url, **options)
    sink = SinkPlan(
        name="hook",
        type="webhook",
        make=lambda: WebhookSink("hook", hook, cluster="test"),
        max_batch=100,
        lanes=Lanes(concurrency=hook.concurrency, batch=hook.batch),
    )
    key = state / "redaction.key"
    key.write_text("k" * 32)
    (state / "state").mkdir()
    facts: list[Fact] = []
    async with Playground(bookmark_interval=0.2) as cluster, asyncio.TaskGroup() as tasks:
        cluster.create(LEASE, {"metadata": {"name": "kubedelta", "namespace": "default"}, "spec": {}})
        for number in range(5):
            cluster.create("configmaps", a_config_map(f"a{number}"))
        election = ElectionPlan(namespace="default", lease="kubedelta", name="first", timing=TIMING)
        bridge = a_bridge(cluster, facts, state / "state", [sink], redaction_key_file=key, election=election)
        running = tasks.create_task(bridge.run())
        terms = await _freeze(World(cluster, bridge, facts), endpoint, clock)
        bridge.stop()
        await running
    return terms


async def _freeze(world: World, endpoint: Endpoint, clock: Clock) -> list[str]:
    await until(lambda: world.leads)
    await until(lambda: endpoint.terms)
    before = len(endpoint.terms)
    endpoint.may_answer.set()
    endpoint.answered.wait(10 * BUSY)
    clock.stood_still += TIMING.lease_duration + 1
    await until(lambda: world.reported(LeadershipLost) and len(endpoint.terms) > before)
    return endpoint.terms[before:]


async def test_a_request_that_waits_for_its_turn(endpoint: Endpoint, clock: Clock, tmp_path: Path) -> None:
    assert FIRST not in await after_a_freeze(endpoint, clock, tmp_path, rate={"requests": 10})


async def test_the_records_of_a_rejected_batch(endpoint: Endpoint, clock: Clock, tmp_path: Path) -> None:
    endpoint.may_answer.clear()
    endpoint.status = lambda: 400 if len(endpoint.terms) == 1 else 204
    assert FIRST not in await after_a_freeze(endpoint, clock, tmp_path, batch=50, concurrency=1, timeout=100.0)
