"""Takes the changes of an informer as an exporter would, believes nothing, and keeps the state that they lead to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bridge.model.change import Change, Evidence, ObjectVersion, Op
from bridge.model.object import ApiObject
from tests.kit.simulated_cluster import SimulatedCluster

ANNOUNCED = (Evidence.WATCHED, Evidence.RECOVERED)
"""A delete then has its own version."""


@dataclass
class Consumers:
    """Every change must make sense after the exported changes before it. No change is exported twice within an epoch,
    nothing goes back in time, and a position is right in both directions."""

    cluster: SimulatedCluster
    with_body: Callable[[str, ObjectVersion], ApiObject]
    epoch: int = 1
    state: dict[str, ApiObject] = field(default_factory=dict)
    received: Counter[tuple[int, str, str, Op]] = field(default_factory=Counter)
    newest: dict[tuple[int, str], int] = field(default_factory=dict)
    watched: int = 0
    position: int = 0

    def take(self, changes: Sequence[Change], position: str | None, epoch: int) -> None:
        if self.epoch != epoch:
            self.epoch, self.position, self.watched = epoch, 0, 0
        for change in changes:
            self.check(change)
        if position is not None:
            assert int(position) >= self.position
            self.position = int(position)
            self.check_position()

    def check_position(self) -> None:
        """A watch from there sends every change that was not exported yet, and no other."""
        if not self.cluster.lost and self.epoch == self.cluster.epochs:
            assert self.state == self.cluster.states[self.position]

    def check(self, change: Change) -> None:
        thing = change.object
        before = self.state.get(thing.key)
        if change.before is None:
            assert before is None
        else:
            assert before == self.with_body(thing.key, change.before)
        match change.op:
            case Op.ADDED:
                assert before is None
                self.state[thing.key] = thing
            case Op.UPDATED:
                assert before is not None
                assert before.uid == thing.uid
                self.state[thing.key] = thing
            case Op.DELETED:
                assert before is None or before.uid == thing.uid
                if change.evidence not in ANNOUNCED:
                    assert before == thing
                self.state.pop(thing.key, None)
            case Op.SYNC:
                assert before == thing
                return
        self.ascends(change)

    def ascends(self, change: Change) -> None:
        thing, epoch = change.object, self.epoch
        key = (epoch, thing.uid, thing.resource_version, change.op)
        self.received[key] += 1
        assert self.received[key] == 1, "delivered twice"
        version = int(thing.resource_version)
        if change.evidence is Evidence.WATCHED:
            assert version > self.watched, "not in the order in which it was announced"
            self.watched = version
        inferred = change.op is Op.DELETED and change.evidence not in ANNOUNCED
        newest = self.newest.get((epoch, thing.uid), 0)
        assert version > newest or (inferred and version >= newest), "back in time"
        self.newest[epoch, thing.uid] = version
