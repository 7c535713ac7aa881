"""What a queued delta means against what is known (client-go's HandleDeltas). Pure; the Controller applies it. Hot.

Differs from client-go on purpose: an unchanged version is no change; a new uid under an old name is a delete and an
add; a watched version older than the known one (told again after a crash inside a list) is no change, whichever object
had the name then; a delete of an object that was never known is told, because it carries the last state and nobody
else will tell it, and one that was told already is not.
"""

from __future__ import annotations

from bridge.informer.deltas import DeltaType, QueuedDelta
from bridge.informer.tombstones import Tombstones
from bridge.model.change import Change, Evidence, ObjectVersion, Op
from bridge.model.object import ApiObject
from bridge.model.versions.version import is_older, is_reached

_LISTED = (DeltaType.REPLACED, DeltaType.RESTORED)


def changes_of(delta: QueuedDelta, known: ObjectVersion | None, last_state: ApiObject | None) -> list[Change]:
    """Changes in order, at most two. ``last_state`` is the known object with its body, given where
    ``needs_last_state`` says so; None where nothing is known. The object of a Restored delta is transformed already, so
    that its body can be compared."""
    thing = delta.object
    if thing is None:
        return _from_store(delta, known, last_state)
    if known is None:
        op = Op.DELETED if delta.type is DeltaType.DELETED else Op.ADDED
        return [Change(op, delta.evidence, thing)]
    if delta.type not in _LISTED and is_older(thing.resource_version, known.resource_version):
        return []
    if last_state is not None and known.uid != thing.uid:
        replaced = Change(Op.DELETED, Evidence.RELISTED, last_state, known)
        return [replaced, *changes_of(delta, None, None)]
    if delta.type is DeltaType.DELETED:
        return [Change(Op.DELETED, delta.evidence, thing, known)]
    if thing.resource_version == known.resource_version and not _is_other_state(delta, thing, last_state):
        return []
    return [Change(Op.UPDATED, delta.evidence, thing, known)]


def is_told_already(delta: QueuedDelta, known: ObjectVersion | None, tombstones: Tombstones) -> bool:
    """A delete that the server announces once more; under the name there may be another object by now."""
    thing = delta.object
    if delta.type is not DeltaType.DELETED or thing is None or (known is not None and known.uid == thing.uid):
        return False
    return tombstones.cover(thing)


def contradicts(delta: QueuedDelta, known: ObjectVersion | None) -> bool:
    """Whether what a list has cannot be of the history that what is known is of. A list is never older than what is
    known: so no object in it is older than what had its name, unless the server's store was restored from a backup; and
    what is not newer than a version at which everything was known is known."""
    thing = delta.object
    if thing is None or delta.type is not DeltaType.REPLACED:
        return False
    if known is None:
        return delta.floor is not None and is_reached(thing.resource_version, delta.floor)
    return is_older(thing.resource_version, known.resource_version)


def _is_other_state(delta: QueuedDelta, thing: ApiObject, last_state: ApiObject | None) -> bool:
    """After a restore, the new history may have given an object the version that another state had in the old one."""
    return delta.type is DeltaType.RESTORED and last_state is not None and thing.body != last_state.body


def _from_store(delta: QueuedDelta, known: ObjectVersion | None, last_state: ApiObject | None) -> list[Change]:
    if known is None or last_state is None:
        return []
    op = Op.SYNC if delta.type is DeltaType.SYNC else Op.DELETED
    return [Change(op, delta.evidence, last_state, known, delta.targets)]


def needs_last_state(delta: QueuedDelta, known: ObjectVersion | None) -> bool:
    """Whether ``changes_of`` wants the known body, which costs an unpacking."""
    if known is None:
        return False
    return delta.object is None or delta.object.uid != known.uid or delta.type is DeltaType.RESTORED
