"""The selections of the sinks, as the state knows them, and the difference that a changed selection makes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import attrgetter

from bridge.model.change import Evidence, Op
from bridge.model.record import Delta, Selected
from bridge.model.resource import Resource
from bridge.outbox.appender import Appender
from bridge.outbox.consumers import selections
from bridge.outbox.consumers.selections import HeldObject, StoredSelection
from bridge.outbox.log import ledger_sql, statements
from bridge.outbox.log.selecting import Decide
from bridge.outbox.store import Store

_AT_ONCE = 500
"""Objects that are read, or moved, in each transaction."""


@dataclass(frozen=True, slots=True)
class LastState:
    """An object of the ledger."""

    held: HeldObject
    resource: Resource
    body: bytes


@dataclass(frozen=True, slots=True)
class Moved:
    """An object that entered or left selections because these changed."""

    state: LastState
    members: int
    """The sinks whose selection contains it now."""
    exported: Sequence[tuple[str, Op]]
    """Sinks that get a record about it: ``added`` or ``deleted``."""


class Selections:
    """Reads and changes the selections of a state. Only the start of a bridge does, before any informer runs."""

    def __init__(
        self, store: Store, appender: Appender, stored: Mapping[str, StoredSelection], clock: Callable[[], str]
    ) -> None:
        self._store = store
        self._appender = appender
        self._clock = clock
        self.stored = dict(stored)
        """Sink → its selection; sinks without a selection are absent."""

    def decide_by(self, decide: Decide) -> None:
        """Lets ``decide`` decide on all records from now on."""
        self._appender.decide = decide

    async def define(self, sink: str, entries: str, names: str, *, changed: bool) -> None:
        """See consumers.selections.define. Durable on return."""
        define = partial(selections.define, sink=sink, entries=entries, names=names, changed=changed)
        self.stored[sink] = await self._store.write(define, shrinks=True)

    async def objects(self) -> Iterable[Sequence[int]]:
        """The numbers of the last states of all objects, in parts for ``read``."""
        found = await self._store.ask(selections.objects)
        return (found[start : start + _AT_ONCE] for start in range(0, len(found), _AT_ONCE))

    async def read(self, sequences: Sequence[int]) -> Sequence[LastState]:
        """Raises Damaged."""
        held = await self._store.ask(partial(selections.held, sequences=sequences))
        codec = self._store.codec
        return [LastState(each, codec.resources[each.resource], codec.bodies.unpack(each.body)) for each in held]

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
            state.body,
            targets=(sink,),
            selected=Selected(stored.mask, 0, 0, stored.mask if op is Op.ADDED else 0),
            selection=stored.number,
        )


_kind = attrgetter("state.held.kind")
