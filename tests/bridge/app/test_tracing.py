"""Traces of batches: what they follow, what they leave out, and what a collector can do to the bridge."""

from __future__ import annotations

import asyncio
import gzip
import ssl
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.trace import NoOpTracer

from bridge.app import tracing
from bridge.app.stages import STAGE_FUNCTIONS
from bridge.app.tracing import Traces, _Tracing, traced
from bridge.kube import ClusterAccess
from bridge.model.formats.cloudevent import CloudEvents
from bridge.model.record import Record
from bridge.plan.plan import Plan
from bridge.plan.preflight import preflight
from bridge.telemetry.facts import Fact
from bridge.telemetry.facts.process import SpansExported, SpansLost
from config.schema import TracingSettings
from sinks.base import Receipt, RetryLater
from tests.bridge.app.test_bridge import running
from tests.kit.bridges import World, a_config_map
from tests.kit.certificates import Authority
from tests.kit.connections import abort_connections
from tests.kit.deadlines import BUSY, until
from tests.kit.records import a_delta
from tests.kit.sinks import RecordingSink


class CollectedSpan(NamedTuple):
    name: str
    trace: bytes
    id: bytes
    parent: bytes
    begin: int
    end: int
    attributes: Mapping[str, Any]
    failed: bool


class Collector:
    def __init__(self) -> None:
        self.spans: list[CollectedSpan] = []
        self.resources: list[Mapping[str, Any]] = []
        self.headers: list[Mapping[str, str]] = []
        self.bodies: list[bytes] = []
        self.status = 200
        self.location = ""
        self.url = ""
        self._news = asyncio.Event()

    async def until(self, *names: str, timeout: float = 30.0 * BUSY) -> None:
        """Returns when spans of all these names were collected."""
        async with asyncio.timeout(timeout):
            while not {span.name for span in self.spans} >= set(names):
                self._news.clear()
                await self._news.wait()

    def named(self, name: str) -> list[CollectedSpan]:
        return [span for span in self.spans if span.name == name]

    async def take(self, request: web.Request) -> web.Response:
        self.headers.append(request.headers.copy())
        body = await request.read()  # aiohttp inflates it.
        if self.status == 200:
            self.bodies.append(body)
            found = ExportTraceServiceRequest.FromString(body if body[:2] != b"\x1f\x8b" else gzip.decompress(body))
            for each in found.resource_spans:
                self.resources.append(_attributes(each.resource.attributes))
                for scope in each.scope_spans:
                    self.spans += map(_span, scope.spans)
        self._news.set()
        return web.Response(status=self.status, headers={"Location": self.location} if self.location else None)


@asynccontextmanager
async def collecting(**site: Any) -> AsyncIterator[Collector]:
    """``site``: further options of aiohttp's site, such as ``ssl_context``."""
    collector = Collector()
    app = web.Application()
    app.router.add_post("/v1/traces", collector.take)
    app.router.add_route("*", "/elsewhere", collector.take)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    port = None
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, **site).start()
        port = runner.addresses[0][1]
        collector.url = f"{'https' if site else 'http'}://127.0.0.1:{port}/v1/traces"
        yield collector
    finally:
        await runner.cleanup()
        if port is not None:
            await abort_connections(port)


def _span(span: Any) -> CollectedSpan:
    return CollectedSpan(
        span.name,
        span.trace_id,
        span.span_id,
        span.parent_span_id,
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        _attributes(span.attributes),
        span.status.code == 2,
    )


def _attributes(found: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in found}


ALL = ("batch", "watch", "compare", "commit", "distribute", "deliver", "encode", "acknowledge")
SECRET = "hunter2-in-the-object"


class EncodingSink(RecordingSink):
    """Encodes, and fails once if it is asked to."""

    def __init__(self, *, fails: bool = False) -> None:
        super().__init__()
        self._events = CloudEvents("test")
        self._fails = fails

    async def deliver(self, batch: Any) -> Receipt:
        for record in batch:
            self._events.structured(record)
        if self._fails:
            self._fails = False
            return Receipt(pending=range(len(batch)), failure=RetryLater(f"it said {SECRET}"))
        return await super().deliver(batch)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Ends with the threads of the exporters: they draw random numbers, on which hypothesis keeps an eye."""
    monkeypatch.setattr(tracing, "_EVERY", 20)
    monkeypatch.setattr(tracing, "_TIMEOUT", 1.0)
    monkeypatch.setattr(tracing, "_CLOSE_TIMEOUT", 0.5)
    yield
    for thread in threading.enumerate():
        if thread.name == "traces" or thread.name.startswith("Otel"):
            thread.join(30 * BUSY)
            assert not thread.is_alive(), thread.name


@asynccontextmanager
async def a_traced_bridge(plan: TracingSettings, facts: list[Fact], *sinks: RecordingSink) -> AsyncIterator[World]:
    with traced(plan, "test", facts.append):
        async with running(*sinks) as world:
            await world.until_ready()
            yield world


def of_collector(collector: Collector, **further: Any) -> TracingSettings:
    return TracingSettings(endpoint=collector.url, sample=1.0, **further)


async def test_a_change_is_followed_from_watch_to_acknowledgement() -> None:
    facts: list[Fact] = []
    async with collecting() as collector:
        async with a_traced_bridge(of_collector(collector), facts, EncodingSink(), EncodingSink()) as world:
            world.cluster.create("configmaps", a_config_map("a", SECRET))
            await collector.until(*ALL)
        [batch] = [span for span in collector.named("batch") if span.attributes["kubedelta.records"] == 1][-1:]
        spans = [span for span in collector.spans if span.trace == batch.trace]
        await asyncio.sleep(0)
    children = {span.name: span for span in spans if span.parent == batch.id}
    assert children.keys() == {"watch", "compare", "commit", "distribute", "deliver"}
    order = [children[name] for name in ("watch", "compare", "commit")]
    assert all(one.end <= other.begin for one, other in pairwise(order))
    assert batch.begin == children["watch"].begin
    assert children["commit"].begin <= children["distribute"].begin <= children["deliver"].begin
    deliveries = [span for span in spans if span.name == "deliver"]
    assert sorted(span.attributes["kubedelta.sink"] for span in deliveries) == ["sink-0", "sink-1"]
    for span in deliveries:
        parts = {each.name: each for each in spans if each.parent == span.id}
        assert parts.keys() == {"encode", "acknowledge"}
        assert span.begin <= parts["encode"].begin <= parts["encode"].end <= parts["acknowledge"].end <= span.end
    assert batch.attributes["kubedelta.resource"] == "configmaps"
    assert batch.attributes["kubedelta.records.added"] == 1
    first = batch.attributes["kubedelta.sequence.first"]
    assert {span.attributes["kubedelta.sequence.first"] for span in deliveries} == {first}
    assert collector.resources[0]["service.name"] == "kubedelta"
    assert collector.resources[0]["k8s.cluster.name"] == "test"
    assert SECRET.encode() not in b"".join(collector.bodies)
    assert sum(fact.spans for fact in facts if isinstance(fact, SpansExported)) > 0


async def test_a_failed_attempt_is_a_span_without_its_reason() -> None:
    async with collecting() as collector:
        async with a_traced_bridge(of_collector(collector), [], EncodingSink(fails=True)) as world:
            world.cluster.create("configmaps", a_config_map("a"))
            await collector.until("acknowledge")
        failed = [span for span in collector.named("deliver") if span.failed]
    assert failed
    assert failed[0].attributes["kubedelta.records.pending"] == failed[0].attributes["kubedelta.records"]
    assert SECRET.encode() not in b"".join(collector.bodies)


async def test_a_collector_that_is_away_costs_spans_alone() -> None:
    facts: list[Fact] = []
    sink = RecordingSink()
    async with collecting() as collector:
        gone = of_collector(collector)
    async with a_traced_bridge(gone, facts, sink) as world:
        world.cluster.create("configmaps", a_config_map("a"))
        await sink.until(lambda sink: "added default/a" in sink.delivered())
    assert not [fact for fact in facts if isinstance(fact, SpansExported)]


async def test_a_refusal_is_counted_and_no_redirect_is_followed(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("Bearer s3cret\n")
    facts: list[Fact] = []
    async with collecting() as collector:
        collector.status, collector.location = 302, "/elsewhere"
        plan = of_collector(collector, header_files={"authorization": token})
        async with a_traced_bridge(plan, facts, RecordingSink()) as world:
            world.cluster.create("configmaps", a_config_map("a"))
            await until(lambda: any(isinstance(fact, SpansLost) for fact in facts))
        asked = len(collector.headers)
        assert {headers["authorization"] for headers in collector.headers} == {"Bearer s3cret"}
    lost = [fact for fact in facts if isinstance(fact, SpansLost)]
    assert 0 < len(lost) <= asked, "each export is one request"


@pytest.mark.parametrize("trusted", [True, False])
async def test_the_collector_must_prove_itself(tmp_path: Path, trusted: bool) -> None:
    authority, stranger = Authority.make(tmp_path / "ca"), Authority.make(tmp_path / "other")
    issued = authority.issue("127.0.0.1")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(issued.certificate, issued.key)
    facts, sink = list[Fact](), RecordingSink()
    async with collecting(ssl_context=context) as collector:
        plan = of_collector(collector, ca_file=(authority if trusted else stranger).certificate)
        async with a_traced_bridge(plan, facts, sink) as world:
            world.cluster.create("configmaps", a_config_map("a"))
            await sink.until(lambda sink: "added default/a" in sink.delivered())
            if trusted:
                await collector.until("deliver")
    assert bool(collector.headers) is trusted
    assert trusted or not [fact for fact in facts if isinstance(fact, SpansExported)]


async def test_spans_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "_MOST_WAITING", 3)
    monkeypatch.setattr(tracing, "_AT_ONCE", 3)
    monkeypatch.setattr(tracing, "_EVERY", 600_000)
    monkeypatch.setattr(tracing, "_CLOSE_TIMEOUT", 0.0)
    facts: list[Fact] = []
    async with collecting() as collector:
        with tracing.exporting(of_collector(collector), "test", facts.append) as tracer:
            for _ in range(10):
                tracer.start_span("x").end()
            await asyncio.sleep(0)
        assert sum(fact.spans for fact in facts if isinstance(fact, SpansLost)) >= 4


async def test_a_share_of_batches_is_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    chances = iter([0.4, 0.6] * 1000)
    monkeypatch.setattr("bridge.app.tracing.random", lambda: next(chances))
    sink = RecordingSink()
    async with collecting() as collector:
        plan = TracingSettings(endpoint=collector.url, sample=0.5)
        async with a_traced_bridge(plan, [], sink) as world:
            for number in range(20):
                world.cluster.create("configmaps", a_config_map(f"c{number}"))
                await sink.until(lambda sink, number=number: f"added default/c{number}" in sink.delivered())  # type: ignore[misc]
            await collector.until("deliver")
    assert 0 < len(collector.named("batch")) <= 11


def test_records_find_their_batch_and_repeated_ones_none() -> None:
    traces = Traces()
    for first, last in ((1, 3), (7, 9)):
        traces.add(first, last, {"at": first})  # type: ignore[arg-type]
    batch: list[Record] = [a_delta(number) for number in (2, 3, 5, 9, 12)]
    assert traces.of(batch) == {1: [0, 1], 7: [3]}
    assert traces.context(7) == {"at": 7}
    assert traces.of([a_delta(2, snapshot="snapshot/hook/9")]) == {}


async def test_the_way_is_as_before_when_the_trace_ends() -> None:
    from bridge.delivery.attempts import SinkAttempts
    from bridge.informer.controller import Controller

    before = SinkAttempts.deliver, Controller._process, CloudEvents.structured
    async with collecting() as collector:
        with traced(of_collector(collector), "test", lambda _: None):
            assert SinkAttempts.deliver is not before[0]
    assert (SinkAttempts.deliver, Controller._process, CloudEvents.structured) == before


def test_a_trace_takes_times_at_stages_alone() -> None:
    replaced = _Tracing(NoOpTracer(), 1.0).replacements()
    assert replaced.keys() < {staged.function for staged in STAGE_FUNCTIONS}


def mistakes(**options: Any) -> dict[str, str]:
    given: dict[str, Any] = {"endpoint": "https://collector.test/v1/traces", "sample": 1.0} | options
    plan = TracingSettings(**given)
    nothing: dict[str, Any] = {"wanted": (), "sinks": (), "state": Path("state")}
    access = ClusterAccess(server="http://127.0.0.1:1")
    return dict(preflight(Plan(cluster="test", access=access, tracing=plan, **nothing)))


def test_mistakes_are_found_before_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_text("s3cret")
    files = {"authorization": tmp_path / "token"}
    assert mistakes() == {}
    assert mistakes(header_files=files) == {}
    assert mistakes(header_files=files, endpoint="http://127.0.0.1:4318/v1/traces") == {}
    assert "use https" in mistakes(header_files=files, endpoint="http://collector/")["tracing.header_files"]
    assert "cannot read" in mistakes(header_files={"a": tmp_path / "b"})["tracing.header_files.a"]
    assert "ca_file" in str(mistakes(ca_file=tmp_path / "token"))
    assert "belong together" in mistakes(key_file=tmp_path / "token")["tracing"]
    monkeypatch.setattr("bridge.plan.preflight.find_spec", lambda _: None)
    assert "install kubedelta[otel]" in mistakes()["tracing"]
