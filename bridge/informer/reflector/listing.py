"""The part of the list-watch state machine before the store has synced: lists, their pages, and WatchLists. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from bridge.informer.reflector.states import (
    Answer,
    Doubting,
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
    RanBackwards,
    Step,
    StoreUpdate,
    Streaming,
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
    Opened,
    Oversized,
    Page,
    Part,
    Refused,
    Silent,
    TooLarge,
    Unreadable,
    Unsupported,
)
from bridge.model.versions.version import is_older


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
