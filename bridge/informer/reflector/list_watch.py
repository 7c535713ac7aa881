"""The list-watch state machine of client-go's reflector. Pure: no I/O, no clock. ``reflector`` drives it.

    NotSynced ──page──► Listing ──last page──► Synced ──opened──► Watching ──unreadable──► Doubting
     ▲  │                  ▲ │                   ▲ ▲                  │                        │
     │  └─ initial events ─┘ └── page failed ─┐  │ └──── hung up ─────┘                        │
     │       Streaming ── closing bookmark ───┼──┘                                             │
     └────────── expired, too large, very short, versions ran backwards, repair due ◄──────────┘

Proving precedes the next request after a start, and after a request that did not end as expected. A server with another
history is listed anew, from every state.

Differences from client-go (tools/cache/reflector.go): a failed page is requested again, not the whole list; a failed
watch continues from its version, and only a second failure causes a list; an unreadable item or line does not end the
list or the watch, but causes a later list, and no position is saved until then; an event older than its predecessor is
dropped.

The reasons. A version that is still valid costs the API server less than a list, so a failed watch is repeated from its
version once; a watch that is reset or torn in its first second is an ordinary failure, and only a server that ends a
watch properly, that soon and without an event, may mean 410. To end a watch at an unreadable line, and repeat it from
the last version, gives the same line again, and to skip the line passes over a version silently; so the stream goes on,
no position is saved, and after a back-off a list repairs the gap (``Doubting``).

An idle timeout is a half-open connection, which a new watch from the same version repairs. But a server that was
restored from a backup accepts a watch from a version that it has not reached, and sends no events until it has (seen on
kube-apiserver 1.36). Proving finds that after the first timeout. A second timeout in a row causes a list, where
client-go waits for ever: a resource whose server sends no bookmarks at all is listed every three minutes and compared,
without exporting a record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from bridge.informer.history.outcomes import OtherHistory, SameHistory, UnknownHistory
from bridge.informer.reflector.listing import listing, not_synced, streaming
from bridge.informer.reflector.requests import anew, compared
from bridge.informer.reflector.states import (
    Accepted,
    Answer,
    Contradicted,
    Doubting,
    EpochBegan,
    Event,
    Freshness,
    Listing,
    NotSynced,
    Pace,
    PositionReached,
    Proving,
    RanBackwards,
    RepairDue,
    State,
    Step,
    StoreUpdate,
    Streaming,
    Suspected,
    Synced,
    TimedOut,
    UnexpectedAnswer,
    VeryShort,
    Watching,
)
from bridge.model.answers import (
    Announced,
    Bookmark,
    Busy,
    Expired,
    Failed,
    HungUp,
    Opened,
    Refused,
    Silent,
    TooLarge,
    Unreadable,
    Unsupported,
)
from bridge.model.versions.version import is_older


def step(state: State, answer: Answer) -> Step:
    """The effect of an answer: the next state, the updates of the store, and the time of the next request. Raises
    UnexpectedAnswer."""
    match answer:
        case OtherHistory(was=was, now=now):
            return Step(anew(state), (EpochBegan(was, now),))
        case Contradicted(was=was, now=now):
            return Step(anew(state), (RanBackwards(was, now),))
        case UnknownHistory():
            return Step(compared(state), (Suspected(),))
    taken = _STEPS[type(state)](state, answer)
    if isinstance(taken.state, Watching | Doubting | Streaming):
        return taken  # A watch is open: nothing was out of sight.
    if may_be_another_store(state, answer) and (unproven := _unproven(taken.state)):
        return replace(taken, state=unproven)
    return taken


def may_be_another_store(state: State, answer: Answer) -> bool:
    """Whether another server, or a server with another store, may answer the next request. A watch that ended by its
    timeout does not suggest that, nor does an answer that a healthy server gives."""
    if isinstance(state, Watching | Doubting | Streaming):
        return not isinstance(answer, TimedOut | RepairDue)
    return isinstance(answer, Failed | Busy | TooLarge | HungUp | Silent | VeryShort)


def _unproven(state: State) -> Proving | None:
    """The proof that the state needs; None if no objects are known, or if a watch is open."""
    match state:
        case NotSynced(seen=str()) | Listing() | Synced():
            return Proving(state)
    return None


def _synced(state: Synced, answer: Answer) -> Step:
    match answer:
        case Opened() if state.doubt:
            return Step(Doubting(state.version, state.watch_list))
        case Opened():
            return Step(Watching(state.version, state.watch_list, state.failures))
        case Expired() | TooLarge():
            return _expired(state, answer)
        case Busy(after=after):
            return Step(state, pace=Pace.BACK_OFF, after=after)
        case Failed() | Unsupported() | HungUp() | Silent() | VeryShort() if not state.failures:
            # The first failure keeps the version; after the second in a row, a list decides.
            return Step(replace(state, failures=1), pace=Pace.BACK_OFF)
        case Failed() | Unsupported() | HungUp() | Silent() | VeryShort():
            return Step(_relist(state), pace=Pace.BACK_OFF)
        case Refused():
            return Step(state, pace=Pace.SLOWLY)
        case _:
            raise UnexpectedAnswer(state, answer)


def _watching(state: Watching, answer: Answer) -> Step:
    again = Synced(state.version, state.watch_list)
    match answer:
        case Announced(events=events):
            count, version = _ascending(events, state.version)
            updates = (Accepted(count, version),) if count else ()
            if count < len(events):
                return _backwards(replace(state, version=version), updates)
            return Step(Watching(version, state.watch_list), updates)
        case Bookmark(version=version):
            if is_older(version, state.version):
                return _backwards(state)
            return Step(Watching(version, state.watch_list), (PositionReached(version),))
        case Unreadable():
            return Step(Doubting(state.version, state.watch_list))
        case HungUp() | TimedOut():
            # Servers close watches every few minutes; the version stays valid.
            return Step(again)
        case Silent() if not state.failures:
            return Step(replace(again, failures=1))
        case Silent():
            # Silence twice in a row is not a half-open connection. A server that was restored from a backup accepts a
            # watch from a version that it has not reached, and is silent until then (kubernetes/kubernetes#107457).
            return Step(_relist(state, Freshness.CONSISTENT))
        case VeryShort():
            return Step(_relist(state), pace=Pace.BACK_OFF)
        case Expired() | TooLarge():
            return _expired(state, answer)
        case Busy(after=after):
            return Step(again, pace=Pace.BACK_OFF, after=after)
        case Failed() | Unsupported():
            return _synced(replace(again, failures=state.failures), answer)
        case Refused():
            return Step(again, pace=Pace.SLOWLY)
        case _:
            raise UnexpectedAnswer(state, answer)


def _doubting(state: Doubting, answer: Answer) -> Step:
    match answer:
        case Announced(events=events):
            count, version = _ascending(events, state.version)
            updates = (Accepted(count, None),) if count else ()
            if count < len(events):
                return _backwards(replace(state, version=version), updates)
            return Step(Doubting(version, state.watch_list), updates)
        case Bookmark(version=version):
            if is_older(version, state.version):
                return _backwards(state)
            return Step(Doubting(version, state.watch_list))
        case Unreadable():
            return Step(state)
        case RepairDue():
            return Step(_relist(state))
        case Busy(after=after):
            return Step(_relist(state), pace=Pace.BACK_OFF, after=after)
        case Refused():
            return Step(_relist(state), pace=Pace.SLOWLY)
        case Expired() | TooLarge():
            return _expired(state, answer)
        case HungUp() | TimedOut() | Silent() | VeryShort() | Failed() | Unsupported():
            return Step(_relist(state), pace=Pace.BACK_OFF)
        case _:
            raise UnexpectedAnswer(state, answer)


def _proving(state: Proving, answer: Answer) -> Step:
    match answer:
        case SameHistory():
            return Step(state.then)
        case Busy(after=after):
            return Step(state, pace=Pace.BACK_OFF, after=after)
        case Failed():
            return Step(state, pace=Pace.BACK_OFF)
        case Refused():
            return Step(state, pace=Pace.SLOWLY)
        case _:
            raise UnexpectedAnswer(state, answer)


_STEPS: Mapping[type, Callable[[Any, Answer], Step]] = {
    NotSynced: not_synced,
    Listing: listing,
    Streaming: streaming,
    Synced: _synced,
    Watching: _watching,
    Doubting: _doubting,
    Proving: _proving,
}


# ── What these have in common ────────────────────────────────────────────────


def _relist(state: Synced | Watching | Doubting, freshness: Freshness = Freshness.CACHED) -> NotSynced:
    return NotSynced(state.version, freshness, state.watch_list)


def _expired(state: Synced | Watching | Doubting, answer: Expired | TooLarge) -> Step:
    """A list decides. The list is made at once if the version expired, as at the start of an API server; but if lists
    take longer than the server keeps history, every next watch expires as well, so repeated lists back off."""
    if isinstance(answer, Expired):
        return Step(_relist(state), pace=Pace.AT_ONCE_IF_RARE)
    return Step(_relist(state, Freshness.CONSISTENT), pace=Pace.BACK_OFF)


def _backwards(state: Watching | Doubting, updates: tuple[StoreUpdate, ...] = ()) -> Step:
    """A consistent list shows whether an old event was sent again or the store was restored."""
    return Step(_relist(state, Freshness.CONSISTENT), updates, Pace.BACK_OFF)


def _ascending(events: list[Event], version: str) -> tuple[int, str]:
    """The number of events in front of an event that is older than its predecessor, and the version reached with
    them."""
    for index, (_, thing) in enumerate(events):
        if is_older(thing.resource_version, version):
            return index, version
        version = thing.resource_version
    return len(events), version
