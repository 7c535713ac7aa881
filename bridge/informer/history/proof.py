"""Draws the conclusion from an answer about the known history of the server; ``member`` makes the requests.

A store that was restored from a backup uses its versions a second time, for other states. A server whose version is
past the newest known version may still have got there in another history. So a proof needs a known object: the server
must have had the newest known object at its version, in its known state.

If the version of the newest known object is compacted, the object must exist now, in the same version or a newer one.
If the newest known change is a delete, the object must have existed one version before the delete, must not exist at it
(``Deleted``; after a restart the newest delete is read from the log), and must not be back unchanged. States are
compared because an object that changes all the time gets the same versions in both histories. Only values present in
both states count, since another API server may add defaults.

If the answer is unknown, everything is listed, and an epoch begins when a list shows another history: an object older
than its known version, or an unknown object that is not newer than the position. An epoch for every unknown answer
would begin one after each long absence, and a list after each broken connection would cost the server more than this
proof.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, TypeAlias

import msgspec

from bridge.model.answers import Busy, Failed, ListAnswer, Page, Refused
from bridge.model.change import ObjectVersion
from bridge.model.object import ApiObject, is_redacted
from bridge.model.versions import Deleted, is_older, is_reached


class SameHistory(msgspec.Struct, frozen=True):
    """The known objects belong to the server's history."""


class UnknownHistory(msgspec.Struct, frozen=True):
    """The server answered, but the proof is impossible, because the server has forgotten the known versions."""

    reason: str


class OtherHistory(msgspec.Struct, frozen=True):
    """The server has another history: its store was restored from a backup, or replaced."""

    was: str
    """The known state."""
    now: str
    """The state that contradicts it."""


class Contradicted(msgspec.Struct, frozen=True):
    """An informer found another history in a list, and must report it to the other informers of the server."""

    was: str
    """The known state."""
    now: str
    """The listed state, which contradicts it."""


Proof: TypeAlias = SameHistory | UnknownHistory | OtherHistory | Busy | Refused | Failed
"""Busy, Refused and Failed mean that the proof cannot be made now."""


class Seen(Enum):
    """The result of comparing the current state of an object with the known version."""

    SAME = "same"
    NEWER = "newer"
    OLDER = "older"
    GONE = "gone"
    UNREADABLE = "unreadable"


def is_behind(page: Page, reached: str) -> OtherHistory | None:
    """The contradiction in a consistent list that is older than ``reached``, the newest known version of the
    resource; None if there is no contradiction."""
    if is_older(page.version, reached):
        return OtherHistory(f"version {reached}", f"version {page.version}")
    return None


def was_there(answer: ListAnswer, key: str, known: ApiObject) -> ApiObject | OtherHistory | None:
    """Reads a list of a single object at its known version: the object if the list has it, OtherHistory if the list
    contradicts it. None if the list decides neither: the version is forgotten, or the server does not support such
    lists."""
    match answer:
        case Page(version=version, unreadable=()) if version == known.resource_version:
            found = next(iter(answer.objects), None)
            if found is not None and (found.uid, found.resource_version) == (known.uid, known.resource_version):
                return found
            there = "no object" if found is None else f"{found.uid} at {found.resource_version}"
            was = f"{key}, {known.uid} at {known.resource_version}"
            return OtherHistory(was, f"{there}, at version {version}")
        case _:
            return None


def was_gone(answer: ListAnswer, version: str, deleted: Deleted) -> OtherHistory | bool:
    """Checks a known delete against a list of the object at ``version``: the object must be gone at the version of its
    delete, and present before. True if the list shows that, OtherHistory if it contradicts.

    False if the answer decides neither, or if the delete has the object's own version, as some servers announce it."""
    if not isinstance(answer, Page) or answer.unreadable or answer.version != version:
        return False
    versions = [found.resource_version for found in answer.objects if found.uid == deleted.uid]
    if deleted.version in versions:
        return False
    there = bool(versions)
    if there is (version != deleted.version):
        return True
    was = f"{deleted.key}, {deleted.uid} deleted at {deleted.version}"
    return OtherHistory(was, f"{'the object' if there else 'no object'} at version {version}")


def has_version_of(answer: ListAnswer, deleted: Deleted) -> bool:
    """Whether the object itself has the version of its delete. Some servers announce deletes with it; in other servers
    the version belongs to another history."""
    objects = answer.objects if isinstance(answer, Page) else ()
    return any((found.uid, found.resource_version) == (deleted.uid, deleted.version) for found in objects)


def is_back(page: Page, deleted: Deleted, had_its_version: bool = False) -> OtherHistory | None:
    """The contradiction in a consistent list that has a deleted object in a state from before its delete; in any state,
    if the object ``had_its_version``. None if there is no contradiction."""
    for found in page.objects:
        is_old = is_reached(found.resource_version, deleted.version)
        if found.uid == deleted.uid and (is_old or had_its_version):
            was = f"{deleted.key}, {deleted.uid} deleted at {deleted.version}"
            return OtherHistory(was, f"the object at {found.resource_version}")
    return None


def now(page: Page, known: ObjectVersion) -> Seen:
    """Compares a consistent list of a single object with the known version."""
    if page.unreadable:
        return Seen.UNREADABLE
    found = next(iter(page.objects), None)
    if found is None:
        return Seen.GONE
    if is_older(found.resource_version, known.resource_version):
        return Seen.OLDER
    if found.uid != known.uid:
        return Seen.GONE
    return Seen.SAME if found.resource_version == known.resource_version else Seen.NEWER


def is_other_state(found: ApiObject, known: ApiObject) -> bool:
    """Whether two bodies of the same object and version contradict each other. If a single object makes all changes of
    a cluster, it may have the same version in two histories.

    Members of only one body and another version of the API are not contradictions: another server may add defaults.
    Neither are redacted values, and Secrets as a whole: keys and rules of redaction may change."""
    try:
        one, other = found.manifest(), known.manifest()
    except (msgspec.DecodeError, RecursionError):
        return False
    if one.get("apiVersion") != other.get("apiVersion") or "Secret" in (one.get("kind"), other.get("kind")):
        return False
    return _differ(one, other)


def _may_be_redacted(value: Any) -> bool:
    return value is None or (isinstance(value, str) and is_redacted(value))


def _differ(one: Any, other: Any) -> bool:
    pending = [(one, other)]  # A stack instead of recursion: tenants choose the depth of their objects.
    while pending:
        one, other = pending.pop()
        if isinstance(one, dict) and isinstance(other, dict):
            pending += [(one[name], other[name]) for name in one.keys() & other.keys()]
        elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
            pending += zip(one, other, strict=True)
        elif one != other and not (_may_be_redacted(one) or _may_be_redacted(other)):
            return True
    return False
