"""Compaction, judged by a consumer: after the records that are left, it knows the same as after all records."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from bridge.model.change import Op
from bridge.outbox.consumers.compaction import BacklogRecord, Kept, compact
from tests.kit.examples import examples

KEYS = st.sampled_from("ab")
UIDS = st.sampled_from(["u0", "u1"])
THROUGH = st.integers(0, 40)

often = examples(50)


@dataclass
class Consumer:
    """Keeps the state of each name, as tables do, and which objects there are, as graphs do."""

    state: dict[str, int] = field(default_factory=dict)
    """Key → the version that it has."""
    objects: set[tuple[str, str]] = field(default_factory=set)
    surprises: list[BacklogRecord] = field(default_factory=list)
    """Added though it was there; changed or deleted though it was not."""
    received_before: dict[int, int | None] = field(default_factory=dict)
    """Sequence of a record → the version that the consumer had of the name before it."""

    def copy(self) -> Consumer:
        return Consumer(self.state.copy(), self.objects.copy())

    def hears(self, received: Iterable[tuple[BacklogRecord, int]]) -> Consumer:
        for step, version in received:
            there = (step.key, step.uid) in self.objects
            self.received_before[step.sequence] = self.state.get(str(step.key))
            if there is (step.op is Op.ADDED) and step.op is not Op.SYNC:
                self.surprises.append(step)
            if step.op is Op.DELETED:
                self.state.pop(str(step.key), None)
                self.objects.discard((str(step.key), step.uid))
            else:
                self.state[str(step.key)] = version
                self.objects.add((str(step.key), step.uid))
        return self

    def knows_what(self, other: Consumer) -> bool:
        return (self.state, self.objects) == (other.state, other.objects)


@dataclass
class Story:
    """What a consumer knows, and what happens then."""

    known: Consumer
    steps: list[BacklogRecord]
    versions: dict[int, int]
    """Sequence → the version of the object in that record. That of a sync is the one that was there."""

    def with_bodies(self, steps: Iterable[BacklogRecord]) -> list[tuple[BacklogRecord, int]]:
        return [(step, self.versions[step.sequence]) for step in steps]

    def all_received(self) -> Consumer:
        return self.known.copy().hears(self.with_bodies(self.steps))

    def as_steps(self, kept: Iterable[Kept]) -> list[BacklogRecord]:
        at = {step.sequence: step for step in self.steps}
        return [
            BacklogRecord(each.sequence, at[each.sequence].key, at[each.sequence].uid, each.op, each.before)
            for each in kept
        ]


@st.composite
def stories(draw: st.DrawFn, *, orderly: bool = True) -> Story:
    """``orderly``: as an informer exports them. Otherwise nothing is known at first, and then any op comes at any time,
    under any uid."""
    state: dict[str, tuple[str, int]] = dict.fromkeys(draw(st.sets(KEYS)) if orderly else (), ("u0", -1))
    known = Consumer({key: version for key, (_, version) in state.items()}, {(key, "u0") for key in state})
    story = Story(known, [], {})
    sequence = 0
    for _ in range(draw(st.integers(0, 20))):
        sequence += draw(st.integers(1, 2))
        key = draw(KEYS)
        op = draw(st.sampled_from(Op))
        uid, version = state.get(key, ("", -1))
        if orderly and (not uid) is not (op is Op.ADDED):
            op = draw(st.sampled_from([Op.UPDATED, Op.DELETED, Op.SYNC])) if uid else Op.ADDED
        if op is Op.ADDED or not orderly:
            uid = draw(UIDS)
        if op is not Op.SYNC or not orderly:
            version = sequence
        if op is Op.DELETED:
            state.pop(key, None)
        else:
            state[key] = (uid, version)
        story.steps.append(BacklogRecord(sequence, key, uid, op))
        story.versions[sequence] = version
    return story


def prefix(data: st.DataObject, steps: Sequence[BacklogRecord], through: int) -> list[BacklogRecord]:
    """Some of the first steps, up to that sequence number at most."""
    possible = sum(step.sequence <= through for step in steps)
    return list(steps[: data.draw(st.integers(0, possible))])


@often
@given(st.data(), stories())
def test_what_was_before_an_update_is_what_the_consumer_has(data: st.DataObject, story: Story) -> None:
    """Also after a second compaction."""
    middle = data.draw(st.integers(0, len(story.steps)))
    waiting = story.as_steps(compact(story.steps[:middle], uncertain_through=0))
    kept = story.as_steps(compact([*waiting, *story.steps[middle:]], uncertain_through=0))
    consumer = story.known.copy().hears(story.with_bodies(kept))
    in_the_log = story.all_received().received_before

    for step in kept:
        if step.op in (Op.ADDED, Op.UPDATED):
            assert step.before is not None
            assert consumer.received_before[step.sequence] == in_the_log[step.before]


@examples(100)
@given(st.data(), stories(), st.just(0) | THROUGH)
def test_any_delivered_part_leads_to_the_same_state(data: st.DataObject, story: Story, through: int) -> None:
    """And surprises nobody, where nothing was delivered."""
    kept = story.as_steps(compact(story.steps, through))
    before = story.known.copy().hears(story.with_bodies(prefix(data, story.steps, through)))
    consumer = before.copy().hears(story.with_bodies(kept))

    assert consumer.knows_what(story.all_received())
    doubtful = {(step.key, step.uid) for step in story.steps if step.sequence <= through}
    assert {(step.key, step.uid) for step in consumer.surprises} <= doubtful
    assert not [step for step in consumer.surprises if step.op is Op.UPDATED], "an addition was not delivered"
    deleted = {(step.key, step.uid) for step in kept if step.op is Op.DELETED}
    assert before.objects - story.all_received().objects <= deleted
    assert [each.sequence for each in kept] == sorted(each.sequence for each in kept)


@often
@given(stories(), THROUGH)
def test_a_record_delivered_twice_keeps_its_id(story: Story, through: int) -> None:
    ops = {step.sequence: step.op for step in story.steps}

    assert all(each.op is ops[each.sequence] for each in compact(story.steps, through) if each.sequence <= through)


@often
@given(st.data(), stories(), THROUGH)
def test_kept_records_can_be_compacted_with_later_ones(data: st.DataObject, story: Story, through: int) -> None:
    """The first compaction happened in the middle; some of its records were delivered until the second."""
    middle = data.draw(st.integers(0, len(story.steps)))
    early, late = story.steps[:middle], story.steps[middle:]
    consumer = story.known.copy().hears(story.with_bodies(prefix(data, early, through)))
    waiting = story.as_steps(compact(early, through))
    handed_out = data.draw(st.integers(0, len(waiting)))
    consumer.hears(story.with_bodies(waiting[:handed_out]))
    rest = [*waiting[handed_out:], *late]
    again = compact(rest, through)

    assert consumer.copy().hears(story.with_bodies(story.as_steps(again))).knows_what(story.all_received())
    assert compact(story.as_steps(again), through) == again


@often
@given(st.data(), stories(), THROUGH)
def test_after_a_crash_unsettled_records_may_be_delivered(data: st.DataObject, story: Story, through: int) -> None:
    """Nobody knows how much of it was, so everything up to the crash is in doubt."""
    middle = data.draw(st.integers(0, len(story.steps)))
    early, late = story.steps[:middle], story.steps[middle:]
    consumer = story.known.copy().hears(story.with_bodies(prefix(data, early, through)))
    waiting = [*story.as_steps(compact(early, through)), *late]
    crashed_at = max([through, *(step.sequence for step in early)]) + data.draw(st.integers(0, 20))
    consumer.hears(story.with_bodies(prefix(data, waiting, crashed_at)))
    again = compact(waiting, crashed_at)

    assert consumer.hears(story.with_bodies(story.as_steps(again))).knows_what(story.all_received())


@often
@given(st.data(), stories(orderly=False), THROUGH)
def test_even_what_cannot_happen_leads_to_the_state_of_each_name(
    data: st.DataObject, story: Story, through: int
) -> None:
    consumer = story.known.copy().hears(story.with_bodies(prefix(data, story.steps, through)))
    # A sync has no news by its nature, so here it may bring none.
    news = {step.sequence for step in story.steps if step.op is not Op.SYNC}
    names = {step.key for step in story.steps if step.sequence not in news}
    consumer.hears(story.with_bodies(story.as_steps(compact(story.steps, through))))

    have, want = consumer.state, story.all_received().state
    assert have.keys() == want.keys()
    assert {key: have[key] for key in have.keys() - names} == {key: want[key] for key in want.keys() - names}


@often
@given(stories(), THROUGH)
def test_a_living_object_keeps_one_record_and_any_doubtful_add(story: Story, through: int) -> None:
    left: dict[tuple[object, str], list[BacklogRecord]] = defaultdict(list)
    for step in story.as_steps(compact(story.steps, through)):
        left[(step.key, step.uid)].append(step)

    for received in left.values():
        ops = [step.op for step in received if step.op is not Op.DELETED]
        assert len(ops) <= 1 or (ops == [Op.ADDED, Op.UPDATED] and received[-2].sequence <= through)
