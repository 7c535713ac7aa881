"""Compares a queued delta with the known object (client-go's HandleDeltas). Pure; the Controller applies it. Hot.

Differs from client-go on purpose. An equal version is not a change. A new uid under an old name is a delete and an add.
A watched version older than the known version (announced again after a crash within a list) is not a change, whichever
object had the name then. A delete of an unknown object is a change, because only this event has its last state; a
delete that was exported before is not.
"""

from __future__ import annotations

from bridge.informer.deltas import DeltaType, QueuedDelta
from bridge.informer.tombstones import Tombstones
from bridge.model.change import Change, Evidence, ObjectVersion, Op
from bridge.model.object import ApiObject
from bridge.model.versions.version import is_older, is_reached

_LISTED = (DeltaType.REPLACED, DeltaType.RESTORED)


def changes_of(delta: QueuedDelta, known: ObjectVersion | None, last_state: ApiObject | None) -> list[Change]:
    """The changes of a delta in order, at most two. ``last_state`` is the known object with its body, if
    ``needs_last_state``. The object of a Restored delta must be transformed already, so that its body can be compared
    with the known body."""
    thing = delta.object
    if thing is None:
        return _from_store(delta, known, last_state)
    if known is None:
        op = Op.DELETED if delta.type is DeltaType.DELETED else Op.ADDED
        return [Change(op, delta.evidence, thing)]
    if delta.type not in _LISTED and is_older(thing.resource_version, known.resource_version):
        return []
    if last_state is not None and known.uid != thing.uid:
        # A new object has the name, so the delete of the known object was missed.
        replaced = Change(Op.DELETED, Evidence.RELISTED, last_state, known)
        return [replaced, *changes_of(delta, None, None)]
    if delta.type is DeltaType.DELETED:
        return [Change(Op.DELETED, delta.evidence, thing, known)]
    if thing.resource_version == known.resource_version and not _is_other_state(delta, thing, last_state):
        return []
    return [Change(Op.UPDATED, delta.evidence, thing, known)]


def is_exported_already(delta: QueuedDelta, known: ObjectVersion | None, tombstones: Tombstones) -> bool:
    """Whether the delta repeats an exported delete. Another object may have the name by now."""
    thing = delta.object
    if delta.type is not DeltaType.DELETED or thing is None or (known is not None and known.uid == thing.uid):
        return False
    return tombstones.cover(thing)


def contradicts(delta: QueuedDelta, known: ObjectVersion | None) -> bool:
    """Whether a listed object shows that the list and the known objects belong to different histories.

    Within a history, a list is never older than the known state. So a listed object that is older than the known object
    of its name shows a store restored from a backup; so does an unknown object that is not newer than a version at
    which all objects were known (``floor``)."""
    thing = delta.object
    if thing is None or delta.type is not DeltaType.REPLACED:
        return False
    if known is None:
        return delta.floor is not None and is_reached(thing.resource_version, delta.floor)
    return is_older(thing.resource_version, known.resource_version)


def _is_other_state(delta: QueuedDelta, thing: ApiObject, last_state: ApiObject | None) -> bool:
    """Compares bodies: after a restore, the new history may give an object a version that another state had before."""
    return delta.type is DeltaType.RESTORED and last_state is not None and thing.body != last_state.body


def _from_store(delta: QueuedDelta, known: ObjectVersion | None, last_state: ApiObject | None) -> list[Change]:
    if known is None or last_state is None:
        return []
    op = Op.SYNC if delta.type is DeltaType.SYNC else Op.DELETED
    return [Change(op, delta.evidence, last_state, known, delta.targets)]


def needs_last_state(delta: QueuedDelta, known: ObjectVersion | None) -> bool:
    """Whether ``changes_of`` needs the known object's body, which must be unpacked or read for it."""
    if known is None:
        return False
    return delta.object is None or delta.object.uid != known.uid or delta.type is DeltaType.RESTORED
