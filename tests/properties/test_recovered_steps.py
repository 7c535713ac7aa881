"""The steps that a walk finds are those that happened, however often a name was taken and whatever is forgotten."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from bridge.informer.recovery.walk import ExportedState, FoundStep, Moment, Walk
from bridge.model.answers import EventType
from bridge.model.object import ApiObject
from tests.kit.examples import examples
from tests.kit.objects import a_pod

OPS = st.lists(st.sampled_from(["put", "put", "delete", "elsewhere", "elsewhere"]), min_size=1, max_size=25)


@dataclass(frozen=True)
class Happening:
    version: int
    type: EventType
    uid: str


@dataclass(frozen=True)
class Past:
    states: tuple[ApiObject | None, ...]
    """By version; the first is 1."""
    happened: tuple[Happening, ...]

    def at(self, version: int) -> ApiObject | None:
        return self.states[version - 1]


def past_of(ops: list[str]) -> Past:
    blueprint, state = a_pod("web"), None
    states: list[ApiObject | None] = [None]
    happened = []
    for version, op in enumerate(ops, 2):
        if op == "put":
            kind = EventType.MODIFIED if state else EventType.ADDED
            state = blueprint.at(version)
            happened.append(Happening(version, kind, state.uid))
        elif op == "delete" and state is not None:
            happened.append(Happening(version, EventType.DELETED, state.uid))
            state, blueprint = None, blueprint.born_again()
        states.append(state)
    return Past(tuple(states), tuple(happened))


def walked(past: Past, known_at: int, since: int, oldest: int, most: int) -> Walk:
    known, newest = past.at(known_at), len(past.states)
    exported = None if known is None else ExportedState(known.uid, int(known.resource_version))
    listed = past.at(newest)
    if listed is not None and known is not None and listed.resource_version == known.resource_version:
        listed = None  # Not walked: it has not changed.
        newest = known_at
    walk = Walk("shop/web", exported, Moment(newest, listed), since=since)
    requests = 0
    while walk.wanted is not None and requests < most:
        requests += 1
        if walk.wanted < oldest:
            walk.forgotten(walk.wanted)
        else:
            walk.take(Moment(walk.wanted, past.at(walk.wanted)))
    return walk


def as_happened(step: FoundStep) -> Happening:
    return Happening(int(step.object.resource_version), step.type, step.object.uid)


@given(ops=OPS, data=st.data())
@examples(300)
def test_found_steps_happened_and_none_is_missing_between(ops: list[str], data: st.DataObject) -> None:
    past = past_of(ops)
    newest = len(past.states)
    known_at = data.draw(st.integers(1, newest), "known at")
    since = known_at if data.draw(st.booleans(), "the position is known") else 0
    oldest = data.draw(st.integers(0, newest), "oldest")
    most = data.draw(st.sampled_from([3, 1000]), "most requests")
    known, listed = past.at(known_at), past.at(newest)
    if known == listed:
        return
    walk = walked(past, known_at, since, oldest, most)

    assert not walk.is_contradicted
    missed = [each for each in past.happened if each.version > known_at]
    steps = [as_happened(each) for each in walk.steps]
    versions = [each.version for each in steps]
    assert versions == sorted(set(versions))
    previous = {None if known is None else known.uid: known_at}
    for step, happened in zip(walk.steps, steps, strict=True):
        if step.follows:
            assert happened in missed
            between = [each for each in missed if previous.get(happened.uid, 0) < each.version < happened.version]
            assert not [each for each in between if each.uid == happened.uid], "follows its predecessor"
        previous[happened.uid] = happened.version
    if oldest <= 1 and most == 1000:
        assert walk.is_complete
        walked_uids = {each.uid for each in (known, listed) if each is not None}
        assert [each for each in missed if each.uid in walked_uids and each not in steps] == []
        if {each.uid for each in missed} <= walked_uids:  # Otherwise another object of that name came and went.
            assert steps == missed
