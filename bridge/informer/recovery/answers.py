"""The meaning of an answer to a list of an object at a version. Pure."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from bridge.informer.recovery.walk import Moment
from bridge.model.answers import Busy, Expired, Failed, ListAnswer, Page, Refused, TooLarge, Unsupported
from bridge.model.object import ApiObject
from bridge.model.versions.version import number_of


class StatesForgotten(msgspec.Struct, frozen=True):
    """The server has forgotten this version, and all older ones."""

    through: int


class NotNow(msgspec.Struct, frozen=True):
    """The same request may succeed later."""

    reason: str
    after: float | None = None
    """Seconds (Retry-After), if the server sent them."""


class Broken(msgspec.Struct, frozen=True):
    """No further request is sensible now."""

    reason: str


class NotThis(msgspec.Struct, frozen=True):
    """The server took no such list. That may be because of the object's name: those of RBAC's kinds, among others, may
    be longer than a URL, and whoever may create an object chooses it."""

    reason: str


class NotOffered(msgspec.Struct, frozen=True):
    """The server cannot list an object at a version: an aggregated server may not know the parameters."""

    reason: str


Meaning: TypeAlias = StatesForgotten | NotNow | Broken | NotThis | NotOffered


def moment_of(answer: ListAnswer, key: str, version: int) -> Moment | Meaning:
    """Reads the answer to a list of this object alone at exactly this version."""
    if not isinstance(answer, Page):
        return meaning_of(answer, version)
    if answer.unreadable:
        return Broken(f"{key} at {version} cannot be read")
    if reason := _ignores(answer, key, version):
        return NotOffered(reason)
    return Moment(version, answer.objects[0] if answer.objects else None)


def sample_of(answer: ListAnswer, version: int) -> list[ApiObject] | Meaning:
    """Reads the answer to a list of all objects at exactly this version."""
    if not isinstance(answer, Page):
        return meaning_of(answer, version)
    if answer.version != str(version):
        return NotOffered(f"a list at version {version} has version {answer.version}")
    return answer.objects


def meaning_of(answer: ListAnswer, version: int) -> Meaning:
    """The meaning of an answer without a list."""
    match answer:
        case Expired():
            return StatesForgotten(version)
        case Busy(reason=reason, after=after):
            return NotNow(reason, after)
        case TooLarge(reason=reason) | Failed(reason=reason):
            # A server behind the same address may be behind, or has only just started.
            return NotNow(reason)
        case Unsupported(reason=reason):
            return NotThis(reason)
        case Refused(status=405, reason=reason):
            return NotOffered(reason)
        case Page():
            raise AssertionError("a page is a list")
        case _:
            return Broken(answer.reason)


def _ignores(page: Page, key: str, version: int) -> str:
    """The part of the request that the server has ignored, in words; empty if it has answered as requested."""
    if page.version != str(version):
        return f"a list at version {version} has version {page.version}"
    if len(page.objects) > 1 or page.next_page or any(each.key != key for each in page.objects):
        return "a list of a single object has others"
    if any((number_of(each.resource_version) or version + 1) > version for each in page.objects):
        return f"a list at version {version} has an object of a later version"
    return ""
