"""Facts: events of the bridge as frozen records, named in the past tense. Rooms report facts; only telemetry counts and
logs them.

A fact is about a request, a batch or a state, and never about a single change, so that reporting stays cheap.

cluster    the connection to the API server, discovery, the cluster's identity
delivery   deliveries, their failures, the circuit
informer   lists, watches, the server's history
outbox     commits, the state directory, backlogs and backfills
process    the process, its signals and its clients
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from bridge.facts.cluster import (
    ClusterChanged,
    ClusterFact,
    ClusterUnidentified,
    ConnectionInsecure,
    DiscoveryFailed,
    DiscoveryRejected,
    GroupStale,
    PluginComplained,
    ResourceUnknown,
    ScopeChanged,
)
from bridge.facts.delivery import (
    BatchDelivered,
    CircuitClosed,
    CircuitOpened,
    DeliveryDelayed,
    DeliveryFact,
    DestinationChanged,
    DestinationCreated,
    DestinationGone,
    DestinationLost,
    RecordRejected,
    RecordsLeftBehind,
    RecordsParked,
    SinkCautioned,
    SinkInsecure,
    SinkOpened,
    SinkPaused,
    SinkResumed,
)
from bridge.facts.informer import (
    ChangesIgnored,
    HistoryChecked,
    InformerFact,
    InformerStarted,
    InformerStopped,
    InformerSynced,
    InputUnreadable,
    ListCompleted,
    ListWatchFailed,
    ObjectLeftBare,
    ResourceRefused,
    VersionsRanBackwards,
    WatchEnded,
    WatchOpened,
)
from bridge.facts.outbox import (
    BacklogCompacted,
    BacklogDropped,
    BatchCommitted,
    EvaluationsFailed,
    ExpressionFailed,
    IntakeBlocked,
    IntakeResumed,
    ListenerOverrun,
    OutboxFact,
    OutboxFull,
    OutboxHasRoom,
    OutboxOpened,
    OutboxRebuilt,
    SelectionChanged,
    SelectionUnreadable,
    SelectorUnserved,
    SinkForgotten,
    SnapshotBegan,
    SnapshotEnded,
    StateExposed,
    StateMigrated,
)
from bridge.facts.process import (
    ADMIN_SERVER,
    SERVERS,
    TELEMETRY_SERVER,
    BridgeBroke,
    BridgeEnded,
    BridgeStarted,
    ConfigurationRefused,
    ConfigurationReloaded,
    ConnectionCut,
    CutReason,
    OperatorCommand,
    ProcessFact,
    ReloadRefused,
    SignalReaction,
    SignalReceived,
)

__all__ = [
    "ADMIN_SERVER",
    "SERVERS",
    "TELEMETRY_SERVER",
    "BacklogCompacted",
    "BacklogDropped",
    "BatchCommitted",
    "BatchDelivered",
    "BridgeBroke",
    "BridgeEnded",
    "BridgeStarted",
    "ChangesIgnored",
    "CircuitClosed",
    "CircuitOpened",
    "ClusterChanged",
    "ClusterUnidentified",
    "ConfigurationRefused",
    "ConfigurationReloaded",
    "ConnectionCut",
    "ConnectionInsecure",
    "CutReason",
    "DeliveryDelayed",
    "DestinationChanged",
    "DestinationCreated",
    "DestinationGone",
    "DestinationLost",
    "DiscoveryFailed",
    "DiscoveryRejected",
    "EvaluationsFailed",
    "ExpressionFailed",
    "Fact",
    "GroupStale",
    "HistoryChecked",
    "InformerStarted",
    "InformerStopped",
    "InformerSynced",
    "InputUnreadable",
    "IntakeBlocked",
    "IntakeResumed",
    "ListCompleted",
    "ListWatchFailed",
    "ListenerOverrun",
    "ObjectLeftBare",
    "OperatorCommand",
    "OutboxFull",
    "OutboxHasRoom",
    "OutboxOpened",
    "OutboxRebuilt",
    "PluginComplained",
    "RecordRejected",
    "RecordsLeftBehind",
    "RecordsParked",
    "ReloadRefused",
    "Report",
    "ResourceRefused",
    "ResourceUnknown",
    "ScopeChanged",
    "SelectionChanged",
    "SelectionUnreadable",
    "SelectorUnserved",
    "SignalReaction",
    "SignalReceived",
    "SinkCautioned",
    "SinkForgotten",
    "SinkInsecure",
    "SinkOpened",
    "SinkPaused",
    "SinkResumed",
    "SnapshotBegan",
    "SnapshotEnded",
    "StateExposed",
    "StateMigrated",
    "VersionsRanBackwards",
    "WatchEnded",
    "WatchOpened",
    "discard",
]

Fact: TypeAlias = ClusterFact | DeliveryFact | InformerFact | OutboxFact | ProcessFact

Report: TypeAlias = Callable[[Fact], None]


def discard(_fact: Fact) -> None:
    """A Report that drops facts, for rooms used as a library (as logr.Discard does with log lines)."""
