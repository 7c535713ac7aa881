"""Lists of a replica whose watches lag behind what another leader has delivered.

A list shows no delete of an object that the log here never had. So where the sinks may have got such an object, a
leader resigns before the list, for a replica that has seen all of it. Without one, this replica leads again with a Gap
and a snapshot, as any replica that is not exact; also after a restart in between.

Nor can another replica know that a leader has delivered objects of an informer that no frontier names. So the Lease
names a new informer before its first list is in the log.
"""

from __future__ import annotations

from bridge.facts import Report
from bridge.facts.election import LeadershipResigned
from bridge.outbox.appender import Appender
from bridge.outbox.sink_cursors import SinkCursors
from bridge.outbox.standby.standby import Standby


class Lists:
    """See ``waypoints.lists.BeforeLists``."""

    def __init__(self, appender: Appender, sinks: SinkCursors, standby: Standby, report: Report) -> None:
        self._appender = appender
        self._sinks = sinks
        self._standby = standby
        self._report = report

    def note(self, informer: str, epoch: int, listed: str | None = None) -> bool:
        found = any(self._hides(cursor.sink, informer, epoch, listed) for cursor in self._sinks.all)
        if found:
            self._standby.others.note()
        return found

    async def begin(self, informer: str, epoch: int, listed: str | None) -> None:
        standby = self._standby
        leads = standby.leading or standby.others.taking_over
        if self.note(informer, epoch, listed) and leads and standby.resign is not None:
            names = {each.key: str(each.resource) for each in self._appender.informers.values()}
            self._report(LeadershipResigned(standby.term, names.get(informer, informer)))
            await standby.resign()
        elif leads and standby.confirm is not None and standby.found and informer not in standby.found.informers:
            await standby.confirm()

    def _hides(self, sink: str, informer: str, epoch: int, listed: str | None) -> bool:
        """Not if the sink gets a snapshot in any case, once the log here has everything."""
        others = self._standby.others
        if sink in self._standby.owed and not others.taking_over:
            return False
        return others.hides(sink, informer, epoch, listed)
