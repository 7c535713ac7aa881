"""What an answer proves of the server's history. Pure; ``history`` asks.

A server's store that is restored from a backup gives its versions a second time, to other states. That the newest one
is past the newest version known says nothing: it may have got there by another way. So the newest object known must
have been there, at its version, as it is known.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

import msgspec

from bridge.informer.reflector.states import OtherHistory
from bridge.model.answers import ListAnswer, Page
from bridge.model.change import ObjectVersion
from bridge.model.object import ApiObject
from bridge.model.versions.version import is_older, is_reached
from bridge.model.versions.version_table import Deleted


class Seen(Enum):
    """What a plain read of an object shows of the known one."""

    SAME = "same"
    NEWER = "newer"
    OLDER = "older"
    GONE = "gone"
    UNREADABLE = "unreadable"


def is_behind(page: Page, reached: str) -> OtherHistory | None:
    """A consistent list, of the resource that reached that version."""
    if is_older(page.version, reached):
        return OtherHistory(f"version {reached}", f"version {page.version}")
    return None


def was_there(answer: ListAnswer, key: str, known: ApiObject) -> ApiObject | OtherHistory | None:
    """What a list of one object at its version says of it: the object as it was; None where it does not say, since the
    version is forgotten, or the server does not know such lists."""
    match answer:
        case Page(version=version, unreadable=()) if version == known.resource_version:
            found = next(iter(answer.objects), None)
            if found is not None and (found.uid, found.resource_version) == (known.uid, known.resource_version):
                return found
            there = "nothing" if found is None else f"{found.uid} at {found.resource_version}"
            was = f"{key}, {known.uid} at {known.resource_version}"
            return OtherHistory(was, f"{there}, at version {version}")
        case _:
            return None


def was_gone(answer: ListAnswer, version: str, deleted: Deleted) -> OtherHistory | bool:
    """Whether a list of one object shows what its delete made of it: gone at that version, and there at any before.
    False where the answer does not say, or where the version is the object's own: some servers announce deletes so."""
    if not isinstance(answer, Page) or answer.unreadable or answer.version != version:
        return False
    versions = [found.resource_version for found in answer.objects if found.uid == deleted.uid]
    if deleted.version in versions:
        return False
    there = bool(versions)
    if there is (version != deleted.version):
        return True
    was = f"{deleted.key}, {deleted.uid} deleted at {deleted.version}"
    return OtherHistory(was, f"{'the object' if there else 'nothing'} at version {version}")


def is_back(page: Page, deleted: Deleted) -> OtherHistory | None:
    """What a consistent list of one object says of its delete: it does not come back as it was until then."""
    for found in page.objects:
        if found.uid == deleted.uid and is_reached(found.resource_version, deleted.version):
            was = f"{deleted.key}, {deleted.uid} deleted at {deleted.version}"
            return OtherHistory(was, f"the object at {found.resource_version}")
    return None


def now(page: Page, known: ObjectVersion) -> Seen:
    """What a consistent list of one object shows of it."""
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
    """Two bodies of one version of one object, whether they contradict each other: where one object alone changes all
    the time, it may have got the same version in two histories. What only one of them has is no contradiction, nor is
    another version of the API: another server may add defaults. Values of Secrets are digests, whose key may change."""
    try:
        one, other = found.manifest(), known.manifest()
    except (msgspec.DecodeError, RecursionError):
        return False
    if one.get("apiVersion") != other.get("apiVersion") or "Secret" in (one.get("kind"), other.get("kind")):
        return False
    return _differ(one, other)


def _differ(one: Any, other: Any) -> bool:
    pending = [(one, other)]  # Untrusted, and as deep as it likes.
    while pending:
        one, other = pending.pop()
        if isinstance(one, dict) and isinstance(other, dict):
            pending += [(one[name], other[name]) for name in one.keys() & other.keys()]
        elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
            pending += zip(one, other, strict=True)
        elif one != other:
            return True
    return False
