"""Facts of bridge.cli and of the servers: the process, its signals and its clients."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeAlias

import msgspec

TELEMETRY_SERVER = "telemetry.listen"
ADMIN_SERVER = "admin.sock"
PAGE_SERVER = "page.listen"
REPLICATION_SERVER = "election.port"
SERVERS = (TELEMETRY_SERVER, ADMIN_SERVER, PAGE_SERVER, REPLICATION_SERVER)
"""Servers of the bridge, by their names in facts and metrics."""


class BridgeStarted(msgspec.Struct, frozen=True, kw_only=True):
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


class ConfigurationRefused(msgspec.Struct, frozen=True):
    """The bridge does not start: its configuration has mistakes."""

    configuration: str
    problems: tuple[str, ...]


class ConfigurationReloaded(msgspec.Struct, frozen=True, kw_only=True):
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


class ReloadRefused(msgspec.Struct, frozen=True, kw_only=True):
    """The running bridge has read its configuration again, and cannot put it into effect as a whole: the former one
    stays."""

    configuration: str
    trigger: str
    digest: str
    problems: tuple[str, ...]


class BridgeBroke(msgspec.Struct, frozen=True):
    """The bridge ends because of a bug."""

    error: BaseException


class BridgeEnded(msgspec.Struct, frozen=True):
    """The last fact of a run."""

    reason: str
    exit_code: int
    seconds: float
    """Duration of the run."""
    backlog: Mapping[str, int]
    """Sink → its backlog, in records. Empty if the state was not opened."""


class SignalReaction(StrEnum):
    """The bridge's reaction to a signal."""

    STOP = "stop"
    """Reading from the API server ends, and sinks finish within the grace period."""
    AT_ONCE = "at once"
    """The second signal to stop: the process ends now, as if killed."""
    RELOAD = "reload"
    """The configuration file is read again."""
    IGNORED = "ignored"


class SignalReceived(msgspec.Struct, frozen=True):
    signal: str
    """``SIGTERM``."""
    reaction: SignalReaction


class CutReason(StrEnum):
    """The reason why a server of the bridge cut a connection."""

    CROWDED = "crowded"
    """Too many connections."""
    SLOW = "slow"
    """Sending the request, or reading the answer, took too long."""


class ConnectionCut(msgspec.Struct, frozen=True):
    """A server of the bridge cut a client's connection."""

    server: str
    """One of ``SERVERS``."""
    why: CutReason


class AnswerFailed(msgspec.Struct, frozen=True):
    """A bug in an answer of a server of the bridge. The client was answered 500; the bridge goes on."""

    server: str
    """One of ``SERVERS``."""
    error: BaseException


class PageOpened(msgspec.Struct, frozen=True):
    """The page is served."""

    address: str
    """host:port."""
    token: bool
    """Whether a token is configured, without which the page changes nothing."""


class PageTokenRefused(msgspec.Struct, frozen=True):
    """A client of the page sent a wrong token."""

    client: str
    """Its address."""


class PageFailed(msgspec.Struct, frozen=True):
    """A bug in the page. The bridge goes on; those who look get no further news for a while."""

    error: BaseException


class OperatorCommand(msgspec.Struct, frozen=True):
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


class SpansExported(msgspec.Struct, frozen=True):
    """The collector has taken spans of traced batches."""

    spans: int


class SpansLost(msgspec.Struct, frozen=True):
    """Spans that the collector did not take in time, or that came while too many waited."""

    spans: int


ProcessFact: TypeAlias = (
    BridgeStarted
    | ConfigurationRefused
    | ConfigurationReloaded
    | ReloadRefused
    | BridgeBroke
    | BridgeEnded
    | SignalReceived
    | ConnectionCut
    | AnswerFailed
    | PageOpened
    | PageFailed
    | PageTokenRefused
    | OperatorCommand
    | SpansExported
    | SpansLost
)
