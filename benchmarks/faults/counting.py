"""Counts of the records of a destination, against the history of the store. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise
from math import inf
from typing import Self

from tests.kit.etcd_history import Happened
from tests.kit.judge import impossible, left_out, lost_steps, untrue
from tests.kit.received import Received, disordered, repeats, without_repeats


@dataclass(frozen=True, slots=True)
class Arrival:
    """One record at its destination."""

    at: float
    """Seconds since 1970, by the destination's clock."""
    record: Received


@dataclass(frozen=True, slots=True)
class Round:
    """From the moment of a fault until all that happened by then was delivered. Seconds since 1970."""

    began: float
    ended: float
    moments: tuple[float, ...]
    """From which on another leader, or the same, may repeat what was settled. Ascending."""

    @classmethod
    def of(cls, began: float, ended: float, ends: Sequence[float]) -> Self:
        """``ends``: when leaders ended that the destination had records of until then; without any, it is the fault
        itself that brings repetitions."""
        return cls(began, ended, tuple(ends) or (began,))


@dataclass(slots=True)
class Counts:
    """Of one destination in all rounds of a fault."""

    steps: int = 0
    """Versions in the store's history."""
    lost: int = 0
    """Steps that were not delivered, also those that a list found to be missing."""
    unseen: int = 0
    """Steps of objects that came and went while no watch was open, and that no list showed."""
    disordered: int = 0
    """Records behind a newer one of their object, also among repetitions; and those that contradict the ones before.
    Stale records are counted by themselves."""
    untrue: int = 0
    """Records that differ from the store's history."""
    repeated: int = 0
    """Deliveries of a record, with an equal id, after its first."""
    renamed: int = 0
    """Deliveries of a version, with another id, after its first."""
    stale: int = 0
    """Records of a leader behind the first record of a later term."""
    gaps: int = 0
    """Notices that records are missing."""
    silences: list[float] = field(default_factory=list)
    """For each round, the longest time without an arrival, in seconds."""
    ages: list[float] = field(default_factory=list)
    """For each moment of a round with repetitions behind it, the longest time since a leader had settled one, at that
    moment, in seconds."""

    def add(self, other: Counts) -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


def counted(
    arrivals: Sequence[Arrival],
    gaps: int,
    happened: Sequence[Happened],
    rounds: Sequence[Round],
    others: Sequence[Arrival] = (),
    *,
    reduced: bool = False,
) -> Counts:
    """``arrivals`` in the order of their times. ``happened``: all versions, until the last round has ended. ``others``:
    of objects that the destination has for a time, of which only contradictions count. ``reduced``: it may lack the
    steps in front of the newest one of a name."""
    stream = [arrival.record for arrival in arrivals]
    fresh = _without_stale(stream)
    first = without_repeats(fresh)
    if reduced:
        first = _as_happened(first, happened)
    owed = list({each.subject: each for each in happened}.values()) if reduced else happened
    lost, skipped = lost_steps(first, owed)
    seen = {each.uid for each in first}
    unseen = sum(each.uid not in seen for each in skipped)
    return Counts(
        steps=len(owed),
        lost=len(lost) + len(skipped) - unseen,
        unseen=unseen,
        disordered=len(disordered(fresh))
        + len(left_out(fresh))
        + (0 if reduced else len(impossible(first)))
        + _contradictions(others),
        untrue=sum(len(found) for found in untrue(first, happened).values()),
        repeated=repeats(fresh),
        renamed=_renamed(first),
        stale=len(stream) - len(fresh),
        gaps=gaps,
        silences=[_silence(arrivals, each) for each in rounds],
        ages=_ages(arrivals, rounds),
    )


def _as_happened(first: Iterable[Received], happened: Iterable[Happened]) -> list[Received]:
    """A compacted backlog has the first state that the destination gets of an object as added, and a later one as
    updated, whatever these steps were."""
    ops = {each.version[:2]: each.version.op for each in happened if each.version.op != "deleted"}
    return [each if each.op == "deleted" else replace(each, op=ops.get(each.version[:2], each.op)) for each in first]


def _contradictions(others: Iterable[Arrival]) -> int:
    return len(impossible(without_repeats(_without_stale(each.record for each in others))))


def _renamed(first: Iterable[Received]) -> int:
    """A delete of a deleted object is a repetition, whichever version it has."""
    seen: set[tuple[int, str, str]] = set()
    count = 0
    for each in first:
        version = (each.epoch, each.uid, "deleted" if each.op == "deleted" else each.resource_version)
        count += version in seen
        seen.add(version)
    return count


def _without_stale(stream: Iterable[Received]) -> list[Received]:
    newest, fresh = 0, []
    for each in stream:
        newest = max(newest, each.term)
        if each.term == newest:
            fresh.append(each)
    return fresh


def _silence(arrivals: Sequence[Arrival], round_: Round) -> float:
    """The last arrival before the round counts, and none after it: the next fault may follow at once."""
    before = bisect_right(arrivals, round_.began, key=_time) - 1
    after = bisect_left(arrivals, round_.ended, key=_time)
    times = [each.at for each in arrivals[max(before, 0) : after]]
    whole = [*([round_.began] if before < 0 else []), *times, round_.ended]
    return round(max(later - sooner for sooner, later in pairwise(whole)), 3)


def _ages(arrivals: Sequence[Arrival], rounds: Sequence[Round]) -> list[float]:
    oldest: list[float] = []
    for fault, following in pairwise([*(moment for each in rounds for moment in each.moments), inf]):
        begin, end = (bisect_left(arrivals, moment, key=_time) for moment in (fault, following))
        settled = _settled(arrivals[:begin])
        again = [each for each in arrivals[begin:end] if each.record.unique_id in settled]
        if again:
            oldest.append(round(max(fault - settled[each.record.unique_id] for each in again), 3))
    return oldest


def _settled(arrivals: Sequence[Arrival]) -> dict[tuple[int, str], float]:
    """When the newest leader that delivered a record had it settled: all records of the term up to it had arrived."""
    settled: dict[tuple[int, str], float] = {}
    in_order = sorted(arrivals, key=lambda each: (each.record.term, each.record.sequence))
    for _, delivered in groupby(in_order, key=lambda each: each.record.term):
        last = 0.0
        for each in delivered:
            last = max(last, each.at)
            settled[each.record.unique_id] = last
    return settled


def _time(arrival: Arrival) -> float:
    return arrival.at
