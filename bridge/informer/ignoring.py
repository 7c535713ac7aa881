"""Finds updates that change only paths which the operator ignores: they are not exported. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from bridge.informer.deltas import DeltaType, QueuedDelta
from bridge.informer.indexer import Indexer
from bridge.model.change import Change, IgnoredChange, Op
from bridge.model.object import ApiObject
from bridge.model.versions.version import is_older
from bridge.model.versions.version_table import Checkpoint


class Ignoring(Protocol):
    """The ignored paths of the objects of a resource, in their exported form. Pure."""

    name: str
    """Other paths have another name."""

    def digest(self, body: bytes) -> bytes:
        """16 bytes, which differ where states differ beside the ignored paths and the resourceVersion."""
        ...

    def remaining(self, body: bytes) -> bytes:
        """The state without the ignored paths and the resourceVersion."""
        ...


class IgnoredChanges:
    """The ignored changes of an informer. ``report`` is called with the number of those of a batch; ``known`` is the
    newest of before this start."""

    def __init__(
        self, ignoring: Ignoring, indexer: Indexer, report: Callable[[int], None], known: IgnoredChange | None = None
    ) -> None:
        self._ignoring = ignoring
        self._indexer = indexer
        self._report = report
        self._count = 0
        self._newest: IgnoredChange | None = None
        self.paths = ignoring.name
        if known is not None:
            self._resume(known)

    def _resume(self, newest: IgnoredChange) -> None:
        """Gives an object of a checkpoint its newest version, unless it was exported since."""
        known = self._indexer.known(newest.key)
        if known is None or known.uid != newest.uid:
            return
        if is_older(known.resource_version, newest.resource_version):
            self._indexer.pass_over(newest.key, newest.resource_version)

    def judged(self, delta: QueuedDelta, change: Change) -> Change | None:
        """The change with its digest; None if it is ignored: then the Indexer has the new version with the exported
        state. In another history each new version is exported, for the ledger must keep none of the former history."""
        if change.op in (Op.DELETED, Op.SYNC):
            return change
        thing, known, digest = change.object, change.before, self._ignoring.digest(change.object.body)
        if known is None or known.digest != digest or delta.type is DeltaType.RESTORED:
            return msgspec.structs.replace(change, digest=digest)
        self._indexer.pass_over(thing.key, thing.resource_version)
        self._count += 1
        self._newest = IgnoredChange(thing.key, thing.uid, thing.resource_version, self.paths)
        return None

    def take(self) -> IgnoredChange | None:
        """The newest ignored change since the last call."""
        newest, self._newest = self._newest, None
        if self._count:
            self._report(self._count)
            self._count = 0
        return newest

    def comparable(self, thing: ApiObject, version: str) -> ApiObject:
        """An exported state without the paths in which the server's state at this version of the object may differ."""
        return ApiObject(thing.key, thing.uid, version, self._ignoring.remaining(thing.body))


def usable(checkpoint: Checkpoint | None, ignoring: Ignoring | None) -> Checkpoint | None:
    """The checkpoint without its position if other paths were ignored: only a list shows the states of objects whose
    ignored changes are none any more."""
    if checkpoint is None or checkpoint.ignored is None:
        return checkpoint
    if ignoring is not None and ignoring.name == checkpoint.ignored.paths:
        return checkpoint
    return msgspec.structs.replace(checkpoint, position=None, ignored=None)
