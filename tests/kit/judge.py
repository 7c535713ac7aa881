"""Whether a sink was told everything that happened. The truth comes from the store; nothing is taken on trust."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tests.kit.etcd_history import Happened
from tests.kit.exported import (
    Told,
    assert_in_order,
    assert_none,
    repeats,
    where_different,
    without_repeats,
    without_secrets,
)

LISTS = frozenset({"listed", "relisted"})


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a sink was told that has not lost anything. Everything else is an AssertionError."""

    who: str
    versions: int
    """That happened."""
    delivered: int
    duplicates: int
    """Delivered once more, each equal to its first delivery."""
    relisted: int
    """Found by comparing a list with the ledger."""
    skipped: int
    """Versions that were not told because nobody could see them any more: what was told next of the object says so, or
    the object came and went unseen."""

    def __str__(self) -> str:
        return (
            f"{self.who}: {self.versions} versions, {self.delivered} delivered, {self.duplicates} of them again, "
            f"{self.relisted} relisted, {self.skipped} skipped in lists, 0 lost"
        )


def judge(stream: Sequence[Told], happened: Sequence[Happened], who: str) -> Verdict:
    """Everything that can be asked of a stream of a cluster that was watched all the time, or from a first list on."""
    __tracebackhide__ = True
    assert_equal_where_repeated(stream, who)
    assert_repeated_in_stretches(stream, who)
    assert_in_order(stream, who)
    first = without_repeats(stream)
    assert_makes_sense(first, who)
    assert_true(first, happened, who)
    skipped = assert_complete(first, happened, who)
    relisted = sum(told.evidence == "relisted" for told in first)
    return Verdict(who, len(happened), len(stream), repeats(stream), relisted, skipped)


def judge_all(streams: Mapping[str, Sequence[Told]], happened: Sequence[Happened]) -> dict[str, Verdict]:
    """Each sink by itself, printed; and all of them were told the same."""
    __tracebackhide__ = True
    verdicts = {who: judge(stream, happened, who) for who, stream in streams.items()}
    print(*verdicts.values(), sep="\n")
    told = {who: {each.unique_id: each for each in stream} for who, stream in streams.items()}
    (one, expected), *others = told.items()
    for other, have in others:
        assert have == expected, f"{other} and {one} were not told the same"
    return verdicts


# ── Order and repetition ─────────────────────────────────────────────────────


def assert_equal_where_repeated(stream: Iterable[Told], who: str) -> None:
    """Who is told again is told the same; and one thing has one number."""
    __tracebackhide__ = True
    first: dict[tuple[int, str], Told] = {}
    by_number: dict[int, Told] = {}
    changed, twice = [], []
    for told in stream:
        if first.setdefault(told.unique_id, told) != told:
            changed.append(f"{told}, and before it {first[told.unique_id]}")
        elif by_number.setdefault(told.sequence, told).unique_id != told.unique_id:
            twice.append(f"{told} and {by_number[told.sequence]}")
    assert_none(who, told_again_and_changed=changed, two_with_one_number=twice)


def assert_repeated_in_stretches(stream: Iterable[Told], who: str) -> None:
    """Whoever goes back to an earlier record of an object goes on from there without leaving one out. So a consumer
    that does not recognise repetitions is right again as soon as the telling has caught up."""
    __tracebackhide__ = True
    places: dict[str, dict[tuple[int, str], int]] = defaultdict(dict)
    at: dict[str, int] = {}
    wrong = []
    for told in stream:
        place = places[told.subject].setdefault(told.unique_id, len(places[told.subject]))
        if place > at.get(told.subject, -1) + 1:
            wrong.append(told)
        at[told.subject] = place
    assert_none(who, left_out_when_told_again=wrong)


def assert_makes_sense(first: Iterable[Told], who: str) -> None:
    """A consumer that keeps state never meets a change that its state cannot take: nothing is added twice, and what is
    not there is neither changed nor deleted. Recreated means: deleted, added."""
    __tracebackhide__ = True
    there: dict[str, str] = {}
    wrong = []
    for told in first:
        known = there.get(told.subject)
        if told.op != "sync" and known != (None if told.op == "added" else told.uid):
            wrong.append(f"{told} where the consumer knows {known or 'nothing'}")
        if told.op == "deleted":
            there.pop(told.subject, None)
        else:
            there[told.subject] = told.uid
    assert_none(who, impossible=wrong)


# ── Truth ────────────────────────────────────────────────────────────────────


def assert_true(first: Iterable[Told], happened: Iterable[Happened], who: str) -> None:
    """What was told happened, and the objects were so. What a list showed may stand for steps that nobody saw: any
    version of the object may then be told as its addition, and a delete carries the last version that was told."""
    __tracebackhide__ = True
    exact = {each.version: each for each in happened}
    states = {each.version[:2]: each for each in happened if each.version.op != "deleted"}
    last: dict[str, Told] = {}
    invented, different, not_last = [], [], []
    for told in first:
        truth = exact.get(told.version)
        if truth is None and _is_a_state(told):
            truth = states.get(told.version[:2])
            before = last.get(told.uid)
            if told.op == "deleted" and (before is None or before.data != told.data):
                not_last.append(told)
        if truth is None:
            invented.append(told)
        elif without_secrets(told.data) != without_secrets(truth.data):
            place = where_different(without_secrets(told.data), without_secrets(truth.data))
            different.append(f"{told} in {place}")
        last[told.uid] = told
    assert_none(who, never_happened=invented, different=different, deleted_without_last_state=not_last)


def _is_a_state(told: Told) -> bool:
    """Not the change to it: somebody looked, and it was so."""
    return told.evidence in LISTS or told.op == "sync"


def assert_complete(first: Sequence[Told], happened: Sequence[Happened], who: str) -> int:
    """Every version was told. One that nobody could see is excused by what was told next of its object, which says
    that it was found in a list. Returns how many were excused."""
    __tracebackhide__ = True
    stories: dict[str, list[Told]] = defaultdict(list)
    for told in first:
        stories[told.uid].append(told)
    versions: dict[str, list[Happened]] = defaultdict(list)
    for each in happened:
        versions[each.uid].append(each)
    lost, skipped = [], 0
    for uid, existed in versions.items():
        story = stories[uid]
        missing = _missing(existed, story)
        if not story and existed[-1].version.op == "deleted":
            skipped += len(missing)  # It came and went unseen.
            continue
        unexcused = [each for each in missing if not _is_excused(each, story)]
        skipped += len(missing) - len(unexcused)
        lost += unexcused
    assert_none(who, lost=lost)
    return skipped


def _missing(existed: Sequence[Happened], story: Sequence[Told]) -> list[Happened]:
    exact = {told.version for told in story}
    states = {told.version[:2] for told in story if _is_a_state(told) and told.op != "deleted"}
    gone = any(_is_a_state(told) and told.op == "deleted" for told in story)

    def is_told(each: Happened) -> bool:
        return each.version in exact or (gone if each.version.op == "deleted" else each.version[:2] in states)

    return [each for each in existed if not is_told(each)]


def _is_excused(each: Happened, story: Sequence[Told]) -> bool:
    """A delete that a list showed has the number of the last version that was told: it happened some time later."""
    after = [told for told in story
             if int(told.resource_version) > each.number or (told.op == "deleted" and _is_a_state(told))]  # fmt: skip
    return bool(after) and _is_a_state(after[0])
