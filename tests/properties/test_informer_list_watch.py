"""The Reflector under every row of answers that a server can give."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bridge.informer.history.proof import OtherHistory, SameHistory, UnknownHistory
from bridge.informer.reflector.list_watch import next_request, step
from bridge.informer.reflector.states import (
    Accepted,
    Answer,
    Doubting,
    EpochBegan,
    Happened,
    ListBegan,
    Listed,
    ListEnded,
    NotSynced,
    Overdue,
    Pace,
    PositionReached,
    Proving,
    RanBackwards,
    RepairDue,
    State,
    Streaming,
    Suspected,
    Synced,
    TimedOut,
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
    Page,
    Refused,
    Silent,
    TooLarge,
    Unreadable,
    Unsupported,
)
from tests.kit.objects import a_pod

versions = st.integers(1, 30).map(str)
objects = st.builds(lambda name, version: a_pod(name).at(version), st.sampled_from(["web", "db"]), versions)
failures = st.sampled_from(
    [
        Expired("410"),
        TooLarge("504"),
        Failed("500"),
        Busy("429"),
        Busy("429", 3.0),
        Refused(403, ""),
        Unsupported("400"),
    ]
)
pages = st.builds(
    Page,
    st.lists(objects, max_size=3),
    versions,
    st.sampled_from([None, "token"]),
    st.sampled_from([(), ("no uid",)]),
)
events = st.lists(st.tuples(st.sampled_from(EventType), objects), min_size=1, max_size=4)
ends = st.one_of(failures, st.sampled_from([HungUp("timeout"), Silent(90.0), VeryShort()]))
proofs: st.SearchStrategy[Answer] = st.sampled_from(
    [SameHistory(), SameHistory(), UnknownHistory("gone"), OtherHistory("9", "3"), Failed("500"), Refused(403, "")]
)
other: st.SearchStrategy[Answer] = st.just(OtherHistory("9", "3"))
received = st.one_of(
    events.map(Announced),
    st.builds(Bookmark, versions, st.booleans()),
    st.just(Unreadable("no metadata")),
)


def legal_answers(state: State) -> st.SearchStrategy[Answer]:
    """What may come in this state, by the contract of the ListerWatcher and of the driver."""
    if isinstance(state, Streaming):
        return st.one_of(received, received, ends, st.just(Overdue()), other)
    if isinstance(state, Doubting):
        return st.one_of(received, received, ends, st.just(RepairDue()))
    if isinstance(state, Watching):
        return st.one_of(received, received, ends, st.just(TimedOut()), other)
    if isinstance(state, Proving):
        return proofs
    if isinstance(next_request(state, page_size=2, watch_timeout=300), ListRequest):
        return st.one_of(pages, pages, failures)
    return st.one_of(st.just(Opened()), st.just(Opened()), failures)


@given(st.data(), st.sampled_from([NotSynced(), NotSynced(watch_list=False), NotSynced("9"), Synced("9", False)]))
def test_any_legal_answers_are_expected_and_give_sound_updates(data: st.DataObject, start: State) -> None:
    state = start
    in_list, doubt, position, at_once = False, False, 0, 0
    for _ in range(data.draw(st.integers(1, 40))):
        answer = data.draw(legal_answers(state))
        taken = step(state, answer)
        for update in taken.updates:
            match update:
                case ListBegan():
                    in_list = True
                    at_once += 1
                    assert at_once <= 3, "lists follow one another without a pause"
                case Listed(objects=listed):
                    assert in_list
                    assert listed
                case ListEnded(version=version, complete=complete):
                    assert in_list
                    in_list, doubt = False, not complete
                    if complete:
                        assert int(version) >= position
                        position = int(version)
                case Happened(events=happened, position=reached):
                    assert happened
                    assert reached is None
                    assert in_list
                case Accepted(count=count, position=reached):
                    assert isinstance(answer, Announced)
                    assert count
                    assert (reached is None) == doubt
                    if reached is not None:
                        assert position <= int(reached) == int(answer.events[count - 1][1].resource_version)
                        position = int(reached)
                case PositionReached(position=reached):
                    assert not in_list
                    assert not doubt
                    assert int(reached) >= position
                    position = int(reached)
                case RanBackwards(was=was, now=now):
                    assert int(now) < int(was)
                    assert not in_list or isinstance(answer, Page)
                    position = 0
                case EpochBegan():
                    assert isinstance(answer, OtherHistory)
                    in_list, position = False, 0
                case Suspected():
                    in_list = False
        if isinstance(answer, Unreadable):
            doubt = True
        if taken.pace is not Pace.AT_ONCE or isinstance(answer, RepairDue | HungUp | Silent):
            at_once = 0
        state = taken.state
        assert isinstance(state, Doubting) <= doubt
        assert not (isinstance(state, Watching) and doubt)
