"""The first state of a list-watch, at a start and in another history, and the request that a state makes. Pure."""

from __future__ import annotations

from bridge.informer.reflector.states import (
    Doubting,
    Freshness,
    Listing,
    NotSynced,
    ProofRequest,
    Proving,
    State,
    Streaming,
    Synced,
    Watching,
)
from bridge.model.answers import ListRequest, WatchRequest
from bridge.model.versions.version_table import Checkpoint


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
