"""The two forms of an event: the core group's, in which it is stored, and that of ``events.k8s.io``, which has other
names for the same members. An API server serves each event in both groups: kubectl asks the one, k9s the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NAMES = ("events", "events.events.k8s.io")
_IN_GROUP = {
    "involvedObject": "regarding",
    "message": "note",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
}
_IN_CORE = {new: old for old, new in _IN_GROUP.items()}


def in_group(event: Mapping[str, Any]) -> dict[str, Any]:
    """In the form of ``events.k8s.io``."""
    return {_IN_GROUP.get(name, name): value for name, value in event.items()}


def in_core(event: Mapping[str, Any]) -> dict[str, Any]:
    """In the form of the core group."""
    return {_IN_CORE.get(name, name): value for name, value in event.items()}
