"""Makes actors of audit events: of the audit log's lines, of a topic, or of what the API server posts
(``--audit-webhook-*``).

Lines come in batches; the position is saved behind the actors that it covers. A post is answered when its actors are
durable. The API server keeps events of a webhook in memory alone, sends them again after a failure, and drops them when
its buffer is full; so its audit log is the better source wherever its files can be read.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import aclosing, suppress
from dataclasses import dataclass, field

import msgspec
from aiohttp import web
from kubedelta_reader.sources import NoDestination, Source

from bridge.history.actors.actor_log import ActorLog, encoded
from bridge.history.actors.audit import NotAnAuditEvent, actors_of
from bridge.http.access import TokenGate
from bridge.http.listener import Bounds, Limits, Listener
from bridge.telemetry.facts import Report

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
    left_out: int = 0
    """Lines that are too long, and damaged rests of compressed files."""

    def add(self, events: Iterable[bytes]) -> None:
        """Returns when the actors of the events are durable. Raises OSError; then none of them counts."""
        joins, unreadable = Counter[str](), 0

        def lines() -> Iterator[bytes]:
            """An event of a collection has many actors, so they are made as they are written."""
            nonlocal unreadable
            for event in events:
                try:
                    actors = actors_of(event, self.cluster, self.named)
                except NotAnAuditEvent:
                    unreadable += 1
                    continue
                for actor in actors:
                    joins[actor.join] += 1
                    yield encoded(actor, self.cluster)

        self.log.append(lines())
        self.actors.update(joins)
        self.unreadable += unreadable


async def follow(
    source: Source, collector: Collector, ended: asyncio.Event, *, wait: bool, say: Callable[[str], None]
) -> None:
    """Adds the audit events of a log or a topic, one in each record, until ``ended`` is set; to the present end without
    ``wait``, and then of one that is there. ``say`` is told of one that is waited for. Raises Unavailable, OSError, and
    ValueError for a position of something else."""
    try:
        said = False
        while (missing := await _missing(source)) is not None:
            if not wait:
                raise missing
            if not said:
                say(f"waiting: {missing}")
            said = True
            await _rest(ended)
            if ended.is_set():
                return
        await source.resume(collector.log.position())
        while not ended.is_set():
            async with aclosing(source.read()) as batches:
                async for batch in batches:
                    events = [each.data for each in batch if each.data is not None]
                    await asyncio.to_thread(collector.add, events)
                    await asyncio.to_thread(collector.log.save, source.position)
                    collector.left_out += sum(each.data is None and each.headers is None for each in batch)
                    if ended.is_set():
                        return
            if not wait:
                return
            await _rest(ended)
    finally:
        await source.close()


async def _missing(source: Source) -> NoDestination | None:
    """Opens a source that is there."""
    try:
        await source.open()
    except NoDestination as missing:
        return missing
    return None


async def _rest(ended: asyncio.Event) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(_LOOK):
            await ended.wait()


class _EventList(msgspec.Struct):
    kind: str
    items: list[msgspec.Raw]


_decode_list = msgspec.json.Decoder(_EventList).decode


class AuditWebhook(Listener):
    """Takes posts of API servers between ``start`` and ``stop``."""

    def __init__(
        self,
        collector: Collector,
        address: tuple[str, int],
        tls: ssl.SSLContext,
        gate: TokenGate | None,
        report: Report,
    ) -> None:
        """``gate``: None where ``tls`` asks for certificates of clients."""
        judge = None if gate is None else gate.expect
        super().__init__("actors", *address, limits=_LIMITS, report=report, judge=judge, tls=tls)
        self._collector = collector
        self._one = asyncio.Lock()
        self.router.add_post("/", self._take)

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
