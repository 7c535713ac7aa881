"""What is wrong with a running bridge, and what to do next: for ``kubedelta status``, ``reload`` and ``top``.

A status has figures; an operator wants a sentence and a command. Each part of a status has a function here, which
yields its troubles. A sink that delivers has none, however much there is to deliver, until it is behind; but whatever
makes the bridge not ready is a trouble, a first list too, because it has to be explained.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

import msgspec

from bridge.model.admin import DeadLetterChain
from bridge.model.primitives.printable import counted
from bridge.model.status import (
    OTHERS_FIRST,
    BridgeStatus,
    ConfigurationStatus,
    ElectionStatus,
    InformerState,
    InformerStatus,
    SinkState,
    SinkStatus,
)

BEHIND_SECONDS = 600.0
"""Age of the oldest record of a backlog, as in the alert KubedeltaSinkBehind."""
LOW_DISK_BYTES = 1 << 30
"""As in the alert KubedeltaDiskFills."""


class Trouble(msgspec.Struct, frozen=True):
    """Something that an operator should look at."""

    subject: str
    """``intake``, ``resources.pods``, ``sinks.audit``, ``configuration``."""
    what: str
    """May have text of strangers in it."""
    advice: str = ""
    """What to do before ``command``, or without one."""
    command: str = ""
    """The next words behind ``kubedelta``, without ``-c``."""
    under_way: bool = False
    """Only time is needed, as far as is known: no attempt has failed."""

    @property
    def line(self) -> str:
        return f"{self.subject}: {self.what}"


Rejected: TypeAlias = Mapping[str, Sequence[DeadLetterChain]]
"""Sink → the first two chains of dead letters, or all of one or none. What is missing is not named."""


def troubles_of(status: BridgeStatus, rejected: Rejected = MappingProxyType({})) -> list[Trouble]:
    """All troubles, those that hold up everything first. Empty if all is well."""
    found = [*_of_intake(status)]
    if status.election is not None:
        found += _of_election(status.election)
    of_informers = [trouble for each in status.informers for trouble in _of_informer(each)]
    # While the configuration changes, informers begin again that were ready before.
    found += [each for each in of_informers if not (status.changing and each.under_way)]
    if not status.informers and not status.changing:
        found.append(Trouble("resources", "none is known yet: the API server has not answered", command="check"))
    found += [trouble for each in status.sinks for trouble in troubles_of_sink(each, rejected.get(each.name, ()))]
    if status.configuration is not None and status.configuration.refused:
        found.append(_of_refusal(status.configuration))
    return found


def _of_refusal(configuration: ConfigurationStatus) -> Trouble:
    if configuration.tried_again:
        what = f"the changed file is not in effect, and is tried again every half minute: {configuration.refused}"
        return Trouble("configuration", what, "when that is mended, it takes effect, or at once with", "reload")
    what = f"the changed file is refused, and the former configuration stays: {configuration.refused}"
    return Trouble("configuration", what, "correct the file, then", "reload")


def _of_intake(status: BridgeStatus) -> Iterator[Trouble]:
    if status.intake_blocked:
        what = f"the bridge reads nothing: {'the disk is full: ' * status.disk_full}{status.intake_blocked}"
        advice = (
            "make room on that disk, or enlarge it, and it goes on; the longest backlog:" if status.disk_full else ""
        )
        yield Trouble("intake", what, advice, "cursors")
    elif status.disk_free_bytes is not None and status.disk_free_bytes < LOW_DISK_BYTES:
        what = f"the disk of state.directory has {status.disk_free_bytes >> 20} MiB free"
        yield Trouble("state.directory", what, "enlarge the volume, or find the longest backlog:", "cursors")


def _of_election(election: ElectionStatus) -> Iterator[Trouble]:
    if election.leads and not election.in_sync:
        late = "; ".join(f"{each.name} is {counted(each.commits, 'commit')} behind" for each in election.followers)
        what = f"no follower is in sync, so that a takeover would send a Gap: {late or 'none is connected'}"
        yield Trouble("election", what, "look at the log of the other replicas")
    elif not election.leads and not election.in_sync:
        what = f"{election.state}, and not in sync: {election.reason}"
        yield Trouble("election", what, f"look at the leader{f', {election.holder}' if election.holder else ''}")


def _of_informer(informer: InformerStatus) -> Iterator[Trouble]:
    if informer.ready:
        return
    waits = informer.reason in ("", OTHERS_FIRST) and informer.state is not InformerState.REFUSED
    first = f"its first list {'is under way' if waits else 'fails'}, with {counted(informer.objects, 'object')} so far"
    state = {
        InformerState.REFUSED: "the API server refuses the bridge",
        InformerState.UNKNOWN: "not watched",
        InformerState.LISTING: first,
        InformerState.RECONNECTING: "no watch is open",
    }.get(informer.state, "not ready")
    scope = f" ({informer.scope})" if informer.scope else ""
    what = f"{state}{scope}" + (f": {informer.reason}" if informer.reason else "")
    yield Trouble(f"resources.{informer.resource}", what, command="top" if waits else "check", under_way=waits)


def troubles_of_sink(sink: SinkStatus, rejected: Sequence[DeadLetterChain] = ()) -> Iterator[Trouble]:
    """Of one sink, of a stopped bridge as well. ``rejected``: see Rejected."""
    subject = f"sinks.{sink.name}"
    verb = "waits" if sink.backlog_records == 1 else "wait"
    backlog = f"; {counted(sink.backlog_records, 'record')} {verb}" if sink.backlog_records else ""
    because = f": {sink.last_error}" if sink.last_error else ""
    resume, again = f"sinks resume {sink.name}", f"sinks retry {sink.name}"
    match sink.state:
        case SinkState.PAUSED:
            yield Trouble(subject, f"paused by an operator{backlog}", command=resume)
        case SinkState.GONE:
            what = f"the destination wants no more records{because}{backlog}"
            yield Trouble(subject, what, "ask its owner, or remove the sink; to try it again:", resume)
        case SinkState.FENCED:
            what = f"another bridge has taken the destination over{because}{backlog}"
            yield Trouble(subject, what, "end or rename the other one, then", resume)
        case SinkState.OPENING:
            yield Trouble(subject, f"not set up yet{because}{backlog}", command="check", under_way=not because)
        case _ if sink.fails:
            wait = "; an attempt is under way" if sink.state is SinkState.DELIVERING else ""
            wait = wait if sink.retry_in is None else f"; next attempt in {sink.retry_in:.0f} s"
            what = f"deliveries fail{because}{wait}{backlog}"
            yield Trouble(subject, what, "repair the destination, then", again)
        case _ if sink.backlog_seconds > BEHIND_SECONDS:
            what = f"behind{backlog}, the oldest for {sink.backlog_seconds / 60:.0f} minutes"
            yield Trouble(subject, what, command="top --sort lag")
    if sink.dead_letters:
        yield _of_dead_letters(sink, rejected)


def _of_dead_letters(sink: SinkStatus, rejected: Sequence[DeadLetterChain]) -> Trouble:
    """Names the first object, and where it is the only one its dead letter, which a retry takes."""
    parked = f", {sink.parked} parked behind" if sink.parked else ""
    what = f"{counted(sink.dead_letters - sink.parked, 'record')} rejected{parked}"
    if not rejected:
        return Trouble(f"sinks.{sink.name}", what, command=f"dead-letters list {sink.name}")
    first = rejected[0].first
    again = "; it is tried again" if first.retrying else ""
    named = f"dead letter {first.number}, {first.resource} {first.key}: {first.reason}{again}"
    if len(rejected) > 1:
        return Trouble(f"sinks.{sink.name}", f"{what}; the first: {named}", command=f"dead-letters list {sink.name}")
    retry = f"dead-letters retry {sink.name} {first.number}"
    return Trouble(f"sinks.{sink.name}", f"{what}: {named}", "when the destination takes it:", retry)
