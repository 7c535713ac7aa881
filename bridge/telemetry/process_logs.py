"""Log lines about the process, its signals and its clients, and about the election."""

from __future__ import annotations

from bridge.facts import (
    AnswerFailed,
    BridgeBroke,
    BridgeEnded,
    BridgeStarted,
    ConfigurationRefused,
    ConfigurationReloaded,
    ConnectionCut,
    CutReason,
    Fact,
    LeaderChanged,
    LeadershipBegan,
    LeadershipLost,
    LeadershipReleased,
    LeaseFailed,
    LeaseRenewed,
    LeaseTaken,
    LeaseTermDoubted,
    OperatorCommand,
    PageFailed,
    PageOpened,
    PageTokenRefused,
    ReloadRefused,
    SignalReaction,
    SignalReceived,
    SpansExported,
    SpansLost,
)
from bridge.facts.election import BaseCopySent, FollowerInSync, FollowerLost, FollowingFailed, TookOverLacking
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
