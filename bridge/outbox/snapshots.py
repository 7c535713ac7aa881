"""Snapshots on demand: the objects of the ledger once more, for a sink."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial

from bridge.model.admin import UnknownTarget
from bridge.model.record import SnapshotScope, snapshot_id
from bridge.model.status import SnapshotState, SnapshotStatus
from bridge.outbox.consumers import backfill as backfills
from bridge.outbox.consumers import replays
from bridge.outbox.consumers.backfill import Backfill
from bridge.outbox.consumers.cursors import SinkCursor
from bridge.outbox.consumers.notice_items import scope_of, scope_text
from bridge.outbox.consumers.replays import SnapshotRow
from bridge.outbox.selections import LastState, Selections
from bridge.outbox.sink_cursors import SinkCursors
from bridge.outbox.store import Store
from bridge.telemetry.facts import Report
from bridge.telemetry.facts.outbox import SnapshotBegan, SnapshotCancelled


class Snapshots:
    """Plans, cancels and describes the snapshots of all sinks. A snapshot is a backfill: it survives a crash, with the
    same ids, and changes after it come behind it."""

    def __init__(
        self, store: Store, sinks: SinkCursors, selections: Selections, clock: Callable[[], str], report: Report
    ) -> None:
        self._store = store
        self._sinks = sinks
        self._selections = selections
        self._clock = clock
        self._report = report

    # ── Planning: no ``take`` of the sink runs, and it has no backfill ───────

    async def states_as_of(self, sink: str, taken: int, kind: int | None, namespace: str | None) -> Sequence[int]:
        """See ``replays.states_as_of``. The states stay readable until the sink takes records behind ``taken``."""
        question = partial(replays.states_as_of, sink=sink, through=taken, kind=kind, namespace=namespace)
        return await self._store.ask(question)

    def read(self, states: Sequence[int]) -> AsyncIterator[Sequence[LastState]]:
        """The objects in these states, in parts whose number and bytes are bounded. Raises Damaged."""
        return self._selections.states(states)

    async def begin(
        self, sink: str, taken: int, states: Sequence[int], scope: SnapshotScope | None, *, scheduled: bool
    ) -> SnapshotStatus:
        """Plans a snapshot of these states as of ``taken``, also of none. Durable on return. Raises UnknownTarget while
        the sink has a backfill."""
        cursor = self._sinks.without_backfill(sink)
        begin = partial(
            replays.begin_snapshot,
            sink=sink,
            settled=cursor.settled,
            taken=taken,
            states=states,
            scope=scope_text(scope),
            time=self._clock(),
            scheduled=scheduled,
        )
        # The cursor is looked up again: a reload may have replaced it.
        await self._store.write(begin, committed=lambda begun: self._begun(self._sinks[sink], begun, scope), asked=True)
        self._report(SnapshotBegan(sink, len(states)))
        return await self.status(sink)

    @staticmethod
    def _begun(cursor: SinkCursor, begun: Backfill, scope: SnapshotScope | None) -> None:
        cursor.follow(begun)
        if scope is None:
            cursor.owes_snapshot = 0

    # ── Under way ────────────────────────────────────────────────────────────

    async def cancel(self, sink: str) -> SnapshotStatus:
        """Ends the sink's snapshot behind the records that it has taken. No ``take`` of the sink runs. Durable on
        return. Raises UnknownTarget if it has no snapshot on demand."""
        backfill = self._sinks[sink].backfill
        if backfill is None or not backfill.replay or backfill.snapshot_op is None or backfill.cancelled:
            raise UnknownTarget(f"sink {sink} has no snapshot on demand under way")
        cancel = partial(replays.cancel_snapshot, sink=sink, backfill=backfill, time=self._clock())
        follow = lambda changed: self._sinks[sink].follow(changed[0], compacts=False)  # noqa: E731
        _, left = await self._store.write(cancel, committed=follow, asked=True)
        self._report(SnapshotCancelled(sink, left))
        return await self.status(sink)

    async def status(self, sink: str) -> SnapshotStatus:
        """The sink's newest snapshot on demand. Raises UnknownTarget."""
        _ = self._sinks[sink]
        found = [each for each in await self.statuses() if each.sink == sink]
        if not found:
            raise UnknownTarget(f"sink {sink} has had no snapshot on demand")
        return found[0]

    async def statuses(self) -> Sequence[SnapshotStatus]:
        """The newest snapshot on demand of each sink that had one, by the sinks' names."""
        rows = await self._store.ask(replays.newest_snapshots)
        return [await self._status(row) for _, row in sorted(rows.items())]

    async def _status(self, row: SnapshotRow) -> SnapshotStatus:
        left, state = row.left_out or 0, SnapshotState.DELIVERED
        if row.left_out is not None:
            state = SnapshotState.CANCELLED
        cursor = self._sinks[row.sink]
        if not row.ended and cursor.backfill is not None:
            state = SnapshotState.DELIVERING
            left = await self._store.ask(
                partial(backfills.objects_left, sink=row.sink, backfill=cursor.backfill, behind=cursor.settled_item)
            )
        scope = scope_of(row.scope)
        return SnapshotStatus(
            row.sink,
            row.number,
            snapshot_id(row.sink, row.through, row.number, self._sinks.shard),
            state,
            row.objects,
            left,
            row.began,
            row.ended,
            *(() if scope is None else (scope.resource, scope.namespace, scope.where)),
        )

    # ── Schedules ────────────────────────────────────────────────────────────

    async def begin_schedules(self, sinks: Sequence[str]) -> Mapping[str, str]:
        """See ``replays.begin_schedules``. Durable on return."""
        return await self._store.write(partial(replays.begin_schedules, sinks=sinks, time=self._clock()), shrinks=True)
