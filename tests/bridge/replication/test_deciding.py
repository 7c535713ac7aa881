"""Cases that the simulation (tests/properties/test_election.py) meets too rarely."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from math import inf

import pytest

from bridge.model.policies import LeaseTiming
from bridge.replication.deciding import (
    Acquiring,
    Ended,
    Following,
    Known,
    Leading,
    Read,
    Rules,
    Starting,
    State,
    SteppingDown,
    Take,
    TakingOver,
    Wait,
)
from bridge.replication.lease import LAST_TERM, Lease, LeaseHolder, created, lease_of, renewed, taken

NOW = datetime(2026, 11, 23, tzinfo=UTC)
RULES = Rules("a", LeaseTiming(), "pod_before")


def a_lease(holder: str, version: int = 5, *, term: int = 3, renewals: int = 1) -> Lease:
    body = created(LeaseHolder(holder=holder, seconds=15, term=term), "apps", "x", None, NOW)
    lease = _stored(body, version)
    for number in range(renewals):
        lease = _stored(renewed(lease, lease.term, None, NOW + timedelta(seconds=number)), version)
    return lease


def _stored(body: bytes, version: int) -> Lease:
    marked = body.replace(b'"metadata":{', b'"metadata":{"resourceVersion":"%d",' % version, 1)
    return lease_of(marked if b"resourceVersion" not in body else body)


def following(lease: Lease | None, since: float = 100.0) -> Following:
    return Following(known=Known.first(lease, since, 0), retry_at=since)


def leading(lease: Lease, deadline: float = 110.0) -> Leading:
    return Leading(known=Known.first(lease, 100.0, 3), term=3, deadline=deadline, renew_at=102.0)


def action(state: State, now: float, *, clean: bool = True) -> object:
    return RULES.next_action(state, now, clean=clean)


def test_a_lease_taken_too_late_is_not_led() -> None:
    free = a_lease("")
    candidate = Acquiring(known=Known.first(free, 80.0, 3), term=4)
    won = _stored(taken(free, LeaseHolder(holder="a", seconds=15, term=4), NOW, clean=True), 6)

    state = RULES.written(candidate, won, began=100.0, now=110.0)

    assert isinstance(state, Following)
    assert isinstance(RULES.written(candidate, won, began=100.0, now=109.9), TakingOver)


def test_a_create_of_ours_that_came_late_is_waited_out() -> None:
    """It may have come behind the delete of a Lease whose holder still works."""
    late = following(a_lease("a", renewals=0))
    assert action(late, 102.0) == Wait(103.0)
    assert action(late, 115.0) == Take(4)
    assert action(following(a_lease("a")), 100.0) == Take(4)
    assert action(following(a_lease("pod_before")), 100.0) == Take(4)
    update = taken(a_lease("x"), LeaseHolder(holder="a", seconds=15, term=4), NOW, clean=True)
    assert action(following(lease_of(update)), 100.0) == Take(5)


def test_an_old_event_of_the_watch_changes_nothing() -> None:
    state = leading(a_lease("a", 20))
    assert RULES.watched(state, a_lease("b", 19), "19", 101.0) is state
    assert RULES.watched(state, a_lease("a", 20), "20", 101.0) is state
    assert isinstance(RULES.watched(state, a_lease("b", 21), "21", 101.0), SteppingDown)
    gone = RULES.watched(following(a_lease("b", 20)), None, "22", 101.0)
    assert RULES.watched(gone, a_lease("b", 21), "21", 102.0) is gone


def test_a_read_counts_whatever_its_version() -> None:
    """The API server may have been restored from a backup."""
    state = RULES.read(following(a_lease("b", 500)), a_lease("b", 7, renewals=2), 104.0)

    assert isinstance(state, Following)
    assert (state.known.version, state.known.since) == ("7", 104.0)


def test_a_lease_that_went_back_is_not_taken_at_once() -> None:
    """A restored API server says that this replica led last: the leader of a later term may still deliver."""
    later = following(a_lease("b", 500, term=4)).known
    state = RULES.read(Following(known=later, retry_at=100.0), a_lease("pod_before", 7, term=3), 104.0)
    assert isinstance(state, Following)
    assert state.known.went_back
    again = RULES.read(state, a_lease("pod_before", 7, term=3), 104.0)
    assert isinstance(again, Following)
    assert again.known.went_back, "it is no more than what was read before"
    assert action(state, 104.0) == Wait(107.0)
    assert RULES.take_at(state.known, clean=False) == 104.0 + 15 + 15
    tried = following(a_lease("pod_before", term=3)).known.tried(4)
    assert not tried.went_back, "an attempt that nobody answered is no later leader"
    forged = following(a_lease("b", 500, term=4)).known.after(a_lease("b", 501, term=1000), 101.0)
    assert not forged.after(a_lease("b", 502, term=4), 102.0).went_back, "its holder has corrected the term"


def test_an_answer_that_an_event_overtook_is_asked_anew() -> None:
    state = RULES.watched(following(a_lease("b", 500)), a_lease("b", 510), "510", 103.0)
    late = RULES.read(state, a_lease("b", 505), 104.0, asked="500")
    assert isinstance(late, Following)
    assert (late.known.version, late.known.unsure) == ("510", True)
    assert action(late, 104.0) == Read()
    again = RULES.read(late, a_lease("b", 505), 105.0, asked="510")
    assert isinstance(again, Following)
    assert (again.known.version, again.known.unsure) == ("505", False)


def test_an_answer_that_came_out_of_order_takes_no_time_away() -> None:
    state = RULES.written(leading(a_lease("a"), deadline=115.0), a_lease("a", renewals=2), began=101.0, now=106.0)

    assert isinstance(state, Leading)
    assert state.deadline == 115.0


def test_a_renewal_that_comes_at_the_deadline_is_too_late() -> None:
    """A worker may have asked before it in the same turn of the event loop, and waits to be cancelled."""
    state = RULES.written(leading(a_lease("a"), deadline=110.0), a_lease("a", renewals=2), began=109.0, now=110.0)
    assert isinstance(state, SteppingDown)
    assert state.known.lease == a_lease("a", renewals=2)
    in_time = RULES.written(leading(a_lease("a"), deadline=110.0), a_lease("a", renewals=2), began=109.0, now=109.9)
    assert isinstance(in_time, Leading)
    assert in_time.deadline == 119.0


@pytest.mark.parametrize("term", [(1 << 52) + 1, LAST_TERM, LAST_TERM + 5])
def test_a_term_that_no_election_reaches_is_passed_over(term: int) -> None:
    """Behind the last term nobody could take the Lease any more."""
    found = RULES.read(Starting(highest_term=7, retry_at=0.0), a_lease("b", term=term), 100.0)

    assert isinstance(found, Following)
    assert (found.known.highest_term, found.known.doubted_term) == (7, min(term, LAST_TERM))
    assert action(found, 115.0) == Take(8)
    assert not RULES.read(found, a_lease("b", 6, term=8), 116.0).known.doubted_term  # type: ignore[union-attr]


def test_a_term_that_is_far_away_leaves_enough_for_everybody() -> None:
    """Of a replica that believed it, and one that comes anew."""
    far = 1 << 52
    known = following(a_lease("b", term=far)).known
    assert known.highest_term == far
    assert known.after(a_lease("b", 6, term=far + 1000), 101.0).highest_term == far + 1000
    assert known.after(a_lease("b", 6, term=LAST_TERM), 101.0).highest_term == far


def test_the_terms_end() -> None:
    used_up = RULES.read(Starting(highest_term=LAST_TERM, retry_at=0.0), None, 100.0)

    assert isinstance(used_up, Following)
    assert RULES.take_at(used_up.known, clean=True) == inf


def test_a_released_lease_is_not_lost() -> None:
    """The watch may announce the release before the answer to it comes."""
    released = RULES.stopped(leading(a_lease("a", 20)), working=False)

    seen = RULES.watched(released, a_lease("", 21), "21", 100.5)

    assert seen == Ended()
    assert RULES.written(seen, a_lease("", 21), began=100.4, now=100.6) == Ended()


def test_a_leader_still_at_work_loses_a_lease_without_holder() -> None:
    stopping = RULES.stopped(leading(a_lease("a", 20)), working=True)

    assert isinstance(RULES.watched(stopping, a_lease("", 21), "21", 100.5), SteppingDown)
