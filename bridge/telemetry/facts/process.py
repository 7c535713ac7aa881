"""Facts of bridge.cli and of the servers: the process, its signals and its clients."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from bridge.telemetry.fact_log import FactLog
from bridge.telemetry.facts import Counts, Fact, Metric

TELEMETRY_SERVER = "telemetry.listen"
ADMIN_SERVER = "admin.sock"
PAGE_SERVER = "page.listen"
REPLICATION_SERVER = "election.port"
SERVERS = (TELEMETRY_SERVER, ADMIN_SERVER, PAGE_SERVER, REPLICATION_SERVER)
"""Servers of the bridge, by their names in facts and metrics."""


class BridgeStarted(Fact, frozen=True, kw_only=True):
    """The first fact of a run."""

    version: str
    configuration: str
    """The file's path."""
    cluster: str
    resources: tuple[str, ...]
    sinks: Mapping[str, str]
    """Name → type."""
    address: str
    """``telemetry.listen``."""
    state: str
    """``state.directory``."""

    def log(self, log: FactLog) -> None:
        fields = msgspec.structs.asdict(self)
        log.info("started", **fields | {"resources": list(self.resources), "sinks": dict(self.sinks)})


class ConfigurationRefused(Fact, frozen=True):
    """The bridge does not start: its configuration has mistakes."""

    configuration: str
    problems: tuple[str, ...]

    def log(self, log: FactLog) -> None:
        for problem in self.problems:
            log.error("the configuration cannot be used", configuration=self.configuration, problem=problem)


class ConfigurationReloaded(Fact, frozen=True, kw_only=True):
    """The running bridge has read its configuration again, which is in effect."""

    configuration: str
    """The file's path."""
    trigger: str
    """``file``, ``SIGHUP`` or ``command``."""
    digest: str
    """The first digits of the content's SHA-256."""
    changes: tuple[str, ...]
    """In words; empty if no option has another value."""
    added: tuple[str, ...] = ()
    """Sinks."""
    removed: tuple[str, ...] = ()
    """Sinks."""
    seconds: float
    """Duration of the change."""

    def log(self, log: FactLog) -> None:
        about = {"configuration": self.configuration, "digest": self.digest, "trigger": self.trigger}
        if self.changes:
            effect = {"changes": list(self.changes), "seconds": round(self.seconds, 3)}
            log.info("the changed configuration is in effect", **about, **effect)
        else:
            log.info("the configuration was read again: no option has another value", **about)


class ReloadRefused(Fact, frozen=True, kw_only=True):
    """The running bridge has read its configuration again, and cannot put it into effect as a whole: the former one
    stays."""

    configuration: str
    trigger: str
    digest: str
    problems: tuple[str, ...]

    def log(self, log: FactLog) -> None:
        about = {"configuration": self.configuration, "digest": self.digest, "trigger": self.trigger}
        text = "the changed configuration is refused; the former one stays in effect, whole"
        for problem in self.problems:
            log.error(text, **about, problem=problem)


class BridgeBroke(Fact, frozen=True):
    """The bridge ends because of a bug."""

    error: BaseException

    def log(self, log: FactLog) -> None:
        log.error("this is a bug; please report it with this line", exc_info=self.error)


class BridgeEnded(Fact, frozen=True):
    """The last fact of a run."""

    reason: str
    exit_code: int
    seconds: float
    """Duration of the run."""
    backlog: Mapping[str, int]
    """Sink → its backlog, in records. Empty if the state was not opened."""

    def log(self, log: FactLog) -> None:
        log.write(
            "error" if self.exit_code else "info",
            "ended",
            reason=self.reason,
            exit_code=int(self.exit_code),  # On a console an enum would be printed with its class.
            seconds=round(self.seconds, 1),
            backlog=dict(self.backlog),
        )


class SignalReaction(StrEnum):
    """The bridge's reaction to a signal."""

    STOP = "stop"
    """Reading from the API server ends, and sinks finish within the grace period."""
    AT_ONCE = "at once"
    """The second signal to stop: the process ends now, as if killed."""
    RELOAD = "reload"
    """The configuration file is read again."""
    IGNORED = "ignored"


class SignalReceived(Fact, frozen=True):
    signal: str
    """``SIGTERM``."""
    reaction: SignalReaction

    def log(self, log: FactLog) -> None:
        match self.reaction:
            case SignalReaction.STOP:
                text = "stopping: sinks finish within the grace period; a second signal ends at once"
                log.info(text, signal=self.signal)
            case SignalReaction.AT_ONCE:
                text = "ending at once; the backlogs of sinks are delivered after the next start"
                log.warning(text, signal=self.signal)
            case SignalReaction.RELOAD:
                log.info("the configuration is read again", signal=self.signal)
            case SignalReaction.IGNORED:
                log.info("a signal is ignored: the bridge does not use it", signal=self.signal)


class CutReason(StrEnum):
    """The reason why a server of the bridge cut a connection."""

    CROWDED = "crowded"
    """Too many connections."""
    SLOW = "slow"
    """Sending the request, or reading the answer, took too long."""


CUT_CONNECTIONS = Metric(
    "http_cut_connections",
    "Client connections that were cut: too many, or too slow.",
    server=SERVERS,
    reason=CutReason,
)


class ConnectionCut(Fact, frozen=True):
    """A server of the bridge cut a client's connection."""

    server: str
    """One of ``SERVERS``."""
    why: CutReason

    def log(self, log: FactLog) -> None:
        match self.why:
            case CutReason.CROWDED:
                text = "too many client connections; the oldest are cut"
                log.failure(("crowded", self.server), text, "too many connections", server=self.server)
            case CutReason.SLOW:
                log.debug("a client connection is cut: its request or answer took too long", server=self.server)

    def counts(self) -> Counts:
        yield (CUT_CONNECTIONS, self.server, self.why), 1


class AnswerFailed(Fact, frozen=True):
    """A bug in an answer of a server of the bridge. The client was answered 500; the bridge goes on."""

    server: str
    """One of ``SERVERS``."""
    error: BaseException

    def log(self, log: FactLog) -> None:
        text = "an answer failed; this is a bug: please report it with the traceback"
        about = {"server": self.server, "exc_info": self.error}
        log.failure(("request", self.server), text, type(self.error).__name__, "error", **about)


class PageOpened(Fact, frozen=True):
    """The page is served."""

    address: str
    """host:port."""
    token: bool
    """Whether a token is configured, without which the page changes nothing."""

    def log(self, log: FactLog) -> None:
        log.info("the page is served", address=self.address, changes="by token" if self.token else "none")


class PageTokenRefused(Fact, frozen=True):
    """A client of the page sent a wrong token."""

    client: str
    """Its address."""

    def log(self, log: FactLog) -> None:
        log.failure("page token", "the page refused a wrong token", "401", client=self.client)


class PageFailed(Fact, frozen=True):
    """A bug in the page. The bridge goes on; those who look get no further news for a while."""

    error: BaseException

    def log(self, log: FactLog) -> None:
        text = "the page failed, and begins again; this is a bug: please report it with the traceback"
        log.error(text, exc_info=self.error)


class OperatorCommand(Fact, frozen=True):
    """The running bridge answered a command on its admin socket, or a change from the page."""

    command: str
    """``replay hook from 1200``."""
    result: str
    """``42 records``, or the reason for the failure."""
    done: bool
    uid: int | None
    """User id of the client, if the system provides it."""
    pid: int | None
    continued: bool = False
    """True for a further page of the same command."""
    client: str = ""
    """Address of the page's viewer; empty for the admin socket."""

    def log(self, log: FactLog) -> None:
        write = log.debug if self.continued else log.info if self.done else log.warning
        text = "operator's command done" if self.done else "operator's command failed"
        who = {"client": self.client} if self.client else {"uid": self.uid, "pid": self.pid}
        write(text, command=self.command, result=self.result, **who)


SPANS = Metric(
    "trace_spans", "Spans of traced batches that the collector took, or that are lost.", outcome=("exported", "lost")
)


class SpansExported(Fact, frozen=True):
    """The collector has taken spans of traced batches."""

    level = "debug"
    sentence = "spans exported"

    spans: int

    def counts(self) -> Counts:
        yield (SPANS, "exported"), self.spans


class SpansLost(Fact, frozen=True):
    """Spans that the collector did not take in time, or that came while too many waited. The library logs the
    reason."""

    level = "debug"
    sentence = "spans lost"

    spans: int

    def counts(self) -> Counts:
        yield (SPANS, "lost"), self.spans
