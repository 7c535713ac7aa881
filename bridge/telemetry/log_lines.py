"""Writes facts as log lines: a class for those of the process with its signals and clients, of the election, of sinks,
and of the state directory. ``Logs`` passes each fact to all of them; each ignores the facts of others.
"""

from __future__ import annotations

from bridge.telemetry.facts import (
    AnswerFailed,
    BacklogCompacted,
    BacklogDropped,
    BatchDelivered,
    BridgeBroke,
    BridgeEnded,
    BridgeStarted,
    CircuitClosed,
    CircuitOpened,
    ClusterChanged,
    ClusterUnidentified,
    ConfigurationRefused,
    ConfigurationReloaded,
    ConnectionCut,
    CutReason,
    DeliveryDelayed,
    DestinationChanged,
    DestinationCreated,
    DestinationGone,
    DestinationLost,
    EvaluationsFailed,
    ExpressionFailed,
    Fact,
    IntakeBlocked,
    IntakeResumed,
    LeaderChanged,
    LeadershipBegan,
    LeadershipDoubted,
    LeadershipLost,
    LeadershipReleased,
    LeaseFailed,
    LeaseRenewed,
    LeaseTaken,
    LeaseTermDoubted,
    ListenerOverrun,
    OperatorCommand,
    OutboxFull,
    OutboxHasRoom,
    OutboxOpened,
    OutboxRebuilt,
    PageFailed,
    PageOpened,
    PageTokenRefused,
    ProgressRead,
    RecordRejected,
    RecordsLeftBehind,
    RecordsParked,
    ReloadRefused,
    ReplicasLeft,
    ScopeChanged,
    SelectionChanged,
    SelectionUnreadable,
    SelectorUnserved,
    SignalReaction,
    SignalReceived,
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
    SpansExported,
    SpansLost,
    StateExposed,
    StateMigrated,
    StatesNotCompared,
)
from bridge.telemetry.facts.election import BaseCopySent, FollowerInSync, FollowerLost, FollowingFailed, TookOverLacking
from bridge.telemetry.throttled_log import ThrottledLog


class ProcessLogs:
    def __init__(self, throttled: ThrottledLog) -> None:
        self._throttled = throttled
        self._log = throttled.log

    def observe(self, fact: Fact) -> None:
        match fact:
            case BridgeStarted():
                self._started(fact)
            case ConfigurationRefused(configuration, problems):
                for problem in problems:
                    self._log.error("the configuration cannot be used", configuration=configuration, problem=problem)
            case ConfigurationReloaded() | ReloadRefused():
                self._reloaded(fact)
            case BridgeBroke(error):
                self._log.error("this is a bug; please report it with this line", exc_info=error)
            case BridgeEnded(reason, code, seconds, backlog):
                log = self._log.error if code else self._log.info
                # int(): on a console an enum would be printed with its class.
                log("ended", reason=reason, exit_code=int(code), seconds=round(seconds, 1), backlog=dict(backlog))
            case SignalReceived(signal, reaction):
                self._signal(signal, reaction)
            case OperatorCommand():
                self._command(fact)
            case PageOpened(address, token):
                self._log.info("the page is served", address=address, changes="by token" if token else "none")
            case PageFailed(error):
                text = "the page failed, and begins again; this is a bug: please report it with the traceback"
                self._log.error(text, exc_info=error)
            case PageTokenRefused(client):
                text = "the page refused a wrong token"
                self._throttled.failure("page token", text, "401", client=client)
            case AnswerFailed(server, error):
                text = "an answer failed; this is a bug: please report it with the traceback"
                about = {"server": server, "exc_info": error}
                self._throttled.failure(("request", server), text, type(error).__name__, level="error", **about)
            case ConnectionCut():
                self._cut(fact)
            case SpansExported(spans):
                self._log.debug("spans exported", spans=spans)
            case SpansLost(spans):
                # The library logs the reason.
                self._log.debug("spans lost", spans=spans)

    def _started(self, fact: BridgeStarted) -> None:
        self._log.info(
            "started",
            version=fact.version,
            configuration=fact.configuration,
            cluster=fact.cluster,
            resources=list(fact.resources),
            sinks=dict(fact.sinks),
            address=fact.address,
            state=fact.state,
        )

    def _reloaded(self, fact: ConfigurationReloaded | ReloadRefused) -> None:
        about = {"configuration": fact.configuration, "digest": fact.digest, "trigger": fact.trigger}
        match fact:
            case ReloadRefused(problems=problems):
                text = "the changed configuration is refused; the former one stays in effect, whole"
                for problem in problems:
                    self._log.error(text, **about, problem=problem)
            case ConfigurationReloaded(changes=()):
                self._log.info("the configuration was read again: no option has another value", **about)
            case ConfigurationReloaded(changes=changes, seconds=seconds):
                self._log.info(
                    "the changed configuration is in effect", **about, changes=list(changes), seconds=round(seconds, 3)
                )

    def _signal(self, signal: str, reaction: SignalReaction) -> None:
        match reaction:
            case SignalReaction.STOP:
                text = "stopping: sinks finish within the grace period; a second signal ends at once"
                self._log.info(text, signal=signal)
            case SignalReaction.AT_ONCE:
                text = "ending at once; the backlogs of sinks are delivered after the next start"
                self._log.warning(text, signal=signal)
            case SignalReaction.RELOAD:
                self._log.info("the configuration is read again", signal=signal)
            case SignalReaction.IGNORED:
                self._log.info("a signal is ignored: the bridge does not use it", signal=signal)

    def _command(self, fact: OperatorCommand) -> None:
        log = self._log.debug if fact.continued else self._log.info if fact.done else self._log.warning
        text = "operator's command done" if fact.done else "operator's command failed"
        who = {"client": fact.client} if fact.client else {"uid": fact.uid, "pid": fact.pid}
        log(text, command=fact.command, result=fact.result, **who)

    def _cut(self, fact: ConnectionCut) -> None:
        match fact.why:
            case CutReason.CROWDED:
                text = "too many client connections; the oldest are cut"
                self._throttled.failure(("crowded", fact.server), text, "too many connections", server=fact.server)
            case CutReason.SLOW:
                self._log.debug("a client connection is cut: its request or answer took too long", server=fact.server)


_NO_TERM = (
    "the annotation kubedelta/term of the Lease is no term of an election, and is passed over: the next renewal"
    " replaces it; find out who may write the Lease"
)


class ElectionLogs:
    def __init__(self, throttled: ThrottledLog) -> None:
        self._throttled = throttled
        self._log = throttled.log

    def observe(self, fact: Fact) -> None:
        match fact:
            case LeaseRenewed(seconds):
                if self._throttled.over("lease"):
                    self._log.info("the Lease is renewed again")
                self._log.debug("lease renewed", seconds=round(seconds, 3))
            case LeaseFailed():
                self._failed(fact)
            case LeaseTermDoubted(term, newest):
                self._throttled.failure("term", _NO_TERM, "too large", found=term, newest=newest)
            case LeaderChanged(holder, term):
                if holder:
                    self._log.info("another replica leads; this replica follows it", holder=holder, term=term)
                else:
                    self._log.info("no replica holds the Lease; this replica may take it")
            case LeaseTaken(term, before):
                self._log.info("this replica holds the Lease, and takes over", term=term, before=before)
            case LeadershipBegan(term, seconds):
                self._log.info("this replica leads: it delivers", term=term, takeover_seconds=round(seconds, 3))
            case LeadershipLost(term, reason):
                text = "this replica leads no more: its deliveries are paused until it holds the Lease again"
                self._log.warning(text, term=term, reason=reason)
            case LeadershipReleased(term):
                self._log.info("the Lease is released after the last delivery", term=term)
            case TookOverLacking(term, before):
                text = "this replica was not in sync with the leader before: each sink gets a Gap, then a snapshot"
                self._log.warning(text, term=term, before=before)
            case FollowerInSync(follower, term):
                self._log.info("a follower is in sync", follower=follower, term=term)
            case FollowerLost(follower, connected):
                why = "it is too slow" if connected else "its connection ended"
                self._log.warning("a follower is in sync no more", follower=follower, reason=why)
            case FollowingFailed(leader, reason):
                text = "this replica does not follow the leader at the moment"
                self._throttled.failure("following", text, reason, leader=leader)
            case BaseCopySent(follower, size, seconds):
                text = "a follower has got a copy of the whole state"
                self._log.info(text, follower=follower, bytes=size, seconds=round(seconds, 1))

    def _failed(self, fact: LeaseFailed) -> None:
        text = f"{fact.verb} of the Lease failed"
        if fact.refused:
            text += ": `kubedelta rbac` prints the rights that it needs"
        self._throttled.failure("lease", text, fact.reason, lease=fact.lease)


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
        was_delayed = self._throttled.over(("delayed", sink))
        first = sink not in self._delivers
        if was_delayed or first:
            self._delivers.add(sink)
            self._log.info("sink delivers" if first else "sink delivers again", sink=sink)

    def _delivery(self, fact: DeliveryDelayed | CircuitOpened | CircuitClosed | RecordRejected | RecordsParked) -> None:
        failure = self._throttled.failure
        sink = fact.sink
        match fact:
            case DeliveryDelayed(_, _, reason, retry_after, behind, asked):
                self._flowing.discard(sink)
                text = "delivery failed"
                waiting: dict[str, float] = {"backlog_records": behind, "retry_in": round(retry_after, 1)}
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
                text = "records are parked as dead letters"
                reason = "an earlier record of their object was rejected"
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


class StateLogs:
    def __init__(self, throttled: ThrottledLog) -> None:
        self._throttled = throttled
        self._log = throttled.log

    def observe(self, fact: Fact) -> None:
        match fact:
            case OutboxOpened(path, sqlite, records, objects):
                self._log.info("state is open", path=path, sqlite=sqlite, records=records, objects=objects)
            case OutboxFull(reason, retry_after):
                text = "intake blocked: no disk space for the state; sinks go on"
                self._throttled.failure("room", text, reason, level="error", retry_in=round(retry_after, 1))
            case OutboxHasRoom(seconds):
                if self._throttled.over("room"):
                    self._log.info("intake resumed: the disk has space again", seconds=round(seconds, 1))
            case OutboxRebuilt(aside, reason):
                text = (
                    "the state was damaged or gone, and is rebuilt: sinks get a Gap record, then every object as sync"
                )
                self._log.error(text, aside=aside or "no file was left", reason=reason)
            case StateMigrated(file, was):
                self._log.info("the state is migrated to this version's format", file=file, was=was)
            case ReplicasLeft(file):
                text = (
                    "this is the state of one of several replicas, and another may have delivered what it lacks: each "
                    "sink gets a Gap, then a snapshot"
                )
                self._log.warning(text, file=file)
            case StateExposed(directory, reason):
                text = (
                    "other users may read the files of the state: restrict the directory to the bridge's user (chmod "
                    "700)"
                )
                self._log.warning(text, directory=directory, reason=reason)
            case _:
                self._remembered(fact)

    def _remembered(self, fact: Fact) -> None:
        match fact:
            case ClusterChanged(was, now):
                text = "the state belonged to another cluster; comparing it with this cluster, in a new epoch"
                self._log.warning(text, was=was, now=now)
            case ClusterUnidentified(reason):
                text = (
                    "the cluster cannot be identified, so another cluster behind the same state would go unnoticed: "
                    'grant the bridge\'s account the verb "get" on the namespace kube-system'
                )
                self._throttled.failure("cluster", text, reason)
            case SelectionChanged() | SelectorUnserved() | SelectionUnreadable() | ExpressionFailed():
                self._selection(fact)
            case EvaluationsFailed(count):
                self._log.debug("expressions of selections failed", count=count)
            case ScopeChanged(resource, left):
                log = self._log.warning if left else self._log.info
                log(
                    "the configured scope changed; objects outside of it are exported as deleted",
                    resource=resource,
                    left=left,
                )

    def _selection(self, fact: SelectionChanged | SelectorUnserved | SelectionUnreadable | ExpressionFailed) -> None:
        match fact:
            case SelectionChanged(sink, added, deleted, number):
                text = "the selection of a sink is another than before; the sink gets the difference"
                self._log.info(text, sink=sink, added=added, deleted=deleted, number=number)
            case SelectorUnserved(sink, option, resource):
                text = (
                    "an entry of a selection names a resource that is not served: until the next start or reload, it "
                    "means a resource of this full name only"
                )
                self._log.warning(text, sink=sink, option=option, resource=resource)
            case SelectionUnreadable(sink, reason):
                text = (
                    "the remembered selection of a sink that is not configured cannot be evaluated: its backlog grows "
                    "by all objects that the expressions might choose, until the sink returns or is forgotten"
                )
                self._log.warning(text, sink=sink, reason=reason)
            case ExpressionFailed(expression, resource, key, reason):
                text = (
                    "an expression of a selection fails on an object: on_error decides; later failures of the "
                    "expression are only counted"
                )
                self._log.warning(text, expression=expression, resource=resource, object=key, reason=reason)
