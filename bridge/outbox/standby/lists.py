"""Lists of a replica whose watches lag behind what another leader has delivered.

A list shows no delete of an object that the log here never had. So where the sinks may have got such an object, a
leader resigns before the list: a replica that has seen all of it takes over. Without one, this replica leads again with
a Gap and a snapshot, as any replica that is not exact; also after a restart in between.
"""

from __future__ import annotations

import apsw

from bridge.facts import LeadershipResigned, Report
from bridge.model.versions.frontier import Point
from bridge.outbox.log.statements import RunningInformer
from bridge.outbox.sink_cursors import SinkCursors
from bridge.outbox.standby.standby import Standby
from bridge.outbox.store import Store


class Lists:
    """See ``appender.BeforeLists``."""

    def __init__(self, store: Store, sinks: SinkCursors, standby: Standby, report: Report) -> None:
        self._store = store
        self._sinks = sinks
        self._standby = standby
        self._report = report

    def note(self, informer: RunningInformer, listed: str | None = None) -> bool:
        standby, point = self._standby, None if listed is None else Point(informer.epoch, listed)
        found = any(standby.passes_over(cursor.sink, informer.key, point) for cursor in self._sinks.all)
        if found and not standby.overtaken:
            self._store.write(_note, committed=lambda _: standby.be_overtaken())
        return found

    async def begin(self, informer: RunningInformer, listed: str | None) -> None:
        standby = self._standby
        if self.note(informer, listed) and standby.leads_or_takes_over and standby.resign is not None:
            self._report(LeadershipResigned(standby.term, str(informer.resource)))
            await standby.resign()


def _note(database: apsw.Connection) -> None:
    database.execute("UPDATE meta SET overtaken = 1")
