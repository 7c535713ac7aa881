"""Decides the next state of a list-watch: the state machine of client-go's reflector, without I/O or a clock.

``begin`` is the first state, ``next_request`` the request that a state makes, and ``step`` the effect of its answer;
``reflector`` drives them.

    NotSynced ──page──► Listing ──last page──► Synced ──opened──► Watching ──unreadable──► Doubting
     ▲  │                  ▲ │                   ▲ ▲                  │                        │
     │  └─ initial events ─┘ └── page failed ─┐  │ └──── hung up ─────┘                        │
     │       Streaming ── closing bookmark ───┼──┘                                             │
     └────────── expired, too large, very short, versions ran backwards, repair due ◄──────────┘

Proving precedes the next request after a start, and after a request that did not end as expected. A server with another
history is listed anew, from every state. An answer that does not belong to the request raises UnexpectedAnswer.

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

from bridge.informer.history.proof import Contradicted, OtherHistory, SameHistory, UnknownHistory
from bridge.informer.reflector.states import (
    Accepted,
    Answer,
    Doubting,
    EpochBegan,
    Event,
    Freshness,
    Happened,
    ListBegan,
    Listed,
    ListEnded,
    Listing,
    NotSynced,
    Overdue,
    Pace,
    PositionReached,
    ProofRequest,
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
    EventType,
    Expired,
    Failed,
    HungUp,
    ListRequest,
    Opened,
    Oversized,
    Page,
    Part,
    Refused,
    Silent,
    TooLarge,
    Unreadable,
    Unsupported,
    WatchRequest,
)
from bridge.model.versions import Checkpoint, is_older

LATE = 10.0
"""Seconds after its timeoutSeconds within which the end of a watch counts as caused by it."""


# ── Requests ──────────────────────────────────────────────────────────────────


def begin(checkpoint: Checkpoint | None, *, watch_list: bool) -> NotSynced | Proving:
    """The first state of a list-watch, from the checkpoint of its last run (None for the first run)."""
    if checkpoint is None:
        return NotSynced(watch_list=watch_list)
    if checkpoint.position is not None:
        return Proving(Synced(checkpoint.position, watch_list))
    # A list "not older than newest" would not do: a delete that a list found has no version among the checkpoint's
    # objects, and a cached list may still have the object.
    begins = NotSynced(checkpoint.newest, Freshness.CONSISTENT, watch_list)
    return begins if checkpoint.is_blank else Proving(begins)


def reached(state: State) -> str | None:
    """The newest version that the server sent, in its present history."""
    match state:
        case NotSynced(seen=seen) | Streaming(began=NotSynced(seen=seen)):
            return seen
        case Proving(then=then):
            return reached(then)
        case _:
            return state.version


def next_request(state: State, *, page_size: int, watch_timeout: int) -> ListRequest | WatchRequest | ProofRequest:
    """The next request. ``page_size`` is in objects, ``watch_timeout`` in seconds."""
    match state:
        case NotSynced() if state.streams:
            return WatchRequest(version=state.seen or "", timeout=watch_timeout, initial_events=True)
        case NotSynced():
            version = "" if state.freshness is Freshness.CONSISTENT else state.seen or "0"
            return ListRequest(version=version, limit=0 if state.whole else page_size)
        case Listing(next_page=None):
            raise AssertionError("a page is under way already")
        case Listing(next_page=token):
            return ListRequest(version="", limit=page_size, next_page=token)
        case Synced(version=version):
            return WatchRequest(version=version, timeout=watch_timeout)
        case Proving():
            return ProofRequest()
        case Streaming() | Watching() | Doubting():
            raise AssertionError(f"a watch is open already: {type(state).__name__}")


# ── Steps ─────────────────────────────────────────────────────────────────────


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


def anew(state: State) -> NotSynced:
    """A list from the beginning: known versions have no meaning in another history."""
    return NotSynced(None, Freshness.CONSISTENT, _watch_list(state))


def compared(state: State) -> NotSynced:
    """A list decides. The pages of a list that was under way may be of two histories: the next list is one page, which
    is of one history."""
    whole = isinstance(state.then if isinstance(state, Proving) else state, Listing)
    return NotSynced(reached(state), Freshness.CONSISTENT, _watch_list(state), whole)


def _watch_list(state: State) -> bool:
    match state:
        case Listing(began=began) | Streaming(began=began):
            return began.watch_list
        case Proving(then=then):
            return _watch_list(then)
        case _:
            return state.watch_list


# ── Lists, before the store has synced ────────────────────────────────────────


def not_synced(state: NotSynced, answer: Answer) -> Step:
    """The effect of an answer to the request that begins a list. Raises UnexpectedAnswer."""
    match answer:
        case Part() | Page():
            return _page(state, answer, first=True, complete=True)
        case Oversized():
            # A server may answer from its cache without pages, regardless of the limit; a consistent list has pages.
            return Step(replace(state, freshness=Freshness.CONSISTENT, whole=False), pace=Pace.BACK_OFF)
        case Opened():
            return Step(Streaming(state), (ListBegan(),))
        case Unsupported() if state.streams:
            return Step(replace(state, watch_list=False))
        case Expired() | TooLarge() if state.freshness is Freshness.CACHED:
            # The server has not reached the newest known version: a consistent list has the version that it has.
            return Step(replace(state, freshness=Freshness.CONSISTENT))
        case Failed() | HungUp() | Silent() | VeryShort() if state.streams:
            return Step(replace(state, watch_list=False), pace=Pace.BACK_OFF)
        case Expired() | TooLarge() | Failed() | Unsupported():
            return Step(state, pace=Pace.BACK_OFF)
        case Busy(after=after):
            return Step(state, pace=Pace.BACK_OFF, after=after)
        case Refused():
            return Step(state, pace=Pace.SLOWLY)
        case _:
            raise UnexpectedAnswer(state, answer)


def listing(state: Listing, answer: Answer) -> Step:
    """The effect of a further part or page of a list. Raises UnexpectedAnswer."""
    again = replace(state.began, seen=state.version, watch_list=False)
    match answer:
        case Part():
            return Step(state, (Listed(answer.objects),))
        case Page():
            return _page(state.began, answer, first=False, complete=state.complete, version=state.version)
        case _ if state.next_page is None:  # The first page broke off, and it has no continue token.
            return not_synced(again, answer)
        case Oversized():
            return Step(state, pace=Pace.BACK_OFF)
        case Expired():
            # The pages took longer than the server keeps history: list again in a single page, not older than this
            # list. Some servers page all the same, so a second expiry backs off.
            pace = Pace.BACK_OFF if state.began.whole else Pace.AT_ONCE
            return Step(replace(again, whole=True), pace=pace)
        case Failed() if not state.failures:
            return Step(replace(state, failures=1), pace=Pace.BACK_OFF)
        case TooLarge() | Failed() | Unsupported():
            # A continue token of another server version causes a 400, a token from before a restore "too large" or 500.
            return Step(again, pace=Pace.BACK_OFF)
        case Busy(after=after):
            return Step(state, pace=Pace.BACK_OFF, after=after)
        case Refused():
            return Step(state, pace=Pace.SLOWLY)
        case _:
            raise UnexpectedAnswer(state, answer)


def _page(began: NotSynced, page: Page | Part, *, first: bool, complete: bool, version: str | None = None) -> Step:
    updates: list[StoreUpdate] = []
    if first and began.seen is not None and is_older(page.version, began.seen):
        updates.append(RanBackwards(was=began.seen, now=page.version))
        began = replace(began, seen=page.version)
    if first:
        updates.append(ListBegan())
    if page.objects:
        updates.append(Listed(page.objects))
    version = version or page.version
    if isinstance(page, Part):
        return Step(Listing(began, version, None, complete), tuple(updates))
    complete = complete and not page.unreadable
    if page.next_page is not None:
        return Step(Listing(began, version, page.next_page, complete), tuple(updates))
    updates.append(ListEnded(version, complete))
    return Step(Synced(version, began.watch_list, doubt=not complete), tuple(updates))


def streaming(state: Streaming, answer: Answer) -> Step:
    """The effect of an answer of an open WatchList, before its initial events have ended. Raises UnexpectedAnswer."""
    list_instead = replace(state.began, watch_list=False)
    match answer:
        case Announced(events=events):
            # If the stream breaks off, the next list must not be older: another server may lag behind.
            seen = _newest(events, state.began.seen)
            return Step(replace(state, began=replace(state.began, seen=seen)), tuple(_initial(events)))
        case Bookmark(version=version, initial_events_end=True):
            if state.began.seen is not None and is_older(version, state.began.seen):
                return Step(replace(state.began, freshness=Freshness.CONSISTENT), pace=Pace.BACK_OFF)
            watching = Watching if state.complete else Doubting
            return Step(watching(version, state.began.watch_list), (ListEnded(version, state.complete),))
        case Bookmark():
            return Step(state)
        case Unreadable():
            return Step(replace(state, complete=False))
        case Expired():
            return Step(replace(state.began, freshness=Freshness.CONSISTENT), pace=Pace.AT_ONCE_IF_RARE)
        case TooLarge():
            return Step(replace(state.began, freshness=Freshness.CONSISTENT), pace=Pace.BACK_OFF)
        case HungUp() | TimedOut() | Silent() | Overdue() | VeryShort() | Failed() | Unsupported():
            # client-go repeats the WatchList without end here; some servers and proxies never send the bookmark.
            return Step(list_instead, pace=Pace.BACK_OFF)
        case Busy(after=after):
            return Step(state.began, pace=Pace.BACK_OFF, after=after)
        case Refused():
            return Step(state.began, pace=Pace.SLOWLY)
        case _:
            raise UnexpectedAnswer(state, answer)


def _newest(events: list[Event], seen: str | None) -> str | None:
    """The newest numeric version. Initial events have no order."""
    for _, thing in events:
        if is_older(seen or "0", thing.resource_version):
            seen = thing.resource_version
    return seen


def _initial(events: list[Event]) -> list[StoreUpdate]:
    """The updates for events before the bookmark that ends the initial events: objects, and deletes of some of them."""
    updates: list[StoreUpdate] = []
    for kind, thing in events:
        if kind is EventType.DELETED:
            updates.append(Happened([(kind, thing)], None))
        elif updates and isinstance(updates[-1], Listed):
            updates[-1].objects.append(thing)
        else:
            updates.append(Listed([thing]))
    return updates


# ── Watches, and proofs ───────────────────────────────────────────────────────


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


_STEPS: Mapping[type, Callable[[Any, Answer], Step]] = {
    NotSynced: not_synced,
    Listing: listing,
    Streaming: streaming,
    Synced: _synced,
    Watching: _watching,
    Doubting: _doubting,
    Proving: _proving,
}


# ── The end of a watch, and reasons in words ──────────────────────────────────


def end_of_watch(
    end: HungUp, request: WatchRequest, seconds: float, *, is_first: bool, very_short: float
) -> HungUp | Failed | VeryShort | TimedOut:
    """``seconds``: the duration of the watch. ``is_first``: no event came before. ``very_short``: seconds within which
    an end without an event suggests that the server has forgotten the version."""
    if is_first and seconds < very_short:
        # Only a clean end may stand for a 410.
        return Failed(end.reason) if end.torn else VeryShort()
    return TimedOut() if not end.torn and _is_over(request, seconds) else end


def _is_over(request: WatchRequest, seconds: float) -> bool:
    """Whether the watch's duration matches its timeoutSeconds, with a margin for the server's clock."""
    return request.timeout - min(1.0, 0.1 * request.timeout) <= seconds <= request.timeout + LATE


def reason_of(answer: Answer) -> str:
    match answer:
        case TimedOut():
            return "the watch reached its timeout"
        case OtherHistory() | Contradicted():
            return "the API server has another history"
        case VeryShort():
            return "the watch ended within a second and without an event"
        case Overdue():
            return "the bookmark that ends the initial events did not come"
        case RepairDue():
            return "a list is due after unreadable data"
        case Silent(seconds=seconds):
            return f"the server sent no data for {seconds:.0f} s"
        case Announced() | Bookmark():
            return "versions ran backwards"
        case _:
            return getattr(answer, "reason", type(answer).__name__)
