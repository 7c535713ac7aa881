"""The selections of the sinks, as the state knows them, and the difference that a changed selection makes."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import attrgetter

from bridge.model.change import Evidence, Op
from bridge.model.record import MOST_SELECTIONS, Delta, Selected
from bridge.model.resource import Resource
from bridge.outbox.appender import Appender
from bridge.outbox.consumers import judged, selections
from bridge.outbox.consumers.judged import JudgedRecords
from bridge.outbox.consumers.replays import condition
from bridge.outbox.consumers.selections import HeldObject, StoredSelection
from bridge.outbox.errors import StateError
from bridge.outbox.log import ledger_sql, statements
from bridge.outbox.log.statements import Decide
from bridge.outbox.store import Store

_AT_ONCE = 500
"""Objects that are read, or moved, in each transaction."""


@dataclass(frozen=True, slots=True)
class LastState:
    """An object of the ledger."""

    held: HeldObject
    resource: Resource


@dataclass(frozen=True, slots=True)
class Moved:
    """An object that entered or left selections because these changed."""

    state: LastState
    members: int
    """The sinks whose selection contains it now."""
    exported: Sequence[tuple[str, Op]]
    """Sinks that get a record about it: ``added`` or ``deleted``."""


class Selections:
    """Reads and changes the selections of a state, while no informer runs: at the start of a bridge, and at a change of
    its configuration."""

    def __init__(
        self, store: Store, appender: Appender, stored: Mapping[str, StoredSelection], clock: Callable[[], str]
    ) -> None:
        self._store = store
        self._appender = appender
        self._clock = clock
        self.stored = dict(stored)
        """Sink → its selection; sinks without a selection are absent."""
        self.turns = appender.turns
        """In which selections are evaluated."""

    def decide_by(self, decide: Decide) -> None:
        """Lets ``decide`` decide on all records from now on."""
        self._appender.decide = decide

    def expect_room(self, selecting: Sequence[str]) -> None:
        """Raises StateError if there are too many selections with those of these sinks."""
        if len(found := {*self.stored, *selecting}) > MOST_SELECTIONS:
            new = ", ".join(sink for sink in selecting if sink not in self.stored)
            raise StateError(
                f"sinks: with the new selections of {new}, {len(found)} sinks of the state have a selection, and at"
                f" most {MOST_SELECTIONS} may; removed sinks count until state.forget_sinks_after"
            )

    async def define(self, sink: str, entries: str, names: str, *, changed: bool) -> None:
        """See consumers.selections.define. Durable on return."""
        define = partial(selections.define, sink=sink, entries=entries, names=names, changed=changed)
        self.stored[sink] = await self._store.write(define, shrinks=True)

    async def states(self, sequences: Sequence[int] | None = None) -> AsyncIterator[Sequence[LastState]]:
        """The last states of all objects, or the states in these records of the ledger, in parts whose number and bytes
        are bounded. Raises Damaged."""
        found, codec = sequences, self._store.codec
        if found is None:
            found = await self._store.ask(selections.objects)
        at = 0
        while at < len(found):
            part = partial(selections.held, sequences=found[at : at + _AT_ONCE], bodies=codec.bodies)
            held = await self._store.ask(part)
            yield [LastState(each, codec.resources[each.resource]) for each in held]
            at += len(held)

    async def judge(
        self,
        sink: str,
        decide: Decide,
        *,
        start: int | str = 0,
        through: int = sys.maxsize,
        kind: int | None = None,
        namespace: str | None = None,
    ) -> JudgedRecords:
        """What the sink gets of the records in the log from ``start`` (a sequence number, or an RFC 3339 time) through
        ``through``, as ``decide`` decides on them now. Raises Damaged."""
        kinds = await self._store.ask(ledger_sql.kinds)
        records = JudgedRecords(
            decide, self.stored[sink].mask, lambda delta: self._store.body_before(kinds[delta.resource.name], delta)
        )
        where, values = condition(start, kind, namespace)
        after = 0
        while found := await self._store.ask(
            partial(judged.read, codec=self._store.codec, after=after, through=through, condition=where, values=values)
        ):
            await self.turns.map(records.judge, found)
            after = found[-1].sequence
        return records

    async def took_effect(self) -> None:
        """The selections are in effect, and ``stored`` is as in the database from now on."""
        self.stored = await self._store.ask(selections.load)

    async def move(self, moved: Sequence[Moved]) -> None:
        """Saves the members of these objects, with the records that the sinks get. After a crash, an object has both or
        neither. Durable on return."""
        written: list[Awaitable[object]] = []
        for kind, of_kind in groupby(sorted(moved, key=_kind), key=_kind):
            here = list(of_kind)
            members = [(each.members, kind, each.state.held.sequence) for each in here]
            exported = [(each, sink, op) for each in here for sink, op in each.exported]
            if exported:
                deltas = [self._record(each.state, sink, op) for each, sink, op in exported]
                resources = [each.state.held.resource for each, _, _ in exported]
                batch = statements.without_informer(kind, resources, [None] * len(deltas), members=members)
                written.append(self._appender.write(deltas, batch))
            else:
                written.append(self._store.write(partial(ledger_sql.save_members, members=members)))
        for each in written:
            await each

    def _record(self, state: LastState, sink: str, op: Op) -> Delta:
        stored, held = self.stored[sink], state.held
        return Delta(
            self._appender.number_next(),
            op,
            Evidence.UNSELECTED if op is Op.DELETED else Evidence.RELISTED,
            state.resource,
            held.key,
            held.uid,
            held.version,
            self._clock(),
            held.epoch,
            held.body,
            targets=(sink,),
            selected=Selected(stored.mask, 0, 0, stored.mask if op is Op.ADDED else 0),
            selection=stored.number,
        )


_kind = attrgetter("state.held.kind")
