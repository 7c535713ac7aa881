"""Makes actors of audit events: of the audit log's lines, of a topic, or of what the API server posts
(``--audit-webhook-*``).

Lines come in batches; the position is saved behind the actors that it covers. A post is answered when its actors are
durable. The API server keeps events of a webhook in memory alone, sends them again after a failure, and drops them when
its buffer is full; so its audit log is the better source wherever its files can be read.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import aclosing, suppress
from dataclasses import dataclass, field

import msgspec
from aiohttp import web
from kubedelta_reader.sources import Source

from bridge.actors.actor_log import ActorLog, encoded
from bridge.actors.audit import NotAnAuditEvent, actors_of
from bridge.actors.audit_log import AuditLog
from bridge.http.access import TokenGate
from bridge.http.listener import Bounds, Limits, Listener
from bridge.telemetry.facts import Report

_BATCH = 1000
"""Events."""
_LOOK = 1.0
"""Seconds between two looks for further lines."""
_LIMITS = Limits(connections=Bounds(all=8, of_a_client=4), body=32 << 20)
"""An API server posts 400 events at once by default."""


@dataclass(slots=True)
class Collector:
    """Writes the actors of events. One thread at a time calls it."""

    cluster: str
    named: Callable[[str], str]
    log: ActorLog
    actors: Counter[str] = field(default_factory=Counter)
    """By ``Join``."""
    unreadable: int = 0
    """Events."""

    def add(self, events: Iterable[bytes]) -> int:
        """Returns how many events there were, when their actors are durable. Raises OSError; then none of them
        counts."""
        lines, joins, unreadable, count = [], Counter[str](), 0, 0
        for event in events:
            count += 1
            try:
                for actor in actors_of(event, self.cluster, self.named):
                    lines.append(encoded(actor, self.cluster))
                    joins[actor.join] += 1
            except NotAnAuditEvent:
                unreadable += 1
        self.log.append(lines)
        self.actors.update(joins)
        self.unreadable += unreadable
        return count


def follow(audit: AuditLog, collector: Collector, ended: threading.Event, *, wait: bool) -> None:
    """Adds the lines of the audit log until ``ended`` is set; to its present end without ``wait``. Raises OSError, and
    EOFError or zlib.error for a damaged compressed file."""
    while not ended.is_set():
        lines = audit.lines()
        while collector.add(_first(lines, _BATCH)):
            collector.log.save(audit.position.encoded())
            if ended.is_set():
                return
        if not wait:
            return
        ended.wait(_LOOK)


async def follow_topic(source: Source, collector: Collector, ended: asyncio.Event, *, wait: bool) -> None:
    """Like ``follow``, of a topic with an event in each record. Raises Unavailable, and ValueError for a position of
    something else."""
    async with source:
        await source.resume(collector.log.position())
        while not ended.is_set():
            async with aclosing(source.read()) as batches:
                async for batch in batches:
                    await asyncio.to_thread(collector.add, [each.data for each in batch if each.data is not None])
                    await asyncio.to_thread(collector.log.save, source.position)
                    if ended.is_set():
                        return
            if not wait:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK):
                    await ended.wait()


def _first(lines: Iterator[bytes], count: int) -> Iterator[bytes]:
    for _, line in zip(range(count), lines, strict=False):
        yield line


class _EventList(msgspec.Struct):
    kind: str
    items: list[msgspec.Raw]


_decode_list = msgspec.json.Decoder(_EventList).decode


class AuditWebhook:
    """Takes posts of API servers between ``start`` and ``stop`` of ``listener``."""

    def __init__(
        self,
        collector: Collector,
        address: tuple[str, int],
        tls: ssl.SSLContext,
        gate: TokenGate | None,
        report: Report,
    ) -> None:
        """``gate``: None where ``tls`` asks for certificates of clients."""
        self._collector = collector
        self._one = asyncio.Lock()
        host, port = address
        judge = None if gate is None else gate.expect
        self.listener = Listener("actors", host, port, limits=_LIMITS, report=report, judge=judge, tls=tls)
        self.listener.router.add_post("/", self._take)

    async def _take(self, request: web.Request) -> web.Response:
        try:
            found = _decode_list(await request.read())
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise web.HTTPBadRequest(text="an EventList of audit.k8s.io/v1 is expected\n") from error
        async with self._one:
            try:
                await asyncio.to_thread(self._collector.add, map(bytes, found.items))
            except OSError as error:
                raise web.HTTPServiceUnavailable(text=f"the actors cannot be written: {error.strerror}\n") from error
        return web.Response(text="ok\n")
