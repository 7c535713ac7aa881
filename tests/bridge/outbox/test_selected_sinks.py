"""By which entries of ``select`` the sinks get their records: what a leader publishes, and when a follower agrees."""

from __future__ import annotations

from dataclasses import replace

from bridge.model.versions.frontier import Frontier, SinkFrontier
from bridge.model.versions.selection_frontier import ALL_ENTRIES, SelectionFrontier
from bridge.outbox import EVERYTHING, StoredSelection
from bridge.outbox.consumers.cursors import SinkCursor
from bridge.outbox.consumers.selections import Admitted
from bridge.outbox.standby.selected import SelectedSinks

WEB = StoredSelection("chat", 1, 0, True, 3, "", False, "web", "{}", effective=10)


def selected(stored: StoredSelection | None = WEB) -> SelectedSinks:
    found = SelectedSinks(lambda: {} if stored is None else {"chat": stored})
    found.digests = lambda entries: (f"new key {entries}", f"old key {entries}")
    return found


def published(entries: str, changing: str = "", number: int = 3) -> Frontier:
    sinks = {"chat": SinkFrontier(selection=SelectionFrontier(entries, changing, number))}
    return Frontier(1, "prod", 1, "kubedelta-0", "1.0", 100, sinks=sinks)


def progress(found: SelectedSinks, settled: int) -> SelectionFrontier:
    return found.progress(SinkCursor("chat", settled, 0.0, None), published("before", number=2))


def test_a_settled_selection_is_published() -> None:
    assert progress(selected(), 9) == SelectionFrontier("before", "new key web", 3)
    assert progress(selected(), 10) == SelectionFrontier("new key web", "", 3)
    assert progress(selected(replace(WEB, pending=True)), 10) == SelectionFrontier("before", "new key web", 3)
    assert progress(selected(replace(WEB, entries=EVERYTHING)), 9) == SelectionFrontier("before", ALL_ENTRIES, 3)
    assert progress(selected(None), 0) == SelectionFrontier("", "", 2)


def test_a_change_is_published_first() -> None:
    found = selected()
    found.intended = {"chat": "db"}
    assert progress(found, 10) == SelectionFrontier("before", "new key db", 3)


def test_a_follower_agrees_behind_other_entries() -> None:
    assert selected().agrees("chat", 10, published("old key web"))
    assert not selected().agrees("chat", 9, published("new key web"))
    assert not selected().agrees("chat", 10, published("new key db"))
    assert not selected().agrees("chat", 10, published("new key web", changing="new key db"))
    assert selected().agrees("new", 0, published("new key db")), "nobody has delivered anything to it"


def test_other_entries_wait_for_the_leader() -> None:
    found, wanted = selected(), {"chat": "db"}
    assert found.admitted(wanted, published("new key web"), leads=False) == {}
    assert found.admitted(wanted, published("new key web", changing="new key db"), leads=False) == {}
    assert found.admitted(wanted, published("new key db", number=7), leads=False) == {"chat": Admitted(6, True)}
    found.begin_term(2, 10, led_last=False)
    assert found.admitted(wanted, published("new key web", number=7), leads=True) == {}, "its watches may lag"
    found.caught_up = True
    assert found.admitted(wanted, published("new key web", number=7), leads=True) == {"chat": Admitted(7, False)}


def test_a_new_leader_has_to_catch_up() -> None:
    found = selected()
    found.begin_term(1, 10, led_last=False)
    assert found.caught_up, "nobody delivered before"
    found.begin_term(2, 12, led_last=True)
    assert found.caught_up
    found.begin_term(4, 14, led_last=False)
    assert not found.caught_up
    found.begin_term(5, 16, led_last=True)
    assert not found.caught_up, "it has not done so in its last term"


def test_a_difference_brings_records_again() -> None:
    found = selected()
    found.led_behind = 5
    assert [found.changed_before("chat", sequence) for sequence in (6, 10, 11)] == [False, False, True]
    found.led_behind = 10
    assert not found.changed_before("chat", 11), "the difference is of an earlier term"
