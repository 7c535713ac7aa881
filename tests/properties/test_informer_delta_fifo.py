"""The DeltaFIFO against a plain model: a list of everything that arrived and was not processed yet."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from bridge.informer.delta_fifo import DeltaFIFO
from bridge.informer.deltas import Deltas, DeltaType, FifoClosed, QueuedDelta
from bridge.model.answers import EventType
from bridge.model.object import ApiObject
from tests.kit.examples import examples
from tests.kit.objects import a_pod
from tests.kit.virtual_time import VirtualTimeLoop

T = TypeVar("T")

PODS = {name: a_pod(name) for name in "abc"}
names = st.sampled_from(sorted(PODS))


@dataclass
class Entry:
    """One delta as the model has it."""

    type: DeltaType
    key: str
    object: ApiObject | None
    targets: tuple[str, ...] | None = None
    arrival: int = field(default=0, compare=False)


def entry(delta: QueuedDelta) -> Entry:
    return Entry(delta.type, delta.key, delta.object, delta.targets)


class Failing(Exception):
    """Processing went wrong."""


class AgainstAModel(RuleBasedStateMachine):
    """Deltas arrive, lists come in parts, batches are taken whole or by key, and processing may fail or take long
    enough for more to arrive."""

    @initialize()
    def begin(self) -> None:
        self.runner = asyncio.Runner(loop_factory=VirtualTimeLoop)
        self.known: dict[str, None] = {}
        self.pending: list[Entry] = []
        self.in_flight: list[Entry] = []
        self.position: str | None = None
        self.due = False
        self.listed: set[str] | None = None
        self.first_list_left: list[Entry] | None = None
        self.version = self.arrivals = 0
        self.fifo = self.run(self._new())

    async def _new(self) -> DeltaFIFO:
        return DeltaFIFO(self.known)

    def run(self, what: Coroutine[Any, Any, T]) -> T:
        return self.runner.get_loop().run_until_complete(what)

    def teardown(self) -> None:
        if not hasattr(self, "fifo"):
            return
        with self.runner:
            while self.pending:
                self.drain()
            self.fifo.close()
            if self.due:
                self.run(self.fifo.drain(self._is_empty))
            with pytest.raises(FifoClosed):
                self.run(self.fifo.drain(self._is_empty))

    async def _is_empty(self, deltas: Sequence[QueuedDelta], position: str | None) -> None:
        assert (list(deltas), position) == ([], self.position)

    # ── What arrives ─────────────────────────────────────────────────────────

    def next_version(self, name: str) -> ApiObject:
        self.version += 1
        return PODS[name].at(self.version)

    def queue(self, new: Entry) -> None:
        """The model: at the end, unless it is the second delete in a row."""
        of_key = [each for each in self.pending if each.key == new.key]
        if new.type is DeltaType.DELETED and of_key and of_key[-1].type is DeltaType.DELETED:
            of_key[-1].object = of_key[-1].object or new.object
            return
        self.arrivals += 1
        new.arrival = new.arrival or self.arrivals
        self.pending.append(new)

    @rule(name=names, kind=st.sampled_from(EventType), in_doubt=st.booleans())
    def happen(self, name: str, kind: EventType, in_doubt: bool = False) -> None:
        thing = self.next_version(name)
        position = None if in_doubt else str(self.version)
        self.fifo.happened([(kind, thing)], position)
        delta = {"ADDED": DeltaType.ADDED, "MODIFIED": DeltaType.UPDATED, "DELETED": DeltaType.DELETED}[kind]
        self.queue(Entry(delta, thing.key, thing))
        self.position, self.due = position, self.due or not in_doubt
        if kind is EventType.DELETED and self.listed is not None:
            self.listed.discard(thing.key)

    @rule()
    def bookmark(self) -> None:
        self.version += 1
        self.fifo.reached(str(self.version))
        self.position, self.due = str(self.version), True

    @rule()
    def begin_list(self) -> None:
        self.fifo.begin_replace()
        self.listed = set()

    @precondition(lambda self: self.listed is not None)
    @rule(name=names)
    def list_one(self, name: str) -> None:
        assert self.listed is not None
        thing = self.next_version(name)
        self.fifo.replaced([thing])
        self.listed.add(thing.key)
        self.queue(Entry(DeltaType.REPLACED, thing.key, thing))
        self.position = None

    @precondition(lambda self: self.listed is not None)
    @rule(complete=st.booleans())
    def end_list(self, complete: bool) -> None:
        assert self.listed is not None
        self.version += 1
        assert self.run(self.fifo.end_replace(str(self.version), complete=complete)) == len(self.listed)
        if complete:
            there = {each.key: each for each in self.pending}
            gone = [key for key, last in there.items() if last.type is not DeltaType.DELETED]
            gone += [key for key in self.known if key not in there]
            for key in gone:
                if key not in self.listed:
                    self.queue(Entry(DeltaType.DELETED, key, None))
            self.position = str(self.version)
        self.due = True
        self.listed = None
        if self.first_list_left is None:
            self.first_list_left = [*self.in_flight, *self.pending]

    @rule(listener=st.sampled_from(["audit", "live"]))
    def resync(self, listener: str) -> None:
        self.run(self.fifo.resync((listener,)))
        for key in self.known:
            of_key = [each for each in self.pending if each.key == key]
            if not of_key:
                self.queue(Entry(DeltaType.SYNC, key, None, (listener,)))
            elif of_key[-1].type is DeltaType.SYNC and of_key[-1].targets and listener not in of_key[-1].targets:
                of_key[-1].targets += (listener,)

    # ── What is taken ────────────────────────────────────────────────────────

    @precondition(lambda self: self.pending)
    @rule(fails=st.booleans(), meanwhile=st.booleans(), name=names)
    def take_all(self, fails: bool = False, meanwhile: bool = False, name: str = "a") -> None:
        position, self.due = self.position, False
        self.in_flight, self.pending = self.pending, []

        async def process(deltas: Sequence[QueuedDelta], reached: str | None) -> None:
            assert [entry(delta) for delta in deltas] == self.in_flight
            assert reached == position
            if meanwhile:
                self.happen_meanwhile(name)
            if fails:
                raise Failing

        self.process(self.fifo.drain(process), fails, whole=True)

    def drain(self) -> None:
        self.take_all()

    @precondition(lambda self: self.pending)
    @rule(fails=st.booleans(), meanwhile=st.booleans(), name=names)
    def take_key(self, fails: bool, meanwhile: bool, name: str) -> None:
        key = self.pending[0].key
        self.in_flight = [each for each in self.pending if each.key == key]
        self.pending = [each for each in self.pending if each.key != key]

        async def process(deltas: Deltas) -> None:
            assert [entry(delta) for delta in deltas] == self.in_flight
            if meanwhile:
                self.happen_meanwhile(name)
            if fails:
                raise Failing

        self.process(self.fifo.pop(process), fails, whole=False)

    def happen_meanwhile(self, name: str) -> None:
        self.happen(name, EventType.MODIFIED)

    def process(self, taking: Coroutine[Any, Any, None], fails: bool, *, whole: bool) -> None:
        try:
            self.run(taking)
        except Failing:
            assert fails
            # Back in their places, as if they had never been taken.
            newer, self.pending = self.pending, []
            for each in sorted([*self.in_flight, *newer], key=lambda each: each.arrival):
                self.queue(each)
            self.due = self.due or whole
        else:
            self.store(self.in_flight)
            if self.first_list_left is not None:
                self.first_list_left = [
                    each for each in self.first_list_left if all(each is not x for x in self.in_flight)
                ]
        self.in_flight = []

    def store(self, processed: list[Entry]) -> None:
        for each in processed:
            if each.type is DeltaType.DELETED:
                self.known.pop(each.key, None)
            elif each.type is not DeltaType.SYNC:
                self.known[each.key] = None

    # ── What always holds ────────────────────────────────────────────────────

    @invariant()
    def same_as_the_model(self) -> None:
        if not hasattr(self, "fifo"):
            return
        assert len(self.fifo) == len(self.pending)
        assert list(self.fifo.queue) == list(self.fifo.items)
        for key, deltas in self.fifo.items.items():
            assert [entry(delta) for delta in deltas] == [each for each in self.pending if each.key == key]

    @invariant()
    def synced_when_the_first_list_was_processed(self) -> None:
        if hasattr(self, "fifo"):
            assert self.fifo.has_synced == (self.first_list_left == [])


TestAgainstAModel = AgainstAModel.TestCase
TestAgainstAModel.settings = examples(50, stateful_step_count=40)
