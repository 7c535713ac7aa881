"""Traces of batches, in the words of OpenTelemetry: spans of the times of a change at its stages, which a thread of its
own sends to a collector by OTLP over HTTP. A collector that is away, or slow, delays nobody. A bridge that is not
traced never imports this module.
"""

from __future__ import annotations

import asyncio
import ssl
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from random import random
from threading import Lock, Thread
from time import time_ns
from typing import Any
from weakref import WeakKeyDictionary

import requests
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import Span, StatusCode, Tracer, set_span_in_context
from requests.adapters import HTTPAdapter
from requests.auth import AuthBase
from urllib3.util import create_urllib3_context

from bridge.app.stages import Function, Replacements, replaced
from bridge.delivery.attempts import SinkAttempts
from bridge.informer.controller import Controller
from bridge.informer.delta_fifo import DeltaFIFO
from bridge.kube.gathering import Gathering, WatchBody
from bridge.model.change import ChangeBatch, Op
from bridge.model.formats.cloudevent import CloudEvents
from bridge.model.record import Delta, Record
from bridge.outbox.appender import Appender
from bridge.processor.shared_processor import SharedProcessor
from bridge.telemetry.facts import Report
from bridge.telemetry.facts.process import SpansExported, SpansLost
from config.schema import TracingSettings
from sinks.secret_files import SecretFile

# ── Sending ──────────────────────────────────────────────────────────────────

_MOST_WAITING = 4096
"""Spans. Further spans are lost."""
_AT_ONCE = 512
_EVERY = 2000
"""Milliseconds between two exports."""
_TIMEOUT = 10.0
"""Seconds for an export, with its repetitions."""
_CLOSE_TIMEOUT = 3.0
"""Seconds for the last spans at the end of the run."""


@contextmanager
def exporting(settings: TracingSettings, cluster: str, report: Report) -> Iterator[Tracer]:
    """A tracer whose spans are exported until the end of the block, and for some seconds behind it."""
    resource = Resource.create(
        {"service.name": "kubedelta", "service.version": version("kubedelta"), "k8s.cluster.name": cluster}
    )
    provider = TracerProvider(resource=resource, sampler=ALWAYS_ON, shutdown_on_exit=False)
    loop = asyncio.get_running_loop()

    def report_later(fact: SpansExported | SpansLost) -> None:
        with suppress(RuntimeError):  # The event loop has ended.
            loop.call_soon_threadsafe(report, fact)

    provider.add_span_processor(_BoundedProcessor(_CountingExporter(_otlp(settings), report_later)))
    try:
        yield provider.get_tracer("kubedelta", version("kubedelta"))
    finally:
        # A thread that the process does not wait for: the collector may never answer.
        closing = Thread(target=provider.shutdown, name="traces", daemon=True)
        closing.start()
        closing.join(_CLOSE_TIMEOUT)


def _otlp(settings: TracingSettings) -> SpanExporter:
    session = requests.Session()
    session.trust_env = False  # No credentials of a .netrc file, and no proxies.
    session.max_redirects = 0  # The library would count a redirect as a success.
    session.auth = _Headers(settings.header_files)
    session.mount("https://", _OldAuthorities())
    authorities = str(settings.ca_file or ssl.get_default_verify_paths().cafile or "")
    return OTLPSpanExporter(
        settings.endpoint,
        certificate_file=authorities or None,
        client_certificate_file=None if settings.cert_file is None else str(settings.cert_file),
        client_key_file=None if settings.key_file is None else str(settings.key_file),
        timeout=_TIMEOUT,
        compression=Compression.Gzip,
        session=session,
    )


class _OldAuthorities(HTTPAdapter):
    """Takes authorities without key identifiers, as everywhere here: Python 3.13 would refuse them."""

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        context = create_urllib3_context()
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        super().init_poolmanager(*args, **options, ssl_context=context)


class _Headers(AuthBase):
    """Adds the contents of files to each request, so that renewed secrets are used."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        self._files = {name: SecretFile(path, f"tracing.header_files.{name}") for name, path in files.items()}

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        for name, file in self._files.items():
            request.headers[name] = file.read()
        return request


class _CountingExporter(SpanExporter):
    def __init__(self, exporter: SpanExporter, report: Callable[[SpansExported | SpansLost], None]) -> None:
        self._exporter = exporter
        self._report = report
        self._lock = Lock()
        self.waiting = 0

    def add(self) -> bool:
        """Counts a span. False if there are too many."""
        with self._lock:
            if self.waiting < _MOST_WAITING:
                self.waiting += 1
                return True
        self._report(SpansLost(1))
        return False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        try:
            result = self._exporter.export(spans)
        except Exception:  # Such as a file of a header that cannot be read.
            result = SpanExportResult.FAILURE
        with self._lock:
            self.waiting -= len(spans)
        self._report(SpansExported(len(spans)) if result is SpanExportResult.SUCCESS else SpansLost(len(spans)))
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()


class _BoundedProcessor(BatchSpanProcessor):
    def __init__(self, exporter: _CountingExporter) -> None:
        self._counting = exporter
        super().__init__(
            exporter, max_queue_size=_MOST_WAITING, max_export_batch_size=_AT_ONCE, schedule_delay_millis=_EVERY
        )

    def on_end(self, span: ReadableSpan) -> None:
        if self._counting.add():
            super().on_end(span)


_LONGEST_WINDOW = 3_000_000_000
"""Nanoseconds. ``latency`` is a second at most, and a window twice as long."""
_MOST = 4096
"""Batches. Later deliveries of older ones have no spans."""
_MOST_AT_ONCE = 32
"""Traced batches of a delivery that get spans."""


@dataclass(slots=True)
class _OnItsWay:
    """A batch between the queue and the outbox."""

    arrived: int | None
    """When its first bytes came, in nanoseconds since 1970; None for a list."""
    began: int
    compared: tuple[int, int] = (0, 0)


_ON_ITS_WAY: ContextVar[_OnItsWay | None] = ContextVar("on_its_way", default=None)
_ENCODING: ContextVar[list[int] | None] = ContextVar("encoding", default=None)
"""Begin and end of the encoding in a traced delivery."""


@contextmanager
def traced(settings: TracingSettings, cluster: str, report: Report) -> Iterator[None]:
    """Traces the bridges that are made inside the context. Enter it on the event loop."""
    with exporting(settings, cluster, report) as tracer, replaced(_Tracing(tracer, settings.sample).replacements()):
        yield


class _Tracing:
    def __init__(self, tracer: Tracer, sample: float) -> None:
        self._tracer = tracer
        self._sample = sample
        self._traces = Traces()
        self._windows: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        """Task of a watch → the begin of its newest wait for others."""
        self._arrivals: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        """Task of a watch → when its newest bytes came."""
        self._queued: WeakKeyDictionary[DeltaFIFO, int] = WeakKeyDictionary()
        """Queue → when the bytes of its oldest delta came."""
        self._open: list[tuple[ChangeBatch, Span]] = []
        """Traced batches that are not committed."""

    def replacements(self) -> Replacements:
        return {
            Gathering.wait: self.gathering,
            WatchBody.read: self.reading,
            DeltaFIFO.happened: self.queueing,
            Controller._process: self.processing,
            Controller.handle_deltas: self.comparing,
            Appender.append: self.committing,
            SharedProcessor.distribute: self.distributing,
            SinkAttempts.deliver: self.delivering,
            CloudEvents.headers: self.encoding,
            CloudEvents.encoded_headers: self.encoding,
            CloudEvents.data: self.encoding,
            CloudEvents.structured: self.encoding,
        }

    # ── From the watch to the queue ──────────────────────────────────────────

    def gathering(self, function: Function) -> Function:
        async def wait(*args: Any) -> None:
            self._windows[asyncio.current_task()] = time_ns()
            await function(*args)

        return wait

    def reading(self, function: Function) -> Function:
        async def read(body: WatchBody) -> bytes:
            chunk: bytes = await function(body)
            task = asyncio.current_task()
            now = time_ns()
            window = self._windows.pop(task, 0)
            self._arrivals[task] = window if now - window < _LONGEST_WINDOW else now
            return chunk

        return read

    def queueing(self, function: Function) -> Function:
        def happened(fifo: DeltaFIFO, *args: Any, **kwargs: Any) -> Any:
            if (arrived := self._arrivals.get(asyncio.current_task())) is not None:
                self._queued.setdefault(fifo, arrived)
            return function(fifo, *args, **kwargs)

        return happened

    # ── From the queue to the listeners ──────────────────────────────────────

    def processing(self, function: Function) -> Function:
        async def process(controller: Controller, *args: Any) -> None:
            arrived = self._queued.pop(controller._fifo, None)  # type: ignore[call-overload]
            token = _ON_ITS_WAY.set(_OnItsWay(arrived, time_ns()))
            try:
                await function(controller, *args)
            finally:
                _ON_ITS_WAY.reset(token)

        return process

    def comparing(self, function: Function) -> Function:
        def handle_deltas(*args: Any) -> Any:
            began = time_ns()
            changes = function(*args)
            if (way := _ON_ITS_WAY.get()) is not None:
                way.compared = began, time_ns()
            return changes

        return handle_deltas

    def committing(self, function: Function) -> Function:
        async def append(appender: Appender, batch: ChangeBatch) -> Sequence[Delta]:
            way = _ON_ITS_WAY.get()
            if way is None or not batch.changes or random() >= self._sample:
                return await function(appender, batch)  # type: ignore[no-any-return]
            root = self._tracer.start_span("batch", start_time=way.arrived or way.began)
            self._open.append((batch, root))
            began = time_ns()
            try:
                deltas: Sequence[Delta] = await function(appender, batch)
            finally:
                self._open = [each for each in self._open if each[1] is not root]
            if deltas:
                self._committed(root, way, began, deltas)
            return deltas

        return append

    def distributing(self, function: Function) -> Function:
        def distribute(processor: SharedProcessor[Record], items: Sequence[Any], last: int) -> None:
            body = items[0].body if self._open and items and isinstance(items[0], Delta) else None
            # The records of a batch have the bodies of its changes, by reference.
            root = next((root for batch, root in self._open if batch.changes[0].object.body is body), None)
            if root is None:
                function(processor, items, last)
                return
            context = set_span_in_context(root)
            self._traces.add(items[0].sequence, last, context)
            span = self._tracer.start_span("distribute", context)
            function(processor, items, last)
            span.end()

        return distribute

    def _committed(self, root: Span, way: _OnItsWay, began: int, deltas: Sequence[Delta]) -> None:
        ended = time_ns()
        context = set_span_in_context(root)
        if way.arrived is not None:
            self._tracer.start_span("watch", context, start_time=way.arrived).end(way.began)
        self._tracer.start_span("compare", context, start_time=way.compared[0]).end(way.compared[1])
        self._tracer.start_span("commit", context, start_time=began).end(ended)
        ops = [delta.op for delta in deltas]
        root.set_attributes(
            {
                "kubedelta.resource": deltas[0].resource.name,
                "kubedelta.records": len(deltas),
                "kubedelta.bytes": sum(len(delta.body) for delta in deltas),
                **{f"kubedelta.records.{op}": ops.count(op) for op in Op},
                "kubedelta.sequence.first": deltas[0].sequence,
                "kubedelta.sequence.last": deltas[-1].sequence,
            }
        )
        root.end(ended)

    # ── To a destination ─────────────────────────────────────────────────────

    def encoding(self, function: Function) -> Function:
        def encode(*args: Any) -> Any:
            if (times := _ENCODING.get()) is None:
                return function(*args)
            times[0] = times[0] or time_ns()
            result = function(*args)
            times[1] = time_ns()
            return result

        return encode

    def delivering(self, function: Function) -> Function:
        async def deliver(attempts: SinkAttempts, batch: Sequence[Record], *args: Any) -> Any:
            found = self._traces.of(batch)
            if not found:
                return await function(attempts, batch, *args)
            times = [0, 0]
            token = _ENCODING.set(times)
            began = time_ns()
            try:
                receipt, delay = await function(attempts, batch, *args)
            finally:
                _ENCODING.reset(token)
            ended = time_ns()
            left = set(receipt.pending)
            rejected = receipt.rejected.keys()
            for first, indexes in found.items():
                span = self._tracer.start_span("deliver", self._traces.context(first), start_time=began)
                span.set_attributes(
                    {
                        "kubedelta.sink": attempts._name,
                        "kubedelta.records": len(indexes),
                        "kubedelta.records.pending": len(left.intersection(indexes)),
                        "kubedelta.records.rejected": len(rejected & set(indexes)),
                        "kubedelta.batch.records": len(batch),
                        "kubedelta.sequence.first": batch[indexes[0]].sequence,
                        "kubedelta.sequence.last": batch[indexes[-1]].sequence,
                    }
                )
                if receipt.failure is not None:
                    span.set_status(StatusCode.ERROR)  # Without the reason, which a destination wrote.
                context = set_span_in_context(span)
                if times[1]:
                    self._tracer.start_span("encode", context, start_time=times[0]).end(times[1])
                if not left.intersection(indexes):
                    self._tracer.start_span("acknowledge", context, start_time=times[1] or began).end(ended)
                span.end(ended)
            return receipt, delay

        return deliver


class Traces:
    """The traced batches, by the sequence numbers of their records."""

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        self._contexts: list[Context] = []

    def add(self, first: int, last: int, context: Context) -> None:
        """``context``: the parent of further spans. Sequence numbers ascend from call to call."""
        self._firsts.append(first)
        self._lasts.append(last)
        self._contexts.append(context)
        if len(self._firsts) > 2 * _MOST:
            del self._firsts[:_MOST], self._lasts[:_MOST], self._contexts[:_MOST]

    def of(self, batch: Iterable[Record]) -> Mapping[int, list[int]]:
        """The first sequence number of each traced batch → the indexes of its records in ``batch``. Replays and
        snapshots repeat records, and belong to no batch."""
        found: dict[int, list[int]] = {}
        firsts = self._firsts
        lasts = self._lasts
        for index, record in enumerate(batch):
            if not isinstance(record, Delta) or record.replay or record.snapshot is not None:
                continue
            place = bisect_right(firsts, record.sequence) - 1
            if place >= 0 and record.sequence <= lasts[place]:
                if firsts[place] not in found and len(found) == _MOST_AT_ONCE:
                    break
                found.setdefault(firsts[place], []).append(index)
        return found

    def context(self, first: int) -> Context:
        return self._contexts[bisect_right(self._firsts, first) - 1]
