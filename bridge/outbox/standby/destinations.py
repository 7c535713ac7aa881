"""Sinks whose destination stores their progress: with it, a replica that takes over goes on exactly behind the one
before."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial

from bridge.model.primitives.fetch import Fetch
from bridge.model.record import Delta, OrderingKey, Record
from bridge.model.versions.frontier import Frontier, Point, SinkFrontier, later
from bridge.model.versions.progress import BeyondPart, LettersBefore, Progress, SharedProgress
from bridge.outbox.appender import Appender
from bridge.outbox.consumers.backfill import BackfillKind
from bridge.outbox.progress.destination_progress import ReadOthers
from bridge.outbox.progress.shared import Reached, SharedSink
from bridge.outbox.sink_cursors import SinkCursors
from bridge.outbox.standby.coverage.covered import reached, settled
from bridge.outbox.standby.epochs import present
from bridge.outbox.standby.standby import Standby
from bridge.outbox.store import Store
from bridge.outbox.waypoints import sql
from bridge.outbox.waypoints.index import Waypoints


class Destinations:
    """The leader's sinks with exactly_once. The frontier in the Lease is up to two seconds old; that in a destination
    is of its last transaction, and counts from the moment in which its earlier writers are fenced."""

    def __init__(self, store: Store, appender: Appender, sinks: SinkCursors, standby: Standby) -> None:
        self._store = store
        self._appender = appender
        self._sinks = sinks
        self._standby = standby
        self._shared: dict[str, SharedSink] = {}
        self._read: dict[str, int] = {}
        """Sink → the term in which its progress was read last."""
        self._others: dict[str, ReadOthers] = {}
        self._of_others: dict[str, tuple[int, Mapping[str, LettersBefore]]] = {}
        """Sink → what the destination has of other shards, as read in this term."""
        self._informers: dict[tuple[str, str], tuple[str, ...]] = {}
        """Resource and namespace → the running informers; asked anew for each transaction."""

    @property
    def term(self) -> int:
        return self._standby.term

    async def recover(
        self, sink: str, found: Progress | None, parts: Sequence[BeyondPart], others: ReadOthers
    ) -> Progress | None:
        """Moves the cursor behind what the destination has, whichever replica has stored it. Call before the first
        ``take``, when no earlier writer can store any more. Returns the dead letters that this replica delivered last,
        if another one has stored its progress since."""
        self._others[sink] = others
        shared = None if found is None else found.frontier
        cursor = self._sinks[sink].birth
        own = None if shared is None else shared.letters.get(cursor)
        letters = {} if found is None else _letters_in(found, cursor)
        self._informers.clear()
        self._shared[sink], self._read[sink] = SharedSink(shared, parts, letters), self.term
        await self._find_named(sink)
        if shared is not None:
            await self._go_behind(sink, shared)
        if found is not None and shared is not None and found.cursor != cursor:
            self._standby.others.learn(sink, shared.informers)
        return None if own is None else Progress(start=own.start, cursor=cursor, out=own.out, letters=own.letters)

    def letters_before(self, sink: str) -> Mapping[str, LettersBefore] | None:
        """See DestinationProgress."""
        return self._shared[sink].letters if self._read.get(sink) == self.term else None

    async def letters_of_former_shard(self, sink: str) -> Mapping[str, LettersBefore] | None:
        """See DestinationProgress."""
        known = self.letters_before(sink)
        if known is None:
            return None
        term, of_others = self._of_others.get(sink, (0, {}))
        if term != self.term:
            found = await self._others[sink]()
            if found is None:
                return None
            of_others = {key: each for one in found for key, each in _letters_in(one).items()}
            self._of_others[sink] = self.term, of_others
        return {**of_others, **known}

    async def name_letters(self, sink: str, keys: Collection[OrderingKey]) -> None:
        """See TransactionSource. What the destination's progress covers, the next leader does not deliver: it has to
        know from the Lease which of these objects have dead letters, and where, or it would deliver later records of
        them. And a dead letter that nobody expects would outlive the delivery of its record by the next leader."""
        if self._sinks.dead_letters[sink].keys.expect(keys):
            await self._confirm()

    async def _find_named(self, sink: str) -> None:
        """Returns once the Lease names what this replica has."""
        keys = self._sinks.dead_letters[sink].keys
        keys.expect_none()
        if not keys.named and sink not in self._standby.configured.passing:
            await self._confirm()
            keys.named = True

    async def _confirm(self) -> None:
        if self._standby.confirm is not None:
            await self._standby.confirm(also_ending=True)

    async def _go_behind(self, sink: str, shared: SharedProgress) -> None:
        standby, cursor, waypoints, last = self._standby, self._sinks[sink], self._waypoints, self._sinks.last
        frontier, lease = self._joined(sink, shared), standby.found
        standby.delivered[sink] = frontier
        holds = lease is None or standby.selected.holds(sink, lease)
        through, ended = reached(waypoints, cursor, frontier, last, holds=holds)
        standby.elsewhere.learn(sink, settled(waypoints, sink, frontier, last))
        batches = await self._store.ask(partial(sql.between, after=cursor.settled, through=last))
        standby.elsewhere.begin(batches)
        if ended:
            self._sinks.end_backfill(sink)
        cursor.settle(through)

    def _joined(self, sink: str, shared: SharedProgress) -> Frontier:
        """The frontier of the destination with that of the Lease. A snapshot of the own log stays."""
        lease, backfill = self._standby.found, self._sinks[sink].backfill
        points: dict[str, Point | None] = dict(shared.informers)
        epochs = present(self._appender)
        retired = shared.retired
        if lease is not None:
            for informer in {*points, *lease.informers}:
                points[informer] = later(points.get(informer), lease.of(sink, informer), epochs.get(informer, 0))
            retired = (*lease.retired, *retired)
        kept = BackfillKind.SNAPSHOT if backfill is not None and backfill.kind is BackfillKind.SNAPSHOT else ""
        sinks = {sink: SinkFrontier(backfill=kept)}
        return Frontier(1, "", 0, "", "", 0, informers=points, retired=retired, sinks=sinks)

    def has(self, sink: str, record: Record) -> bool:
        """Whether the destination has the record: another replica has stored it."""
        shared = self._shared.get(sink)
        if shared is None:
            return False
        if record.snapshot is not None:
            shared.forget()  # As in Standby.has.
        return shared.has(record, self._informers_of)

    def after(self, sink: str, fetch: Fetch[Record]) -> tuple[SharedProgress, BeyondPart | None]:
        """What the transaction with this fetch stores; all fetches before it are settled."""
        through = max(self._sinks[sink].settled, fetch.through or 0)
        return self._after(sink, fetch.items, through)

    def after_letters(self, sink: str, records: Sequence[Record]) -> tuple[SharedProgress, BeyondPart | None]:
        """With a transaction of dead letters. A batch of the log may not be settled yet that has some of them."""
        return self._after(sink, records, self._sinks[sink].settled)

    def settle(self, sink: str) -> None:
        """The last transaction is stored."""
        self._shared[sink].settle()

    def _after(self, sink: str, items: Sequence[Record], through: int) -> tuple[SharedProgress, BeyondPart | None]:
        self._informers.clear()
        waypoints = self._waypoints
        now = Reached(
            points=waypoints.settled(through),
            newest=waypoints.reached,
            ended=waypoints.ended,
            retired=waypoints.retired(through),
            epochs=present(self._appender),
            sequence=through + self._standby.ahead,
            listing=waypoints.listing,
        )
        return self._shared[sink].after(items, now, self._informers_of)

    @property
    def _waypoints(self) -> Waypoints:
        waypoints = self._appender.waypoints
        if waypoints is None:
            raise RuntimeError("the outbox has not joined the election")
        return waypoints

    def _informers_of(self, delta: Delta) -> tuple[str, ...]:
        of = delta.resource.name, delta.key.rpartition("/")[0]
        if (known := self._informers.get(of)) is None:
            known = self._informers[of] = informers_of(self._appender, *of)
        return known


def _letters_in(found: Progress, cursor: str = "") -> dict[str, LettersBefore]:
    """By cursors, without this one."""
    letters = {} if found.frontier is None else dict(found.frontier.letters)
    if found.letters:
        letters[found.cursor] = LettersBefore(found.start, found.out, found.letters)
    letters.pop(cursor, None)
    return letters


def informers_of(appender: Appender, resource: str, namespace: str) -> tuple[str, ...]:
    """The running informers that may have brought a record."""
    found: Mapping[str, None] = {
        informer.key: None
        for (name, scope), informer in appender.informers.items()
        if name == resource and scope.namespace in (None, "", namespace)
    }
    return tuple(sorted(found))
