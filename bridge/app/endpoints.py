"""The HTTP server for machines: /metrics, /healthz and /readyz.

Requests need no login, change no state, and read no secrets. Details of readiness are for holders of the token, or, if
none is configured, for clients on this machine. On a loopback address, the server refuses foreign Host headers (DNS
rebinding). On other addresses, it accepts every Host, since a kubelet and a Prometheus use the pod's address.

Probes are answered while a client holds thousands of connections, also those of another server: each has bounds of its
own.

**/readyz?verbose** has a line for each resource, the intake and each sink, in the form of the API server's ``/readyz``.
``[+]`` is ready. ``[-]`` makes the answer 503: a resource that is not synced and live, a blocked intake, or a follower
that is not in sync. ``[!]`` is a sink with failures or dead letters, a leader without a follower in sync, a refused
change of the configuration, or a resource that begins again because of a change, which leave the answer at 200: the
bridge works.

A bridge with a blocked intake is not ready: its resources are synced and their watches may be open, but their changes
reach no sink, and ready with a gauge beside it looked healthy to roll-outs. Sinks do not decide, until one with the
policy ``block`` stops the intake.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

from aiohttp import web

from bridge.http.access import TokenFile, expect_local_name, is_local
from bridge.http.listener import Bounds, Limits, Listener
from bridge.model.primitives.printable import escaped
from bridge.model.status import (
    BridgeStatus,
    CircuitState,
    ConfigurationStatus,
    ElectionStatus,
    InformerStatus,
    SinkStatus,
)
from bridge.telemetry.facts import Report, discard
from bridge.telemetry.facts.process import TELEMETRY_SERVER

_LIMITS = Limits(connections=Bounds(all=128, of_a_client=64))
_DETAILS_ELSEWHERE = (
    "details need the token of telemetry.details_token_file, or, without that option, a request from the bridge's own"
    " machine"
)
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


class WebServer(Listener):
    """Serves between ``start`` and ``stop``, or inside ``async with``."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        status: Callable[[], BridgeStatus],
        alive: Callable[[], bool],
        metrics: Callable[[BridgeStatus, str], tuple[bytes, str]],
        token: TokenFile | None = None,
        report: Report = discard,
    ) -> None:
        """``port`` 0 takes a free port; ``host`` "" is every interface. ``alive``: False if only a new process can
        help. ``metrics``: renders a status for an Accept header, as an exposition and its content type. ``token`` opens
        the details of /readyz; without one, they are for this machine."""
        super().__init__(
            TELEMETRY_SERVER,
            host,
            port,
            limits=_LIMITS,
            report=report,
            judge=lambda request: expect_local_name(request, host),
            headers=_HEADERS,
        )
        self._status = status
        self._alive = alive
        self._metrics = metrics
        self._token = token
        self._rendering = asyncio.Lock()
        self.router.add_get("/metrics", self._answer_metrics)
        self.router.add_get("/healthz", self._answer_healthz)
        self.router.add_get("/readyz", self._answer_readyz)

    async def _answer_metrics(self, request: web.Request) -> web.Response:
        """Renders in a thread, since a thousand series take ten milliseconds, during which the event loop goes on. A
        single thread at a time, since more threads would starve the event loop."""
        accept = request.headers.get("Accept", "")
        async with self._rendering:
            body, content_type = await asyncio.to_thread(self._metrics, self._status(), accept)
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def _answer_healthz(self, _request: web.Request) -> web.Response:
        """An answer proves that the event loop runs."""
        return _said("ok") if self._alive() else _said("stuck: only a new process can help", status=503)

    async def _answer_readyz(self, request: web.Request) -> web.Response:
        status = self._status()
        text = "ok" if status.ready else "not ready: see /readyz?verbose"
        if "verbose" in request.query:
            text = readiness(status) if self._may_see_details(request) else f"{text}\n{_DETAILS_ELSEWHERE}"
        return _said(text, status=200 if status.ready else 503)

    def _may_see_details(self, request: web.Request) -> bool:
        if self._token is None:
            return is_local(request)
        return self._token.opens(request.headers.get("Authorization", ""))


def _said(text: str, *, status: int = 200) -> web.Response:
    return web.Response(text=text if text.endswith("\n") else text + "\n", status=status)


# ── The report of /readyz?verbose ────────────────────────────────────────────

STATE = "[+] state "
"""The line of the state directory begins so. Commands find the bridge by it whose file names another directory."""
LONGEST_REASON = 2000
"""Characters."""


def readiness(status: BridgeStatus) -> str:
    """The report as printable text. Reasons hold no secrets, and are bounded."""
    informers = [_informer(each, changing=status.changing) for each in status.informers]
    follows = status.election is not None and not status.election.leads
    lines = [] if follows else [*informers, _intake(status), *map(_sink, status.sinks)]
    if status.election is not None:
        lines.append(_election(status.election))
    if status.configuration is not None:
        lines.append(_configuration(status.configuration))
    if status.state_directory:
        lines.append(f"{STATE}{status.state_directory}")
    if status.shard is not None:
        lines.append(f"[+] {status.shard}")
    if status.changing:
        lines.insert(0, "[!] the configuration changes, and resources begin again where they were")
    elif not status.informers and not follows:
        lines.insert(0, "[-] no resource is known yet")
    return "\n".join([*map(escaped, lines), f"readyz check {'passed' if status.ready else 'failed'}", ""])


def _intake(status: BridgeStatus) -> str:
    if not status.intake_blocked:
        return "[+] intake open"
    return f"[-] intake blocked reason: {_one_line(status.intake_blocked)}"


def _election(found: ElectionStatus) -> str:
    mark = "[+]" if found.in_sync else "[!]" if found.leads else "[-]"
    details = [f"term={found.term}"]
    if found.holder:
        details.append(f"holder={found.holder}")
    if found.renewed_seconds is not None:
        details.append(f"renewed={found.renewed_seconds:.1f}s")
    for each in found.followers:
        state = "in sync" if each.in_sync else f"{each.commits} commits and {each.seconds:.1f}s behind"
        details.append(f"follower {each.name}: {state};")
    if not found.in_sync:
        details.append(f"reason: {_one_line(found.reason or 'no follower is in sync')}")
    return " ".join([f"{mark} election {found.state}", *details])


def _configuration(found: ConfigurationStatus) -> str:
    if not found.refused:
        return f"[+] configuration in effect digest={found.digest}"
    reason = _one_line(found.refused)
    return f"[!] configuration refused, the former one is in effect digest={found.digest} reason: {reason}"


def _informer(informer: InformerStatus, *, changing: bool) -> str:
    mark = "[+]" if informer.ready else "[!]" if changing else "[-]"
    subject = f"{informer.resource} ({informer.scope})" if informer.scope else informer.resource
    return " ".join([f"{mark} {subject} {informer.state}", *_details(informer)])


def _details(informer: InformerStatus) -> Iterator[str]:
    yield f"objects={informer.objects}"
    if informer.last_contact is not None:
        yield f"last_contact={informer.last_contact:.1f}s"
    if informer.reason:
        yield f"reason: {_one_line(informer.reason)}"


def _sink(sink: SinkStatus) -> str:
    mark = "[+]" if sink.well else "[!]"
    return " ".join([f"{mark} sink {sink.name} ({sink.type}) {sink.state}", *_backlog(sink), *_failure(sink)])


def _backlog(sink: SinkStatus) -> Iterator[str]:
    yield f"backlog={sink.backlog_records}"
    if sink.backlog_records:
        yield f"backlog_age={sink.backlog_seconds:.1f}s"
    if sink.backfill:
        yield f"{sink.backfill}_left={sink.backfill_left}"
    if sink.dead_letters:
        yield f"dead_letters={sink.dead_letters}"
    if sink.parked:
        yield f"parked={sink.parked}"


def _failure(sink: SinkStatus) -> Iterator[str]:
    if sink.circuit is not CircuitState.CLOSED:
        yield f"circuit={sink.circuit}"
    if sink.retry_in is not None:
        yield f"retry_in={sink.retry_in:.1f}s"
        if sink.asked:
            until = datetime.now(UTC) + timedelta(seconds=sink.retry_in)
            yield f"asked={sink.asked:.0f}s until={until:%Y-%m-%dT%H:%M:%SZ}"
    if sink.last_error:
        yield f"reason: {_one_line(sink.last_error)}"


def _one_line(text: str) -> str:
    return " ".join(text.split())[:LONGEST_REASON]
