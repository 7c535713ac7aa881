"""``/readyz?verbose``: a line for each resource, the intake and each sink, in the form of the API server's ``/readyz``.

``[+]`` is ready. ``[-]`` makes the answer 503: a resource that is not synced and live, or a blocked intake. ``[!]`` is
a sink with failures or dead letters, or a refused change of the configuration, which leave the answer at 200: the
bridge works."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from bridge.model.primitives.printable import escaped
from bridge.model.status import CircuitState, ConfigurationStatus, InformerStatus, SinkStatus, StatusSnapshot

LONGEST_REASON = 2000
"""Characters."""


def report(snapshot: StatusSnapshot) -> str:
    """The report as printable text. Reasons hold no secrets, and are bounded."""
    lines = [*map(_informer, snapshot.informers), _intake(snapshot), *map(_sink, snapshot.sinks)]
    if snapshot.configuration is not None:
        lines.append(_configuration(snapshot.configuration))
    if not snapshot.informers:
        lines.insert(0, "[-] no resource is known yet")
    return "\n".join([*map(escaped, lines), f"readyz check {'passed' if snapshot.ready else 'failed'}", ""])


def _intake(snapshot: StatusSnapshot) -> str:
    if not snapshot.intake_blocked:
        return "[+] intake open"
    return f"[-] intake blocked reason: {_one_line(snapshot.intake_blocked)}"


def _configuration(found: ConfigurationStatus) -> str:
    if not found.refused:
        return f"[+] configuration in effect digest={found.digest}"
    reason = _one_line(found.refused)
    return f"[!] configuration refused, the former one is in effect digest={found.digest} reason: {reason}"


def _informer(informer: InformerStatus) -> str:
    mark = "[+]" if informer.ready else "[-]"
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
