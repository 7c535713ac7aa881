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
    Refused,
    Silent,
    TooLarge,
    Unreadable,
    Unsupported,
    WatchRequest,
)
from bridge.model.versions.version_table import Checkpoint, VersionTable
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


# ── Pages that come in parts ─────────────────────────────────────────────────


def test_a_page_in_parts_is_delivered_part_by_part() -> None:
    begun = step(LISTS, part(WEB.at(3), at=7))
    assert begun.updates == (ListBegan(), Listed([WEB.at(3)]))
    more = step(begun.state, part(DB.at(4), at=7))
    assert more.updates == (Listed([DB.at(4)]),)
    assert step(more.state, page(at=7)) == Step(SYNCED, (ListEnded("7", complete=True),))


def test_parts_of_a_failed_later_page_do_not_change_the_retry() -> None:
    state = after(LISTS, page(WEB.at(3), at=7, next_page="token"), part(DB.at(4), at=7)).state
    assert asked(after(state, FAILED).state) == ListRequest(version="", limit=500, next_page="token")
    assert after(state, page(at=7)).updates == (ListEnded("7", complete=True),)


@pytest.mark.parametrize("end", [FAILED, EXPIRED, TOO_LARGE, Busy("429", 3), REFUSED, Oversized("too much")])
def test_a_first_page_that_breaks_off_is_listed_again_not_older(end: Answer) -> None:
    state = after(LISTS, part(WEB.at(3), at=7), end).state
    assert isinstance(state, NotSynced)
    assert state.seen == "7"
    assert asked(state) in [ListRequest(version="7", limit=500), ListRequest(version="", limit=500)]


def test_versions_that_ran_backwards_precede_the_first_part() -> None:
    seen = replace(LISTS, seen="9")
    begun = step(seen, part(WEB.at(3), at=7))
    assert begun.updates == (RanBackwards(was="9", now="7"), ListBegan(), Listed([WEB.at(3)]))
    assert step(begun.state, page(at=7)).updates == (ListEnded("7", complete=True),)


def test_an_unreadable_item_in_a_part_makes_the_list_incomplete() -> None:
    assert after(LISTS, part(WEB.at(3), at=7), page(at=7, unreadable=("no name",))).updates == (
        ListEnded("7", complete=False),
    )


def test_a_page_too_large_to_hold_is_asked_for_in_real_pages() -> None:
    step_taken = step(replace(LISTS, whole=True), Oversized("too much"))
    assert asked(step_taken.state) == ListRequest(version="", limit=500)
    assert step_taken.pace is Pace.BACK_OFF
    listing = after(LISTS, page(WEB.at(3), at=7, next_page="token")).state
    assert asked(step(listing, Oversized("too much")).state) == asked(listing)


# ── The first list ───────────────────────────────────────────────────────────


def test_the_first_list_takes_any_cached_state_in_pages_of_500() -> None:
    assert asked(LISTS) == ListRequest(version="0", limit=500)


def test_after_a_list_in_one_page_a_watch_starts_at_its_version() -> None:
    done = step(LISTS, page(WEB.at(3), DB.at(5), at=7))

    assert done == Step(SYNCED, (ListBegan(), Listed([WEB.at(3), DB.at(5)]), ListEnded("7", complete=True)))
    assert asked(done.state) == WatchRequest(version="7", timeout=400)


def test_an_empty_list_is_a_list() -> None:
    assert step(LISTS, page(at=7)) == Step(SYNCED, (ListBegan(), ListEnded("7", complete=True)))


def test_a_list_in_pages_ends_at_the_version_of_its_first_page() -> None:
    first = step(LISTS, page(WEB.at(3), at=7, next_page="token"))
    assert first.updates == (ListBegan(), Listed([WEB.at(3)]))
    assert asked(first.state) == ListRequest(version="", limit=500, next_page="token")

    last = step(first.state, page(DB.at(5), at=9))
    assert last == Step(SYNCED, (Listed([DB.at(5)]), ListEnded("7", complete=True)))


# ── Lists that come after one ────────────────────────────────────────────────


def test_a_relist_is_not_older_than_what_was_seen() -> None:
    assert asked(replace(LISTS, seen="7")) == ListRequest(version="7", limit=500)


@pytest.mark.parametrize("failure", [EXPIRED, TOO_LARGE])
def test_a_relist_at_a_future_version_reads_consistently(failure: Answer) -> None:
    done = step(replace(LISTS, seen="7"), failure)

    assert done.pace is Pace.AT_ONCE
    assert asked(done.state) == ListRequest(version="", limit=500)


@pytest.mark.parametrize("failure", [EXPIRED, TOO_LARGE, FAILED, UNSUPPORTED])
def test_a_consistent_read_that_fails_is_tried_again_later(failure: Answer) -> None:
    reading = replace(LISTS, seen="7", freshness=Freshness.CONSISTENT)

    assert step(reading, failure) == Step(reading, pace=Pace.BACK_OFF)


def test_a_failed_consistent_read_does_not_disable_watch_lists() -> None:
    done = after(NotSynced("7", Freshness.CONSISTENT), FAILED, page(at=9), Opened(), EXPIRED)

    assert asked(done.state) == WatchRequest(version="9", timeout=400, initial_events=True)


def test_after_a_consistent_list_the_cache_may_serve_the_next() -> None:
    done = after(replace(LISTS, freshness=Freshness.CONSISTENT), page(at=9), Opened(), EXPIRED)

    assert asked(done.state) == ListRequest(version="9", limit=500)


def test_a_list_that_failed_is_asked_for_again_after_a_while() -> None:
    assert step(LISTS, FAILED) == Step(LISTS, pace=Pace.BACK_OFF)


def test_a_busy_server_is_asked_for_the_same_list_when_it_said() -> None:
    assert step(LISTS, Busy("429", after=5.0)) == Step(LISTS, pace=Pace.BACK_OFF, after=5.0)


def test_a_refused_list_waits_for_an_operator() -> None:
    assert step(LISTS, REFUSED) == Step(LISTS, pace=Pace.SLOWLY)


# ── Pages ────────────────────────────────────────────────────────────────────

PAGING = Listing(replace(LISTS, seen="4"), version="7", next_page="token", complete=True)


def test_an_expired_token_relists_in_one_page_and_not_older() -> None:
    done = step(PAGING, EXPIRED)

    assert (done.pace, done.updates) == (Pace.AT_ONCE, ())
    assert asked(done.state) == ListRequest(version="7", limit=0)


def test_a_server_that_pages_a_whole_list_is_not_hammered() -> None:
    whole = step(PAGING, EXPIRED).state

    assert after(whole, page(at=8, next_page="token"), EXPIRED).pace is Pace.BACK_OFF


@pytest.mark.parametrize(("failure", "seconds"), [(FAILED, None), (Busy("429", after=5.0), 5.0)])
def test_a_failed_page_is_asked_for_again_alone(failure: Answer, seconds: float | None) -> None:
    done = step(PAGING, failure)

    assert (done.pace, done.after) == (Pace.BACK_OFF, seconds)
    assert asked(done.state) == ListRequest(version="", limit=500, next_page="token")


def test_a_page_that_is_refused_waits_for_an_operator() -> None:
    assert step(PAGING, REFUSED) == Step(PAGING, pace=Pace.SLOWLY)


@pytest.mark.parametrize("answers", [[FAILED, FAILED], [UNSUPPORTED], [TOO_LARGE]])
def test_a_page_that_never_comes_ends_in_a_new_list(answers: list[Answer]) -> None:
    """A continue token of another server version is a 400; one of a restored etcd is "too large", or a 500."""
    done = after(PAGING, *answers)

    assert done.pace is Pace.BACK_OFF
    assert asked(done.state) == ListRequest(version="7", limit=500)


def test_a_page_that_came_after_all_resets_its_failures() -> None:
    done = after(PAGING, FAILED, page(at=7, next_page="further"), FAILED)

    assert asked(done.state) == ListRequest(version="", limit=500, next_page="further")


# ── WatchList ────────────────────────────────────────────────────────────────


def test_a_watch_list_begins_with_the_newest_state_there_is() -> None:
    assert asked(STREAMS) == WatchRequest(version="", timeout=400, initial_events=True)


def test_a_second_watch_list_is_not_older_than_what_was_seen() -> None:
    assert asked(replace(STREAMS, seen="7")) == WatchRequest(version="7", timeout=400, initial_events=True)


def test_initial_events_end_with_their_bookmark_and_watch_on() -> None:
    streaming = step(STREAMS, Opened())
    assert streaming == Step(Streaming(STREAMS), (ListBegan(),))

    taken_step = step(streaming.state, added(DB.at(5), WEB.at(3)))
    assert taken_step == Step(Streaming(NotSynced("5")), (Listed([DB.at(5), WEB.at(3)]),))

    done = step(taken_step.state, closing_bookmark(7))
    assert done == Step(Watching("7", watch_list=True), (ListEnded("7", complete=True),))


def test_another_bookmark_does_not_end_the_initial_events() -> None:
    assert step(Streaming(STREAMS), Bookmark("7")) == Step(Streaming(STREAMS))


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


def test_a_server_without_watch_lists_is_listed_from_then_on() -> None:
    done = step(STREAMS, UNSUPPORTED)
    assert done.pace is Pace.AT_ONCE
    assert asked(done.state) == ListRequest(version="0", limit=500)

    relist = after(done.state, page(at=7), Opened(), EXPIRED)
    assert asked(relist.state) == ListRequest(version="7", limit=500)


@pytest.mark.parametrize("end", [HUNG_UP, SILENT, Overdue(), VeryShort(), FAILED, UNSUPPORTED])
def test_a_watch_list_that_ends_without_bookmark_becomes_a_list(end: Answer) -> None:
    done = step(Streaming(replace(STREAMS, seen="7")), end)

    assert done.pace is Pace.BACK_OFF
    assert asked(done.state) == ListRequest(version="7", limit=500)


@pytest.mark.parametrize("end", [HUNG_UP, Busy("429"), REFUSED])
def test_broken_initial_events_set_the_floor_of_the_next_list(end: Answer) -> None:
    """Else a list from the cache of a server that lags behind would bring older versions of exported objects."""
    done = after(STREAMS, Opened(), added(DB.at(12), WEB.at(3)), added(WEB.at(9)), end)

    assert reached(done.state) == "12"


@pytest.mark.parametrize(("failure", "pace"), [(EXPIRED, Pace.AT_ONCE_IF_RARE), (TOO_LARGE, Pace.BACK_OFF)])
@pytest.mark.parametrize("state", [replace(STREAMS, seen="7"), Streaming(replace(STREAMS, seen="7"))])
def test_a_watch_list_at_a_future_version_lists_consistently(state: State, failure: Answer, pace: Pace) -> None:
    done = step(state, failure)

    assert done.pace is (pace if isinstance(state, Streaming) else Pace.AT_ONCE)
    assert asked(done.state) == ListRequest(version="", limit=500)


@pytest.mark.parametrize("state", [STREAMS, Streaming(STREAMS)])
def test_a_busy_or_refusing_server_is_asked_the_same_later(state: State) -> None:
    assert step(state, Busy("429", after=5.0)) == Step(STREAMS, pace=Pace.BACK_OFF, after=5.0)
    assert step(state, REFUSED) == Step(STREAMS, pace=Pace.SLOWLY)


@pytest.mark.parametrize("end", [HUNG_UP, SILENT, VeryShort(), FAILED])
def test_a_watch_list_that_ends_before_it_began_becomes_a_list(end: Answer) -> None:
    done = step(STREAMS, end)

    assert done.pace is Pace.BACK_OFF
    assert asked(done.state) == ListRequest(version="0", limit=500)


def test_after_a_watch_list_the_next_list_is_a_watch_list_again() -> None:
    done = after(STREAMS, Opened(), closing_bookmark(7), EXPIRED)

    assert asked(done.state) == WatchRequest(version="7", timeout=400, initial_events=True)


# ── Watching ─────────────────────────────────────────────────────────────────


def test_an_accepted_watch_is_a_watch_on_the_version_asked_for() -> None:
    assert step(SYNCED, Opened()) == Step(WATCHING)


def test_events_are_delivered_with_the_version_of_the_last() -> None:
    done = step(WATCHING, Announced([(EventType.ADDED, WEB.at(8)), (EventType.DELETED, DB.at(9))]))

    assert done == Step(Watching("9", watch_list=False), (Accepted(2, position="9"),))


def test_a_bookmark_moves_the_version_without_an_event() -> None:
    done = step(WATCHING, Bookmark("20"))

    assert done == Step(Watching("20", watch_list=False), (PositionReached("20"),))


@pytest.mark.parametrize("end", [HUNG_UP, SILENT])
def test_a_watch_that_ends_or_idles_resumes_without_a_list(end: Answer) -> None:
    done = after(WATCHING, modified(WEB.at(8)), end)

    assert (done.updates, done.pace) == ((), Pace.AT_ONCE)
    assert asked(done.state) == WatchRequest(version="8", timeout=400)


@pytest.mark.parametrize("state", [SYNCED, WATCHING])
def test_a_busy_server_is_asked_for_the_same_watch_unlisted(state: State) -> None:
    done = step(state, Busy("connection refused", after=2.0))

    assert (done.pace, done.after, done.updates) == (Pace.BACK_OFF, 2.0, ())
    assert asked(done.state) == WatchRequest(version="7", timeout=400)


@pytest.mark.parametrize("state", [SYNCED, WATCHING])
def test_a_refused_watch_resumes_at_its_version_when_granted(state: State) -> None:
    done = step(state, REFUSED)

    assert done.pace is Pace.SLOWLY
    assert asked(done.state) == WatchRequest(version="7", timeout=400)


@pytest.mark.parametrize("state", [SYNCED, WATCHING])
def test_410_in_the_answer_or_stream_relists_not_older(state: State) -> None:
    done = step(state, EXPIRED)

    assert done.updates == ()
    assert asked(done.state) == ListRequest(version="7", limit=500)


@pytest.mark.parametrize(("failure", "pace"), [(EXPIRED, Pace.AT_ONCE_IF_RARE), (TOO_LARGE, Pace.BACK_OFF)])
@pytest.mark.parametrize("state", [SYNCED, WATCHING, DOUBTING])
def test_an_expired_version_is_listed_at_once_but_not_repeatedly(state: State, failure: Answer, pace: Pace) -> None:
    """Where listing takes longer than the server keeps history, each list is followed by another 410."""
    assert step(state, failure).pace is pace


@pytest.mark.parametrize("state", [SYNCED, WATCHING])
def test_a_server_behind_our_version_is_read_consistently(state: State) -> None:
    assert asked(step(state, TOO_LARGE).state) == ListRequest(version="", limit=500)


def test_a_watch_that_ends_empty_within_a_second_lists_again() -> None:
    done = step(WATCHING, VeryShort())

    assert done.pace is Pace.BACK_OFF
    assert asked(done.state) == ListRequest(version="7", limit=500)


@pytest.mark.parametrize("failed", [FAILED, UNSUPPORTED])
@pytest.mark.parametrize("state", [SYNCED, WATCHING])
def test_a_watch_that_failed_resumes_and_lists_if_it_fails_again(state: State, failed: Answer) -> None:
    once = step(state, failed)
    assert once.pace is Pace.BACK_OFF
    assert asked(once.state) == WatchRequest(version="7", timeout=400)

    for twice in (step(once.state, failed), after(once.state, Opened(), failed)):
        assert twice.pace is Pace.BACK_OFF
        assert asked(twice.state) == ListRequest(version="7", limit=500)


@pytest.mark.parametrize("end", [HUNG_UP, SILENT, VeryShort()])
def test_a_watch_that_ends_before_it_began_has_failed(end: Answer) -> None:
    once = step(SYNCED, end)
    assert (once.pace, asked(once.state)) == (Pace.BACK_OFF, WatchRequest(version="7", timeout=400))

    twice = step(once.state, end)
    assert (twice.pace, asked(twice.state)) == (Pace.BACK_OFF, ListRequest(version="7", limit=500))


def test_a_watch_idle_twice_in_a_row_reads_consistently() -> None:
    """A restored server accepts a watch from a version that it has not reached, and says nothing until it has."""
    once = step(WATCHING, SILENT)
    assert asked(once.state) == WatchRequest(version="7", timeout=400)
    twice = after(once.state, Opened(), SILENT)
    assert (twice.pace, asked(twice.state)) == (Pace.AT_ONCE, ListRequest(version="", limit=500))

    with_life_between = after(once.state, Opened(), Bookmark("8"), SILENT)
    assert asked(with_life_between.state) == WatchRequest(version="8", timeout=400)


@pytest.mark.parametrize("life", [modified(WEB.at(8)), Bookmark("8")])
def test_an_event_between_two_failures_resets_the_count(life: Answer) -> None:
    done = after(WATCHING, FAILED, Opened(), life, FAILED)

    assert asked(done.state) == WatchRequest(version="8", timeout=400)


# ── Something could not be read ──────────────────────────────────────────────


def test_after_an_unreadable_line_no_position_is_reached() -> None:
    doubting = step(WATCHING, Unreadable("no metadata"))
    assert doubting == Step(DOUBTING)

    taken_step = step(DOUBTING, modified(WEB.at(9)))
    assert taken_step == Step(Doubting("9", watch_list=False), (Accepted(1, None),))
    assert step(taken_step.state, Bookmark("12")) == Step(Doubting("12", watch_list=False))
    assert step(taken_step.state, Unreadable("again")) == Step(taken_step.state)


def test_the_repair_is_a_list_not_older_than_the_last_event() -> None:
    done = after(DOUBTING, modified(WEB.at(9)), RepairDue())

    assert done.pace is Pace.AT_ONCE
    assert asked(done.state) == ListRequest(version="9", limit=500)


def test_a_busy_server_in_doubt_is_given_as_long_as_it_said() -> None:
    assert step(DOUBTING, Busy("429", after=5.0)).after == 5.0


@pytest.mark.parametrize(
    ("end", "pace"),
    [
        *((each, Pace.BACK_OFF) for each in (HUNG_UP, SILENT, VeryShort(), TOO_LARGE, FAILED, UNSUPPORTED)),
        (EXPIRED, Pace.AT_ONCE_IF_RARE),
        (Busy("429"), Pace.BACK_OFF),
        (REFUSED, Pace.SLOWLY),
    ],
)
def test_however_a_watch_in_doubt_ends_a_list_comes_next(end: Answer, pace: Pace) -> None:
    done = step(DOUBTING, end)

    assert done.pace is pace
    assert isinstance(asked(done.state), ListRequest)


def test_an_unreadable_item_makes_the_whole_list_incomplete() -> None:
    first = step(LISTS, page(WEB.at(3), at=7, next_page="token", unreadable=("no uid",)))
    last = step(first.state, page(DB.at(5), at=7))

    assert last.updates[-1] == ListEnded("7", complete=False)


def test_an_unreadable_initial_event_makes_the_list_incomplete() -> None:
    done = after(Streaming(STREAMS), Unreadable("no uid"), added(WEB.at(3)), closing_bookmark(7))

    assert done.updates == (ListEnded("7", complete=False),)


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param([page(at=7, unreadable=("no uid",)), Opened()], id="list"),
        pytest.param([page(at=7, unreadable=("no uid",)), Busy("429"), Opened()], id="list, then busy"),
        pytest.param([page(at=7, unreadable=("no uid",)), FAILED, Opened()], id="list, then a failure"),
        pytest.param([page(at=7, unreadable=("no uid",)), REFUSED, Opened()], id="list, then a refusal"),
    ],
)
def test_after_an_incomplete_list_the_watch_is_in_doubt(answers: list[Answer]) -> None:
    done = after(LISTS, *answers)

    assert done.state == DOUBTING


# ── Where it begins ──────────────────────────────────────────────────────────


@pytest.mark.parametrize("watch_list", [True, False])
def test_what_never_ran_begins_with_whatever_the_cache_has(watch_list: bool) -> None:
    assert begin(None, watch_list=watch_list) == NotSynced(watch_list=watch_list)


def test_what_left_a_position_goes_on_from_there_with_a_watch() -> None:
    start = begin(Checkpoint(VersionTable(), position="90", newest="90"), watch_list=True)

    assert asked(start) == WatchRequest(version="90", timeout=400)


def test_without_a_position_the_newest_state_is_compared() -> None:
    """A cache that is behind could show again what the last list found deleted."""
    start = begin(Checkpoint(VersionTable(), position=None, newest="90"), watch_list=True)

    assert asked(start) == ListRequest(version="", limit=500)
    assert RanBackwards("90", "50") in step(proven(start), page(at=50)).updates


# ── Versions ─────────────────────────────────────────────────────────────────


def test_a_list_older_than_what_was_seen_begins_a_new_epoch() -> None:
    done = step(NotSynced("90", Freshness.CONSISTENT, watch_list=False), page(WEB.at(40), at=50))

    assert done.updates == (RanBackwards("90", "50"), ListBegan(), Listed([WEB.at(40)]), ListEnded("50", complete=True))
    assert asked(done.state) == WatchRequest(version="50", timeout=400)


def test_the_pages_of_a_list_that_ran_backwards_begin_one_epoch() -> None:
    first = step(NotSynced("90", Freshness.CONSISTENT, watch_list=False), page(at=50, next_page="token"))
    assert RanBackwards("90", "50") in first.updates

    again = after(first.state, EXPIRED, page(at=51))
    assert again.updates == (ListBegan(), ListEnded("51", complete=True))


@pytest.mark.parametrize("state", [WATCHING, DOUBTING])
@pytest.mark.parametrize("backwards", [modified(WEB.at(6)), Bookmark("6")])
def test_an_older_version_is_believed_only_of_a_consistent_list(state: State, backwards: Answer) -> None:
    done = step(state, backwards)

    assert (done.updates, done.pace) == ((), Pace.BACK_OFF)
    assert asked(done.state) == ListRequest(version="", limit=500)
    assert RanBackwards("7", "6") in step(done.state, page(at=6)).updates


@pytest.mark.parametrize(("state", "position"), [(WATCHING, "8"), (DOUBTING, None)])
def test_what_came_before_an_older_version_in_one_batch_is_heard(state: State, position: str | None) -> None:
    """An old event that is sent again may be of an object that is gone, and would bring the object back."""
    done = step(state, added(WEB.at(8), DB.at(3), DB.at(9)))

    assert done.updates == (Accepted(1, position),)
    assert asked(done.state) == ListRequest(version="", limit=500)
    assert RanBackwards("8", "7") in step(done.state, page(at=7)).updates


def test_a_bookmark_older_than_seen_versions_ends_no_list() -> None:
    done = step(Streaming(NotSynced("90")), closing_bookmark(50))

    assert done.updates == ()
    assert done.pace is Pace.BACK_OFF
    assert asked(done.state) == ListRequest(version="", limit=500)


def test_versions_that_are_no_numbers_have_no_order() -> None:
    done = step(Watching("b", watch_list=False), modified(WEB.at("a")))

    assert done.state == Watching("a", watch_list=False)


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


@pytest.mark.parametrize("position", ["7", None])
def test_what_is_remembered_must_be_proven(position: str | None) -> None:
    assert isinstance(begin(Checkpoint(VersionTable(), position, "7"), watch_list=True), Proving)


def test_who_remembers_nothing_but_an_epoch_has_nothing_to_prove() -> None:
    assert begin(Checkpoint(VersionTable(), None, None, 2), watch_list=True) == NotSynced(
        None, Freshness.CONSISTENT, watch_list=True
    )


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
