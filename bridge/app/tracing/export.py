"""Sends spans to a collector by OTLP over HTTP, on a thread of its own: a collector that is away, or slow, delays
nobody."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from threading import Lock, Thread
from typing import Any

import requests
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import Tracer
from requests.adapters import HTTPAdapter
from requests.auth import AuthBase
from urllib3.util import create_urllib3_context

from bridge.plan.plan import TracingPlan
from bridge.telemetry.facts import Report
from bridge.telemetry.facts.process import SpansExported, SpansLost
from sinks.secret_files import SecretFile

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
def exporting(plan: TracingPlan, cluster: str, report: Report) -> Iterator[Tracer]:
    """A tracer whose spans are exported until the end of the block, and for some seconds behind it."""
    resource = Resource.create(
        {"service.name": "kubedelta", "service.version": version("kubedelta"), "k8s.cluster.name": cluster}
    )
    provider = TracerProvider(resource=resource, sampler=ALWAYS_ON, shutdown_on_exit=False)
    loop = asyncio.get_running_loop()

    def report_later(fact: SpansExported | SpansLost) -> None:
        with suppress(RuntimeError):  # The event loop has ended.
            loop.call_soon_threadsafe(report, fact)

    provider.add_span_processor(_BoundedProcessor(_CountingExporter(_otlp(plan), report_later)))
    try:
        yield provider.get_tracer("kubedelta", version("kubedelta"))
    finally:
        # A thread that the process does not wait for: the collector may never answer.
        closing = Thread(target=provider.shutdown, name="traces", daemon=True)
        closing.start()
        closing.join(_CLOSE_TIMEOUT)


def _otlp(plan: TracingPlan) -> SpanExporter:
    session = requests.Session()
    session.trust_env = False  # No credentials of a .netrc file, and no proxies.
    session.max_redirects = 0  # The library would count a redirect as a success.
    session.auth = _Headers(plan.header_files)
    session.mount("https://", _OldAuthorities())
    authorities = str(plan.ca_file or ssl.get_default_verify_paths().cafile or "")
    return OTLPSpanExporter(
        plan.endpoint,
        certificate_file=authorities or None,
        client_certificate_file=None if plan.cert_file is None else str(plan.cert_file),
        client_key_file=None if plan.key_file is None else str(plan.key_file),
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
