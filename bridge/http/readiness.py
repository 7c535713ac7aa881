"""``/readyz?verbose``: a line for each resource, the intake and each sink, in the form of the API server's ``/readyz``.

``[+]`` is ready. ``[-]`` makes the answer 503: a resource that is not synced and live, a blocked intake, or a follower
that is not in sync. ``[!]`` is a sink with failures or dead letters, a leader without a follower in sync, a refused
change of the configuration, or a resource that begins again because of a change, which leave the answer at 200: the
bridge works.

A bridge with a blocked intake is not ready: its resources are synced and their watches may be open, but their changes
reach no sink, and ready with a gauge beside it looked healthy to roll-outs. Sinks do not decide, until one with the
policy ``block`` stops the intake.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from bridge.model.primitives.printable import escaped
from bridge.model.status import (
    BridgeStatus,
    CircuitState,
    ConfigurationStatus,
    ElectionStatus,
    InformerStatus,
    SinkStatus,
)

STATE = "[+] state "
"""The line of the state directory begins so. Commands find the bridge by it whose file names another directory."""
LONGEST_REASON = 2000
"""Characters."""


def report(snapshot: BridgeStatus) -> str:
    """The report as printable text. Reasons hold no secrets, and are bounded."""
    informers = [_informer(each, changing=snapshot.changing) for each in snapshot.informers]
    follows = snapshot.election is not None and not snapshot.election.leads
    lines = [] if follows else [*informers, _intake(snapshot), *map(_sink, snapshot.sinks)]
    if snapshot.election is not None:
        lines.append(_election(snapshot.election))
    if snapshot.configuration is not None:
        lines.append(_configuration(snapshot.configuration))
    if snapshot.state_directory:
        lines.append(f"{STATE}{snapshot.state_directory}")
    if snapshot.shard is not None:
        lines.append(f"[+] {snapshot.shard}")
    if snapshot.changing:
        lines.insert(0, "[!] the configuration changes, and resources begin again where they were")
    elif not snapshot.informers and not follows:
        lines.insert(0, "[-] no resource is known yet")
    return "\n".join([*map(escaped, lines), f"readyz check {'passed' if snapshot.ready else 'failed'}", ""])


def _intake(snapshot: BridgeStatus) -> str:
    if not snapshot.intake_blocked:
        return "[+] intake open"
    return f"[-] intake blocked reason: {_one_line(snapshot.intake_blocked)}"


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
