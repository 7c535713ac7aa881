"""The list-watch state machine, transition by transition. Nothing here waits."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from bridge.informer.history.proof import Contradicted, OtherHistory, SameHistory, UnknownHistory
from bridge.informer.reflector import list_watch
from bridge.informer.reflector.list_watch import begin, next_request, reached
from bridge.informer.reflector.states import (
    Accepted,
    Answer,
    Doubting,
    EpochBegan,
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
    Refused,
    Silent,
    TooLarge,
    Unreadable,
    Unsupported,
    WatchRequest,
)
from bridge.model.object import ApiObject
from bridge.model.versions import Checkpoint, VersionTable
from tests.kit.objects import a_pod
from tests.kit.scripted_source import added, closing_bookmark, deleted, modified, page, part

WEB, DB = a_pod("web"), a_pod("db")

LISTS = NotSynced(watch_list=False)
STREAMS = NotSynced()
SYNCED = Synced("7", watch_list=False)
WATCHING = Watching("7", watch_list=False)
DOUBTING = Doubting("7", watch_list=False)

EXPIRED, TOO_LARGE, FAILED = Expired("too old"), TooLarge("too large"), Failed("500")
UNSUPPORTED, REFUSED, HUNG_UP, SILENT = Unsupported("400"), Refused(403, "forbidden"), HungUp("timeout"), Silent(90)


def step(state: State, answer: Answer) -> Step:
    """Where the history is proven at once. When it has to be is at the end of this file."""
    taken = list_watch.step(state, answer)
    return replace(taken, state=proven(taken.state))


def proven(state: State) -> State:
    return state.then if isinstance(state, Proving) else state


def asked(state: State) -> ListRequest | WatchRequest | ProofRequest:
    return next_request(proven(state), page_size=500, watch_timeout=400)


def after(state: State, *answers: Answer) -> Step:
    """The last step of a row of answers."""
    for answer in answers:
        taken = step(state, answer)
        state = taken.state
    return taken


# ── What comes next, by state and answer ─────────────────────────────────────

PAGING = Listing(replace(LISTS, seen="4"), version="7", next_page="token", complete=True)
SEEN = {"lists": replace(LISTS, seen="7"), "streams": replace(STREAMS, seen="7")}
CONSISTENT = replace(LISTS, seen="7", freshness=Freshness.CONSISTENT)
STREAMING = Streaming(SEEN["streams"])
BUSY = Busy("429", after=5.0)

CACHED_LIST, LIST_AT_7 = ListRequest(version="0", limit=500), ListRequest(version="7", limit=500)
NEWEST_LIST, PAGE = ListRequest(version="", limit=500), ListRequest(version="", limit=500, next_page="token")
WATCH_AT_7 = WatchRequest(version="7", timeout=400)
STREAM, STREAM_AT_7 = (WatchRequest(version=version, timeout=400, initial_events=True) for version in ("", "7"))


@pytest.mark.parametrize(
    ("state", "answers", "pace", "request_after"),
    [
        # A list, and the pages after its first.
        (LISTS, [FAILED], Pace.BACK_OFF, CACHED_LIST),
        (LISTS, [BUSY], Pace.BACK_OFF, CACHED_LIST),
        (LISTS, [REFUSED], Pace.SLOWLY, CACHED_LIST),
        (SEEN["lists"], [EXPIRED], Pace.AT_ONCE, NEWEST_LIST),  # The server has not come as far again.
        (SEEN["lists"], [TOO_LARGE], Pace.AT_ONCE, NEWEST_LIST),
        *((CONSISTENT, [each], Pace.BACK_OFF, NEWEST_LIST) for each in (EXPIRED, TOO_LARGE, FAILED, UNSUPPORTED)),
        (replace(LISTS, whole=True), [Oversized("too much")], Pace.BACK_OFF, NEWEST_LIST),
        (PAGING, [EXPIRED], Pace.AT_ONCE, ListRequest(version="7", limit=0)),
        # A server that pages a whole list is not hammered.
        (PAGING, [EXPIRED, page(at=8, next_page="x"), EXPIRED], Pace.BACK_OFF, ListRequest(version="8", limit=0)),
        *((PAGING, [each], Pace.BACK_OFF, PAGE) for each in (FAILED, BUSY, Oversized("too much"))),
        (PAGING, [REFUSED], Pace.SLOWLY, PAGE),
        # A continue token of another server version is a 400; one of a restored etcd is "too large", or a 500.
        *((PAGING, each, Pace.BACK_OFF, LIST_AT_7) for each in ([FAILED, FAILED], [UNSUPPORTED], [TOO_LARGE])),
        (PAGING, [FAILED, page(at=7, next_page="token"), FAILED], Pace.BACK_OFF, PAGE),
        (PAGING, [part(DB.at(4), at=7), FAILED], Pace.BACK_OFF, PAGE),
        # A WatchList.
        (STREAMS, [UNSUPPORTED], Pace.AT_ONCE, CACHED_LIST),
        *((STREAMS, [each], Pace.BACK_OFF, CACHED_LIST) for each in (HUNG_UP, SILENT, VeryShort(), FAILED)),
        *(
            (STREAMING, [each], Pace.BACK_OFF, LIST_AT_7)
            for each in (HUNG_UP, SILENT, Overdue(), VeryShort(), FAILED, UNSUPPORTED, TimedOut())
        ),
        (SEEN["streams"], [EXPIRED], Pace.AT_ONCE, NEWEST_LIST),
        (SEEN["streams"], [TOO_LARGE], Pace.AT_ONCE, NEWEST_LIST),
        (STREAMING, [EXPIRED], Pace.AT_ONCE_IF_RARE, NEWEST_LIST),
        (STREAMING, [TOO_LARGE], Pace.BACK_OFF, NEWEST_LIST),
        *((each, [BUSY], Pace.BACK_OFF, STREAM_AT_7) for each in (SEEN["streams"], STREAMING)),
        *((each, [REFUSED], Pace.SLOWLY, STREAM_AT_7) for each in (SEEN["streams"], STREAMING)),
        # A watch.
        *((WATCHING, [each], Pace.AT_ONCE, WATCH_AT_7) for each in (HUNG_UP, SILENT, TimedOut())),
        (WATCHING, [VeryShort()], Pace.BACK_OFF, LIST_AT_7),
        # Where listing takes longer than the server keeps history, each list is followed by another 410.
        *((each, [EXPIRED], Pace.AT_ONCE_IF_RARE, LIST_AT_7) for each in (SYNCED, WATCHING, DOUBTING)),
        *((each, [TOO_LARGE], Pace.BACK_OFF, NEWEST_LIST) for each in (SYNCED, WATCHING, DOUBTING)),
        *((each, [BUSY], Pace.BACK_OFF, WATCH_AT_7) for each in (SYNCED, WATCHING)),
        *((each, [REFUSED], Pace.SLOWLY, WATCH_AT_7) for each in (SYNCED, WATCHING)),
        # The first failure keeps the version; the second in a row does not, whether or not the watch opened between.
        *((each, [fail], Pace.BACK_OFF, WATCH_AT_7) for each in (SYNCED, WATCHING) for fail in (FAILED, UNSUPPORTED)),
        *((each, [FAILED, FAILED], Pace.BACK_OFF, LIST_AT_7) for each in (SYNCED, WATCHING)),
        *((each, [UNSUPPORTED, Opened(), FAILED], Pace.BACK_OFF, LIST_AT_7) for each in (SYNCED, WATCHING)),
        *(
            (WATCHING, [FAILED, Opened(), each, FAILED], Pace.BACK_OFF, WatchRequest(version="8", timeout=400))
            for each in (modified(WEB.at(8)), Bookmark("8"))
        ),
        *((SYNCED, [each], Pace.BACK_OFF, WATCH_AT_7) for each in (HUNG_UP, SILENT, VeryShort())),
        *((SYNCED, [each, each], Pace.BACK_OFF, LIST_AT_7) for each in (HUNG_UP, SILENT, VeryShort())),
        # A restored server accepts a watch from a version that it has not reached, and says nothing until it has.
        (WATCHING, [SILENT, Opened(), SILENT], Pace.AT_ONCE, NEWEST_LIST),
        (WATCHING, [SILENT, Opened(), Bookmark("8"), SILENT], Pace.AT_ONCE, WatchRequest(version="8", timeout=400)),
        # A watch in doubt.
        *(
            (DOUBTING, [each], Pace.BACK_OFF, LIST_AT_7)
            for each in (HUNG_UP, SILENT, VeryShort(), FAILED, UNSUPPORTED, BUSY, TimedOut())
        ),
        (DOUBTING, [REFUSED], Pace.SLOWLY, LIST_AT_7),
        (DOUBTING, [modified(WEB.at(7)), RepairDue()], Pace.AT_ONCE, LIST_AT_7),
        # After a consistent list, whether or not it failed before, the cache may serve the next, and a WatchList.
        (CONSISTENT, [page(at=7), Opened(), EXPIRED], Pace.AT_ONCE_IF_RARE, LIST_AT_7),
        (
            NotSynced("7", Freshness.CONSISTENT),
            [FAILED, page(at=7), Opened(), EXPIRED],
            Pace.AT_ONCE_IF_RARE,
            STREAM_AT_7,
        ),
        (STREAMS, [Opened(), closing_bookmark(7), EXPIRED], Pace.AT_ONCE_IF_RARE, STREAM_AT_7),
        (STREAMS, [UNSUPPORTED, page(at=7), Opened(), EXPIRED], Pace.AT_ONCE_IF_RARE, LIST_AT_7),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, State) else None,
)
def test_each_answer_leads_to_a_request_at_its_time(
    state: State, answers: list[Answer], pace: Pace, request_after: ListRequest | WatchRequest
) -> None:
    taken = after(state, *answers)

    assert (taken.pace, asked(taken.state)) == (pace, request_after)
    assert taken.after == (5.0 if answers[-1] is BUSY else None), "the server's Retry-After"
    assert taken.updates == () or isinstance(answers[-1], Bookmark)


# ── What a list brings ───────────────────────────────────────────────────────


def test_the_first_list_takes_any_cached_state_in_pages_of_500() -> None:
    assert asked(LISTS) == CACHED_LIST
    assert asked(SEEN["lists"]) == LIST_AT_7, "a relist is not older than what was seen"
    assert (asked(STREAMS), asked(SEEN["streams"])) == (STREAM, STREAM_AT_7)


@pytest.mark.parametrize("objects", [[], [WEB.at(3), DB.at(5)]])
def test_after_a_list_in_one_page_a_watch_starts_at_its_version(objects: list[ApiObject]) -> None:
    done = step(LISTS, page(*objects, at=7))

    listed = (Listed(objects),) if objects else ()
    assert done == Step(SYNCED, (ListBegan(), *listed, ListEnded("7", complete=True)))
    assert asked(done.state) == WATCH_AT_7


def test_a_list_in_pages_ends_at_the_version_of_its_first_page() -> None:
    first = step(LISTS, page(WEB.at(3), at=7, next_page="token"))
    assert first.updates == (ListBegan(), Listed([WEB.at(3)]))
    assert asked(first.state) == PAGE

    last = step(first.state, page(DB.at(5), at=9))
    assert last == Step(SYNCED, (Listed([DB.at(5)]), ListEnded("7", complete=True)))


def test_a_page_in_parts_is_delivered_part_by_part() -> None:
    begun = step(LISTS, part(WEB.at(3), at=7))
    assert begun.updates == (ListBegan(), Listed([WEB.at(3)]))
    more = step(begun.state, part(DB.at(4), at=7))
    assert more.updates == (Listed([DB.at(4)]),)
    assert step(more.state, page(at=7)) == Step(SYNCED, (ListEnded("7", complete=True),))


@pytest.mark.parametrize("end", [FAILED, EXPIRED, TOO_LARGE, BUSY, REFUSED, Oversized("too much")])
def test_a_first_page_that_breaks_off_is_listed_again_not_older(end: Answer) -> None:
    state = after(LISTS, part(WEB.at(3), at=7), end).state

    assert reached(state) == "7"
    assert asked(state) in [LIST_AT_7, NEWEST_LIST]


@pytest.mark.parametrize(
    ("state", "answers"),
    [
        (LISTS, [part(WEB.at(3), at=7), page(at=7, unreadable=("no name",))]),
        (LISTS, [page(WEB.at(3), at=7, next_page="token", unreadable=("no uid",)), page(at=7)]),
        (Streaming(STREAMS), [Unreadable("no uid"), added(WEB.at(3)), closing_bookmark(7)]),
    ],
    ids=["in a part", "in a page", "in the initial events"],
)
def test_an_unreadable_item_makes_the_whole_list_incomplete(state: State, answers: list[Answer]) -> None:
    assert after(state, *answers).updates == (ListEnded("7", complete=False),)


@pytest.mark.parametrize("between", [[], [BUSY], [FAILED], [REFUSED]])
def test_after_an_incomplete_list_the_watch_is_in_doubt(between: list[Answer]) -> None:
    assert after(LISTS, page(at=7, unreadable=("no uid",)), *between, Opened()).state == DOUBTING


# ── What a WatchList and a watch bring ───────────────────────────────────────


def test_initial_events_end_with_their_bookmark_and_watch_on() -> None:
    streaming = step(STREAMS, Opened())
    assert streaming == Step(Streaming(STREAMS), (ListBegan(),))

    taken = step(streaming.state, added(DB.at(5), WEB.at(3)))
    assert taken == Step(Streaming(NotSynced("5")), (Listed([DB.at(5), WEB.at(3)]),))
    assert step(taken.state, Bookmark("7")) == Step(taken.state), "another bookmark does not end them"

    done = step(taken.state, closing_bookmark(7))
    assert done == Step(Watching("7", watch_list=True), (ListEnded("7", complete=True),))


def test_changes_within_initial_events_reach_no_position() -> None:
    events = [
        (EventType.ADDED, WEB.at(3)),
        (EventType.DELETED, DB.at(8)),
        (EventType.MODIFIED, WEB.at(9)),
        (EventType.ADDED, DB.at(10)),
    ]

    assert step(Streaming(STREAMS), Announced(events)).updates == (
        Listed([WEB.at(3)]),
        Happened([(EventType.DELETED, DB.at(8))], None),
        Listed([WEB.at(9), DB.at(10)]),
    )


@pytest.mark.parametrize("end", [HUNG_UP, BUSY, REFUSED])
def test_broken_initial_events_set_the_floor_of_the_next_list(end: Answer) -> None:
    """Else a list from the cache of a server that lags behind would bring older versions of exported objects."""
    done = after(STREAMS, Opened(), added(DB.at(12), WEB.at(3)), added(WEB.at(9)), end)

    assert reached(done.state) == "12"


@pytest.mark.parametrize(
    ("answer", "updates"),
    [
        (Announced([(EventType.ADDED, WEB.at(8)), (EventType.DELETED, DB.at(9))]), (Accepted(2, position="9"),)),
        (Bookmark("9"), (PositionReached("9"),)),
    ],
    ids=["events", "a bookmark"],
)
def test_a_watch_reaches_the_version_of_what_it_sends(answer: Answer, updates: tuple[StoreUpdate, ...]) -> None:
    assert step(SYNCED, Opened()) == Step(WATCHING)
    assert step(WATCHING, answer) == Step(Watching("9", watch_list=False), updates)


def test_after_an_unreadable_line_no_position_is_reached() -> None:
    doubting = step(WATCHING, Unreadable("no metadata"))
    assert doubting == Step(DOUBTING)

    taken = step(DOUBTING, modified(WEB.at(9)))
    assert taken == Step(Doubting("9", watch_list=False), (Accepted(1, None),))
    assert step(taken.state, Bookmark("12")) == Step(Doubting("12", watch_list=False))
    assert step(taken.state, Unreadable("again")) == Step(taken.state)
    repair = step(taken.state, RepairDue())
    assert asked(repair.state) == ListRequest(version="9", limit=500), "not older than the last event"


# ── Where it begins ──────────────────────────────────────────────────────────


@pytest.mark.parametrize("watch_list", [True, False])
def test_what_never_ran_begins_with_whatever_the_cache_has(watch_list: bool) -> None:
    assert begin(None, watch_list=watch_list) == NotSynced(watch_list=watch_list)


def test_who_remembers_nothing_but_an_epoch_has_nothing_to_prove() -> None:
    start = begin(Checkpoint(VersionTable(), None, None, 2), watch_list=True)

    assert start == NotSynced(None, Freshness.CONSISTENT, watch_list=True)


@pytest.mark.parametrize(("position", "request_after"), [("7", WATCH_AT_7), (None, NEWEST_LIST)])
def test_what_is_remembered_is_proven_and_gone_on_from(
    position: str | None, request_after: ListRequest | WatchRequest
) -> None:
    """Without a position, the newest state is compared: a cache that is behind could show again what the last list
    found deleted."""
    start = begin(Checkpoint(VersionTable(), position, newest="7"), watch_list=True)

    assert isinstance(start, Proving)
    assert asked(start) == request_after
    if position is None:
        assert RanBackwards("7", "5") in step(start.then, page(at=5)).updates


# ── Versions ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("answer", [page(WEB.at(40), at=50), part(WEB.at(40), at=50)], ids=["page", "part"])
def test_a_list_older_than_what_was_seen_begins_a_new_epoch(answer: Answer) -> None:
    done = step(NotSynced("90", Freshness.CONSISTENT, watch_list=False), answer)

    assert done.updates[:3] == (RanBackwards("90", "50"), ListBegan(), Listed([WEB.at(40)]))
    last = done if isinstance(answer, Page) else step(done.state, page(at=50))
    assert last.updates[-1] == ListEnded("50", complete=True)
    assert asked(last.state) == WatchRequest(version="50", timeout=400)


def test_the_pages_of_a_list_that_ran_backwards_begin_one_epoch() -> None:
    first = step(NotSynced("90", Freshness.CONSISTENT, watch_list=False), page(at=50, next_page="token"))
    assert RanBackwards("90", "50") in first.updates

    again = after(first.state, EXPIRED, page(at=51))
    assert again.updates == (ListBegan(), ListEnded("51", complete=True))


@pytest.mark.parametrize("state", [WATCHING, DOUBTING])
@pytest.mark.parametrize("backwards", [modified(WEB.at(6)), Bookmark("6")])
def test_an_older_version_is_believed_only_of_a_consistent_list(state: State, backwards: Answer) -> None:
    done = step(state, backwards)

    assert (done.updates, done.pace, asked(done.state)) == ((), Pace.BACK_OFF, NEWEST_LIST)
    assert RanBackwards("7", "6") in step(done.state, page(at=6)).updates


@pytest.mark.parametrize(("state", "position"), [(WATCHING, "8"), (DOUBTING, None)])
def test_what_came_before_an_older_version_in_one_batch_is_heard(state: State, position: str | None) -> None:
    """An old event that is sent again may be of an object that is gone, and would bring the object back."""
    done = step(state, added(WEB.at(8), DB.at(3), DB.at(9)))

    assert (done.updates, asked(done.state)) == ((Accepted(1, position),), NEWEST_LIST)
    assert RanBackwards("8", "7") in step(done.state, page(at=7)).updates


def test_a_bookmark_older_than_seen_versions_ends_no_list() -> None:
    done = step(Streaming(NotSynced("90")), closing_bookmark(50))

    assert (done.updates, done.pace, asked(done.state)) == ((), Pace.BACK_OFF, NEWEST_LIST)


def test_versions_that_are_no_numbers_have_no_order() -> None:
    assert step(Watching("b", watch_list=False), modified(WEB.at("a"))).state == Watching("a", watch_list=False)


# ── What does not belong together ────────────────────────────────────────────


@pytest.mark.parametrize(
    ("state", "answer"),
    [
        (LISTS, modified(WEB.at(8))),
        (LISTS, Bookmark("8")),
        (PAGING, Opened()),
        (Streaming(STREAMS), page(at=7)),
        (Streaming(STREAMS), RepairDue()),
        (SYNCED, page(at=7)),
        (SYNCED, deleted(WEB.at(8))),
        (WATCHING, page(at=7)),
        (WATCHING, Opened()),
        (WATCHING, Overdue()),
        (DOUBTING, page(at=7)),
    ],
)
def test_an_answer_to_another_request_raises(state: State, answer: Answer) -> None:
    with pytest.raises(UnexpectedAnswer, match=f"{type(answer).__name__} while {type(state).__name__}"):
        step(state, answer)


@pytest.mark.parametrize("state", [Streaming(STREAMS), WATCHING, DOUBTING])
def test_while_a_watch_is_open_nothing_else_is_asked(state: State) -> None:
    with pytest.raises(AssertionError, match="open already"):
        asked(state)


# ── Whether the server's history is still the known one ──────────────────────

SAME, OTHER, UNKNOWN = SameHistory(), OtherHistory("web at 7", "web at 5"), UnknownHistory("web is gone")


@pytest.mark.parametrize("state", [WATCHING, DOUBTING, Streaming(replace(STREAMS, seen="7"))])
@pytest.mark.parametrize("end", [HUNG_UP, SILENT, VeryShort(), FAILED, Busy("429"), EXPIRED, TOO_LARGE, REFUSED])
def test_a_watch_that_ended_early_must_prove_its_history(state: State, end: Answer) -> None:
    unproven = list_watch.step(state, end).state

    assert isinstance(unproven, Proving)
    assert next_request(unproven, page_size=500, watch_timeout=400) == ProofRequest()
    assert list_watch.step(unproven, SAME) == Step(unproven.then)


@pytest.mark.parametrize("state", [SYNCED, replace(LISTS, seen="7"), Listing(LISTS, "7", "token", complete=True)])
@pytest.mark.parametrize("failure", [FAILED, Busy("nobody listens"), TOO_LARGE])
def test_a_request_without_an_answer_makes_a_proof_necessary(state: State, failure: Answer) -> None:
    assert isinstance(list_watch.step(state, failure).state, Proving)


def test_a_watch_that_ended_as_asked_is_reopened_at_once() -> None:
    assert list_watch.step(WATCHING, TimedOut()) == Step(SYNCED)


@pytest.mark.parametrize(
    ("state", "answer"),
    [(DOUBTING, RepairDue()), (LISTS, FAILED), (STREAMS, FAILED), (replace(LISTS, seen="7"), EXPIRED)],
    ids=["a watch that is still open", "nothing is known", "nothing is known", "a server that answers"],
)
def test_where_there_is_nothing_to_prove_nothing_is_asked(state: State, answer: Answer) -> None:
    assert not isinstance(list_watch.step(state, answer).state, Proving)


def test_an_unclear_history_is_listed_under_suspicion() -> None:
    done = list_watch.step(Proving(SYNCED), UNKNOWN)

    assert done == Step(NotSynced("7", Freshness.CONSISTENT, watch_list=False), (Suspected(),))


@pytest.mark.parametrize(
    "state", [Proving(SYNCED), SYNCED, WATCHING, DOUBTING, LISTS, Listing(LISTS, "7", "x", complete=True)]
)
@pytest.mark.parametrize(
    ("answer", "updates"),
    [
        (OTHER, EpochBegan("web at 7", "web at 5")),
        (Contradicted("web at 7", "web at 5"), RanBackwards("web at 7", "web at 5")),
    ],
    ids=["found by others", "found here"],
)
def test_a_new_history_is_listed_whole_and_voids_old_versions(
    state: State, answer: Answer, updates: EpochBegan | RanBackwards
) -> None:
    assert list_watch.step(state, answer) == Step(NotSynced(None, Freshness.CONSISTENT, watch_list=False), (updates,))


@pytest.mark.parametrize(
    ("failure", "pace", "after"),
    [(FAILED, Pace.BACK_OFF, None), (Busy("429", 3.0), Pace.BACK_OFF, 3.0), (REFUSED, Pace.SLOWLY, None)],
)
def test_without_a_proof_nothing_is_trusted_and_it_is_retried(failure: Answer, pace: Pace, after: float | None) -> None:
    assert list_watch.step(Proving(SYNCED), failure) == Step(Proving(SYNCED), pace=pace, after=after)
