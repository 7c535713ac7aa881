"""Whether a sink received everything that happened. The truth comes from the store; nothing is taken on trust."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tests.kit.etcd_history import Happened
from tests.kit.received import (
    Received,
    assert_in_order,
    assert_none,
    repeats,
    where_different,
    without_repeats,
    without_secrets,
)

LISTS = frozenset({"listed", "relisted", "unwatched"})


@dataclass(frozen=True, slots=True)
class Verdict:
    """Counts of the records of a sink that has lost nothing. A loss is an AssertionError."""

    who: str
    versions: int
    """That happened."""
    delivered: int
    duplicates: int
    """Delivered once more, each equal to its first delivery."""
    relisted: int
    """Found by comparing a list with the ledger."""
    recovered: int
    """Found in the API server's history."""
    skipped: int
    """Versions that were not delivered because nobody could see them any more: the object's next delivered record says
    so, or the object came and went unseen."""

    def __str__(self) -> str:
        return (
            f"{self.who}: {self.versions} versions, {self.delivered} delivered, {self.duplicates} of them again, "
            f"{self.relisted} relisted, {self.recovered} recovered, {self.skipped} skipped in lists, 0 lost"
        )


def judge(stream: Sequence[Received], happened: Sequence[Happened], who: str) -> Verdict:
    """Everything that can be asked of a stream of a cluster that was watched all the time, or from a first list on."""
    __tracebackhide__ = True
    assert_equal_where_repeated(stream, who)
    assert_none(who, left_out_when_delivered_again=left_out(stream))
    assert_in_order(stream, who)
    first = without_repeats(stream)
    assert_makes_sense(first, who)
    assert_true(first, happened, who)
    skipped = assert_complete(first, happened, who)
    relisted = sum(received.evidence == "relisted" for received in first)
    recovered = sum(received.evidence == "recovered" for received in first)
    return Verdict(who, len(happened), len(stream), repeats(stream), relisted, recovered, skipped)


def judge_all(streams: Mapping[str, Sequence[Received]], happened: Sequence[Happened]) -> dict[str, Verdict]:
    """Each sink by itself, printed; and all of them received the same records."""
    __tracebackhide__ = True
    verdicts = {who: judge(stream, happened, who) for who, stream in streams.items()}
    print(*verdicts.values(), sep="\n")
    received = {who: {each.unique_id: each for each in stream} for who, stream in streams.items()}
    (one, expected), *others = received.items()
    for other, have in others:
        assert have == expected, f"{other} and {one} did not receive the same"
    return verdicts


# ── Order and repetition ─────────────────────────────────────────────────────


def assert_equal_where_repeated(stream: Iterable[Received], who: str) -> None:
    """A repeated record is the same record; and a record has one number."""
    __tracebackhide__ = True
    first: dict[tuple[int, str], Received] = {}
    by_number: dict[int, Received] = {}
    changed, twice = [], []
    for received in stream:
        if first.setdefault(received.unique_id, received) != received:
            changed.append(f"{received}, and before it {first[received.unique_id]}")
        elif by_number.setdefault(received.sequence, received).unique_id != received.unique_id:
            twice.append(f"{received} and {by_number[received.sequence]}")
    assert_none(who, delivered_again_and_changed=changed, two_with_one_number=twice)


def left_out(stream: Iterable[Received]) -> list[Received]:
    """Whoever goes back to an earlier record of an object goes on from there without leaving one out: the records that
    break this. So a consumer that does not recognise repetitions is right again as soon as the deliveries have caught
    up."""
    places: dict[str, dict[tuple[int, str], int]] = defaultdict(dict)
    at: dict[str, int] = {}
    wrong = []
    for received in stream:
        place = places[received.subject].setdefault(received.unique_id, len(places[received.subject]))
        if place > at.get(received.subject, -1) + 1:
            wrong.append(received)
        at[received.subject] = place
    return wrong


def assert_makes_sense(first: Iterable[Received], who: str) -> None:
    __tracebackhide__ = True
    assert_none(who, impossible=impossible(first))


def impossible(first: Iterable[Received]) -> list[str]:
    """A consumer that keeps state never meets a change that its state cannot take: nothing is added twice, and what is
    not there is neither changed nor deleted. Recreated means: deleted, added. The records that break this."""
    there: dict[str, str] = {}
    wrong = []
    for received in first:
        known = there.get(received.subject)
        if received.op != "sync" and known != (None if received.op == "added" else received.uid):
            wrong.append(f"{received} where the consumer knows {known or 'nothing'}")
        if received.op == "deleted":
            there.pop(received.subject, None)
        else:
            there[received.subject] = received.uid
    return wrong


# ── Truth ────────────────────────────────────────────────────────────────────


def assert_true(first: Iterable[Received], happened: Iterable[Happened], who: str) -> None:
    __tracebackhide__ = True
    assert_none(who, **untrue(first, happened))


def untrue(first: Iterable[Received], happened: Iterable[Happened]) -> dict[str, Sequence[object]]:
    """Every delivered change happened, and the objects were so. What a list showed may stand for steps that nobody saw:
    any version of the object may then be delivered as its addition, and a delete carries the last version that was
    delivered. The records that break this, by how they do."""
    exact = {each.version: each for each in happened}
    states = {each.version[:2]: each for each in happened if each.version.op != "deleted"}
    last: dict[str, Received] = {}
    invented, different, not_last = [], [], []
    for received in first:
        truth = exact.get(received.version)
        if truth is None and _is_a_state(received):
            truth = states.get(received.version[:2])
            before = last.get(received.uid)
            if received.op == "deleted" and (before is None or before.data != received.data):
                not_last.append(received)
        if truth is None:
            invented.append(received)
        elif without_secrets(received.data) != without_secrets(truth.data):
            place = where_different(without_secrets(received.data), without_secrets(truth.data))
            different.append(f"{received} in {place}")
        last[received.uid] = received
    return {"never_happened": invented, "different": different, "deleted_without_last_state": not_last}


def _is_a_state(received: Received) -> bool:
    """Not the change to it: somebody looked, and it was so."""
    return received.evidence in LISTS or received.op == "sync"


def assert_complete(first: Sequence[Received], happened: Sequence[Happened], who: str) -> int:
    """Returns how many were excused."""
    __tracebackhide__ = True
    lost, skipped = lost_steps(first, happened)
    assert_none(who, lost=lost)
    return len(skipped)


def lost_steps(first: Sequence[Received], happened: Sequence[Happened]) -> tuple[list[Happened], list[Happened]]:
    """The versions that were not delivered, and those of them that are excused: nobody could see them, and the next
    delivered record of the object says that it was found in a list."""
    stories: dict[str, list[Received]] = defaultdict(list)
    for received in first:
        stories[received.uid].append(received)
    versions: dict[str, list[Happened]] = defaultdict(list)
    for each in happened:
        versions[each.uid].append(each)
    lost: list[Happened] = []
    skipped: list[Happened] = []
    for uid, existed in versions.items():
        story = stories[uid]
        missing = _missing(existed, story)
        if not story and existed[-1].version.op == "deleted":
            skipped += missing  # It came and went unseen.
            continue
        for each in missing:
            (skipped if _is_excused(each, story) else lost).append(each)
    return lost, skipped


def _missing(existed: Sequence[Happened], story: Sequence[Received]) -> list[Happened]:
    exact = {received.version for received in story}
    states = {received.version[:2] for received in story if _is_a_state(received) and received.op != "deleted"}
    gone = any(_is_a_state(received) and received.op == "deleted" for received in story)

    def is_received(each: Happened) -> bool:
        return each.version in exact or (gone if each.version.op == "deleted" else each.version[:2] in states)

    return [each for each in existed if not is_received(each)]


def _is_excused(each: Happened, story: Sequence[Received]) -> bool:
    """A delete that a list showed has the number of the last version that was delivered: it happened some time
    later."""
    after = [
        event
        for event in story
        if int(event.resource_version) > each.number or (event.op == "deleted" and _is_a_state(event))
    ]
    return bool(after) and _is_a_state(after[0])
