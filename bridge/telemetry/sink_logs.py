"""Log lines about sinks."""

from __future__ import annotations

from bridge.facts import (
    BacklogCompacted,
    BacklogDropped,
    BatchDelivered,
    CircuitClosed,
    CircuitOpened,
    DeliveryDelayed,
    DestinationChanged,
    DestinationCreated,
    DestinationGone,
    DestinationLost,
    Fact,
    IntakeBlocked,
    IntakeResumed,
    LeadershipDoubted,
    ListenerOverrun,
    ProgressRead,
    RecordRejected,
    RecordsLeftBehind,
    RecordsParked,
    SinkCautioned,
    SinkFenced,
    SinkForgotten,
    SinkInsecure,
    SinkOpened,
    SinkPaused,
    SinkResumed,
    SnapshotBegan,
    SnapshotCancelled,
    SnapshotEnded,
    StatesNotCompared,
)
from bridge.telemetry.throttled_log import ThrottledLog


class SinkLogs:
    def __init__(self, throttled: ThrottledLog) -> None:
        self._throttled = throttled
        self._log = throttled.log
        self._delivers: set[str] = set()
        """Sinks whose destination has stored records since the start."""
        self._flowing: set[str] = set()
        """Sinks whose destination has stored records since their last failure."""

    def observe(self, fact: Fact) -> None:
        match fact:
            case BatchDelivered(sink):
                if sink not in self._flowing:
                    self._flow(sink)
                if self._throttled.is_debug:
                    self._log.debug("batch delivered", sink=sink, records=fact.records, seconds=round(fact.seconds, 4))
            case SinkOpened(sink):
                # The failure is over without a line of its own: the destination has stored no record yet.
                self._throttled.over(("delayed", sink))
                self._log.info("sink is set up", sink=sink)
            case SinkPaused(sink):
                self._log.warning("sink is paused until kubedelta sinks resume", sink=sink)
            case DestinationGone(sink, reason):
                text = "the destination wants no more records: the sink waits for kubedelta sinks resume"
                self._log.error(text, sink=sink, reason=reason)
            case SinkFenced() | LeadershipDoubted() | ProgressRead():
                self._transactions(fact)
            case SinkResumed(sink):
                self._log.info("sink is resumed", sink=sink)
            case DestinationCreated(sink, what, again=True):
                text = "the sink's destination was gone, and is created again, empty; see kubedelta replay"
                self._log.warning(text, sink=sink, destination=what)
            case DestinationCreated(sink, what):
                self._log.info("the sink's destination did not exist, and is created", sink=sink, destination=what)
            case DestinationLost(sink, reason):
                text = "the destination has lost records that it had stored; a Gap says so in front of later records"
                self._log.error(f"{text}; see kubedelta replay", sink=sink, reason=reason)
            case DestinationChanged(sink, what):
                self._log.warning("the sink's destination has changed", sink=sink, change=what)
            case SinkInsecure(sink, reason):
                self._log.warning("sink sends credentials in clear text", sink=sink, reason=reason)
            case SinkCautioned(sink, reason):
                self._log.warning("the sink's options give up a promise", sink=sink, reason=reason)
            case SnapshotBegan(sink, objects):
                self._log.info("snapshot began", sink=sink, objects=objects)
            case SnapshotEnded(sink, objects):
                self._log.info("snapshot ended", sink=sink, objects=objects)
            case SnapshotCancelled(sink, left):
                self._log.info("snapshot cancelled", sink=sink, objects_left=left)
            case DeliveryDelayed() | CircuitOpened() | CircuitClosed() | RecordRejected() | RecordsParked():
                self._delivery(fact)
            case _:
                self._backlog(fact)

    def _transactions(self, fact: SinkFenced | LeadershipDoubted | ProgressRead) -> None:
        match fact:
            case SinkFenced(sink, reason):
                text = "another bridge has taken the destination over: the sink waits for kubedelta sinks resume"
                self._log.error(text, sink=sink, reason=reason)
            case LeadershipDoubted(sink, reason):
                text = "the destination may know another leader: the sink waits until the Lease is renewed"
                self._log.warning(text, sink=sink, reason=reason)
            case ProgressRead(sink, _, unknown) if unknown:
                text = "the progress in the destination is of another state: records may be delivered again, equal ids"
                self._log.warning(text, sink=sink, reason=unknown)
            case ProgressRead(sink, records):
                self._log.info("progress read from the destination", sink=sink, delivered_before=records)

    def _flow(self, sink: str) -> None:
        self._flowing.add(sink)
        was_delayed, first = self._throttled.over(("delayed", sink)), sink not in self._delivers
        if was_delayed or first:
            self._delivers.add(sink)
            self._log.info("sink delivers" if first else "sink delivers again", sink=sink)

    def _delivery(self, fact: DeliveryDelayed | CircuitOpened | CircuitClosed | RecordRejected | RecordsParked) -> None:
        failure, sink = self._throttled.failure, fact.sink
        match fact:
            case DeliveryDelayed(_, _, reason, retry_after, behind, asked):
                self._flowing.discard(sink)
                text, wait = "delivery failed", round(retry_after, 1)
                waiting: dict[str, float] = {"backlog_records": behind, "retry_in": wait}
                if asked:
                    text += "; the destination asked for a pause, which kubedelta sinks retry ends"
                    waiting["asked_seconds"] = round(asked, 1)
                failure(("delayed", sink), text, reason, level="warning", sink=sink, **waiting)
            case CircuitOpened(_, failures, reason):
                often = "deliveries failed in a row" if failures > 1 else "a delivery failed"
                text = f"circuit open: {often}; one at a time is tried"
                failure(("circuit", sink), text, reason, sink=sink, failures=failures)
            case CircuitClosed(_, seconds):
                self._throttled.over(("delayed", sink))
                if self._throttled.over(("circuit", sink)):
                    self._log.info(
                        "circuit closed: deliveries succeed again", sink=sink, outage_seconds=round(seconds, 1)
                    )
            case RecordRejected(_, record, reason, number, resource, key):
                text = "destination rejected a record for good; it is a dead letter, see kubedelta dead-letters show"
                subject = {"dead_letter": number, "resource": resource, "object": key}
                named = {name: value for name, value in subject.items() if value}
                failure(("rejected", sink), text, reason, level="warning", sink=sink, **named, record=record)
            case RecordsParked(_, records, objects, total):
                text, reason = "records are parked as dead letters", "an earlier record of their object was rejected"
                failure(("parked", sink), text, reason, sink=sink, records=records, objects=objects, total=total)

    def _backlog(self, fact: Fact) -> None:
        match fact:
            case BacklogCompacted(sink, before, after):
                text = "backlog compacted: the sink gets the newest state of each object, without the steps in between"
                reason = "max_backlog was reached"
                self._throttled.failure(("compacted", sink), text, reason, sink=sink, before=before, after=after)
            case BacklogDropped(sink, first, last, count) | ListenerOverrun(sink, first, last, count):
                text = "records are lost for the sink; it gets a Gap record in their place"
                self._log.error(text, sink=sink, records=count, first=first, last=last)
            case IntakeBlocked(sink, records):
                text = "intake blocked, for every sink, until this sink has caught up: its backlog is at max_backlog"
                self._log.error(text, sink=sink, records=records, when_full="block")
            case IntakeResumed(sink, seconds):
                text = "intake resumed: the sink has caught up"
                self._log.info(text, sink=sink, seconds=round(seconds, 1))
            case StatesNotCompared(sink, resource, key, reason):
                text = "states before and after are not compared: include has the object as a whole"
                subject = ("uncompared", sink, resource)
                self._throttled.failure(
                    subject, text, reason, level="warning", sink=sink, resource=resource, object=key
                )
            case RecordsLeftBehind(sink, records):
                text = "the bridge ends; the sink's backlog is delivered after the next start"
                self._log.info(text, sink=sink, records=records)
            case SinkForgotten(sink, records):
                log = self._log.warning if records else self._log.info
                log("sink is forgotten: it was not configured for state.forget_sinks_after", sink=sink, records=records)
