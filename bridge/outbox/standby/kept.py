"""What another replica keeps of a sink when this one begins to lead."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from msgspec.structs import replace

from bridge.facts import KeptElsewhere, Report
from bridge.model.primitives.election import replica_of
from bridge.model.versions.frontier import MOST_KEPT, MOST_RETIRED, Frontier, SinkFrontier, retired_key
from bridge.model.versions.held import KeptLetters, digests_in
from bridge.outbox.consumers.backfill import BackfillKind
from bridge.outbox.dead_letters import DeadLetters
from bridge.outbox.standby.progress import Replica
from bridge.outbox.standby.takeover import Takeover


def begun_by(known: Frontier, begun: Takeover, running: Collection[str], mine: Replica, start: str) -> Frontier:
    """``known``, as this replica goes on behind it. ``running``: the informers here. ``start``: see
    ``Frontier.start``."""
    kept = _kept(known, replica_of(mine.identity), led_last=begun.led_last)
    if begun.lacking and running:
        known = _without(known, known.informers.keys() - running)
    return replace(
        known,
        term=begun.term,
        by=mine.identity,
        version=mine.version,
        settings={},
        start=start,
        final=False,
        kept=kept,
        followed=_followed(known, replica_of(mine.identity)),
    )


def names_all(held: SinkFrontier) -> bool:
    """Whether the Lease names the objects of all its dead letters. A sink with dead letters of no object holds nothing
    back (``on_rejected: pass``)."""
    return held.names_all_parked and bool(held.objects or not held.dead_letters)


def _followed(known: Frontier, mine: str) -> tuple[str, ...]:
    if not all(map(names_all, known.sinks.values())):
        return ()
    names = dict.fromkeys([*known.followed, replica_of(known.by)])
    return tuple(name for name in names if name != mine)[-MOST_KEPT:]


def _without(known: Frontier, left: Collection[str]) -> Frontier:
    """Informers that do not run here have left: the sinks get a snapshot without their objects."""
    points = {key: point for key in sorted(left) if (point := known.informers[key]) is not None}
    names = [retired_key(key, point.epoch) for key, point in points.items()]
    retired = (*(each for each in known.retired if each not in names), *names)[-MOST_RETIRED:]
    sinks = {
        sink: replace(each, behind={key: point for key, point in each.behind.items() if key not in left})
        for sink, each in known.sinks.items()
    }
    informers = {key: point for key, point in known.informers.items() if key not in left}
    return replace(known, informers=informers, retired=retired, sinks=sinks)


def _kept(known: Frontier, mine: str, *, led_last: bool) -> Mapping[str, KeptLetters]:
    before = replica_of(known.by)
    found = {name: each for name, each in known.kept.items() if name != mine or each.former}
    if not led_last:
        # What another leader has stored is not here; nor is what this one had in a state directory that is lost.
        found = {name: replace(each, through=0) for name, each in found.items()}
    # A leader that gets dead letters may have stored some behind its last renewal, if it did not end in order.
    may_have = any(each.dead_letters for each in known.sinks.values())
    may_have = may_have or bool(known.kept and known.address and not known.final)
    # A name that is there already is of a former shard.
    if before != mine and before not in found and may_have:
        found[before] = KeptLetters(known.address)
    return dict(list(found.items())[-MOST_KEPT:])


def unnamed(known: Frontier, *, led_last: bool) -> Collection[str]:
    """Sinks with objects whose later records have to wait, and that the Lease does not name: more than there is room
    for. ``led_last``: this replica has led in the term before, so that it knows its own."""
    if led_last and not known.kept:
        return ()
    return [sink for sink, each in known.sinks.items() if not each.names_all_parked]


def take_kept(letters: DeadLetters, known: Frontier, sink: str, *, own: bool, is_unnamed: bool, report: Report) -> None:
    """Holds back the objects that have dead letters elsewhere. ``own``: this replica was the former leader.
    ``is_unnamed``: see ``unnamed``."""
    named = digests_in(known.sinks[sink].parked) if sink in known.sinks else set()
    letters.keys.found_named(named)
    if sink not in known.sinks:
        return
    if not own or known.kept:
        letters.hold(named, whole=not is_unnamed)
    for what in _said(known, sink, own=own, is_unnamed=is_unnamed):
        report(KeptElsewhere(sink, what, _keepers(known)))


def _keepers(known: Frontier) -> str:
    return ", ".join(name for name, each in known.kept.items() if each.former) or known.by


def _said(known: Frontier, sink: str, *, own: bool, is_unnamed: bool) -> Iterator[str]:
    """What the former leader keeps, for the operator."""
    held = known.sinks[sink]
    if is_unnamed:
        yield (
            f"{held.dead_letters} dead letters of {held.objects} objects, more than the Lease can name: the sink is"
            f" paused until `kubedelta sinks resume {sink}`, from which on later records of these objects are delivered"
        )
    elif held.dead_letters and not own:
        yield f"{held.dead_letters} dead letters"
    if held.backfill == BackfillKind.REPLAY and not own:
        yield "a replay under way; ask for it again"
