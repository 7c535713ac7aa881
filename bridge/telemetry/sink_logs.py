"""What sinks do, as log lines."""

from __future__ import annotations

from bridge.facts import (
    BacklogCompacted,
    BacklogDropped,
    BatchDelivered,
    CircuitClosed,
    CircuitOpened,
    DeliveryDelayed,
    DestinationMade,
    Fact,
    IntakeBlocked,
    IntakeResumed,
    ListenerOverrun,
    RecordRejected,
    RecordsLeftBehind,
    RecordsParked,
    SinkForgotten,
    SinkInsecure,
    SinkOpened,
    SinkPaused,
    SinkResumed,
    SnapshotBegan,
    SnapshotEnded,
)
from bridge.telemetry.throttled_log import ThrottledLog


class SinkLogs:
    def __init__(self, telling: ThrottledLog) -> None:
        self._telling = telling
        self._log = telling.log
        self._delivers: set[str] = set()
        """Sinks whose destination has stored something since the start."""

    def observe(self, fact: Fact) -> None:
        match fact:
            case BatchDelivered(sink):
                was_delayed, first = self._telling.over(("delayed", sink)), sink not in self._delivers
                if was_delayed or first:
                    self._delivers.add(sink)
                    self._log.info("sink delivers" if first else "sink delivers again", sink=sink)
                self._log.debug("batch delivered", sink=sink, records=fact.records, seconds=round(fact.seconds, 4))
            case SinkOpened(sink):
                self._telling.over(("delayed", sink))
                self._log.info("sink is set up", sink=sink)
            case SinkPaused(sink):
                self._log.warning("sink is paused: nothing is delivered until kubedelta sinks resume", sink=sink)
            case SinkResumed(sink):
                self._log.info("sink is resumed", sink=sink)
            case DestinationMade(sink, what, again=True):
                text = "what the sink writes into was gone and is made again, empty; kubedelta replay tells again"
                self._log.warning(text, sink=sink, what=what)
            case DestinationMade(sink, what):
                self._log.info("what the sink writes into was not there and is made", sink=sink, what=what)
            case SinkInsecure(sink, reason):
                self._log.warning("sink sends credentials in clear text", sink=sink, reason=reason)
            case SnapshotBegan(sink, objects):
                self._log.info("snapshot began", sink=sink, objects=objects)
            case SnapshotEnded(sink, objects):
                self._log.info("snapshot ended", sink=sink, objects=objects)
            case DeliveryDelayed() | CircuitOpened() | CircuitClosed() | RecordRejected() | RecordsParked():
                self._delivery(fact)
            case _:
                self._backlog(fact)

    def _delivery(self, fact: DeliveryDelayed | CircuitOpened | CircuitClosed | RecordRejected | RecordsParked) -> None:
        trouble, sink = self._telling.trouble, fact.sink
        match fact:
            case DeliveryDelayed(_, _, reason, retry_after, behind, asked):
                text, wait = "sink cannot take records now", round(retry_after, 1)
                waiting: dict[str, float] = {"waiting_records": behind, "retry_in": wait}
                if asked:
                    text += ", and asked to be left alone for a while; kubedelta sinks retry tries at once"
                    waiting["asked_seconds"] = round(asked, 1)
                trouble(("delayed", sink), text, reason, level="warning", sink=sink, **waiting)
            case CircuitOpened(_, failures, reason):
                text = "sink takes nothing; one delivery at a time tries whether it is back"
                trouble(("circuit", sink), text, reason, sink=sink, failures=failures)
            case CircuitClosed(_, seconds):
                self._telling.over(("delayed", sink))
                if self._telling.over(("circuit", sink)):
                    self._log.info("sink is back", sink=sink, outage_seconds=round(seconds, 1))
            case RecordRejected(_, record, reason):
                text = "sink refused a record for good; it is in the dead letters"
                trouble(("rejected", sink), text, reason, sink=sink, record=record)
            case RecordsParked(_, records, objects):
                text, reason = "records wait in the dead letters", "an earlier record of their object was refused"
                trouble(("parked", sink), text, reason, sink=sink, records=records, objects=objects)

    def _backlog(self, fact: Fact) -> None:
        match fact:
            case BacklogCompacted(sink, before, after):
                text = "sink is too far behind; it gets the newest state of each object without the steps in between"
                reason = "its max_backlog was reached"
                self._telling.trouble(("compacted", sink), text, reason, sink=sink, before=before, after=after)
            case BacklogDropped(sink, first, last, count) | ListenerOverrun(sink, first, last, count):
                text = "sink was too far behind and lost records; a Gap record stands in their place"
                self._log.error(text, sink=sink, records=count, first=first, last=last)
            case IntakeBlocked(sink, records):
                text = "nothing is read from the API server, for any sink, until this one has caught up"
                self._log.error(text, sink=sink, records=records, when_full="block")
            case IntakeResumed(sink, seconds):
                text = "sink has caught up; the API server is read again"
                self._log.info(text, sink=sink, seconds=round(seconds, 1))
            case RecordsLeftBehind(sink, records):
                text = "the bridge ends; what this sink has not settled is delivered after the next start"
                self._log.info(text, sink=sink, records=records)
            case SinkForgotten(sink, records):
                tell = self._log.warning if records else self._log.info
                tell(
                    "sink is forgotten: it was not configured for state.forget_sinks_after", sink=sink, records=records
                )
