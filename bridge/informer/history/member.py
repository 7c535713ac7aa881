"""Asks a single member's server about the known history: requests lists, and lets ``proof`` compare the answers.

A member is an informer, seen by its History. Each question is a Proof of its own: of the version that the member has
reached, of its newest delete, of its newest objects. An answer that says nothing about the history is returned as it
is, so that the History can ask another member.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from msgspec.structs import replace

from bridge.informer.history import proof
from bridge.informer.history.proof import OtherHistory, Proof, SameHistory, Seen, UnknownHistory
from bridge.model.answers import (
    Busy,
    Expired,
    Failed,
    ListAnswer,
    ListerWatcher,
    ListRequest,
    Match,
    Oversized,
    Page,
    Part,
    Refused,
    TooLarge,
    Unsupported,
)
from bridge.model.change import ObjectVersion
from bridge.model.object import ApiObject
from bridge.model.resource import Resource, Scope
from bridge.model.versions import Deleted


class Member(Protocol):
    """The part of an informer that its History uses, and its recovery."""

    resource: Resource
    scope: Scope
    source: ListerWatcher

    @property
    def reached(self) -> str | None:
        """The newest version that the server sent, in the informer's present history; None before the first."""
        ...

    @property
    def is_witness(self) -> bool:
        """Its ``reached``, ``newest`` and ``deleted`` are of the present history."""
        ...

    @property
    def live(self) -> bool:
        """The informer has an open watch."""
        ...

    def newest(self, most: int) -> list[tuple[str, ObjectVersion]]:
        """The newest known objects, newest first."""
        ...

    @property
    def deleted(self) -> Deleted | None:
        """The newest announced delete; None if a newer change is known."""
        ...

    def known(self, key: str) -> ObjectVersion | None: ...

    async def wait_processed(self) -> None:
        """Returns when the Indexer has every delta that was queued before, and no batch is under way."""
        ...

    async def wait_recovered(self) -> None:
        """Returns when no steps behind a list are looked for: in seconds (``exact_lists.LONGEST``)."""
        ...

    async def wait_known(self) -> None:
        """Returns when the Indexer has every delta that is queued now."""
        ...

    def exported(self, key: str, known: ObjectVersion) -> ApiObject:
        """A known object with its exported body, without paths that the informer ignores. ``known`` must be
        current."""
        ...

    def as_exported(self, thing: ApiObject) -> ApiObject:
        """The object as it would be exported (transformed), without paths that the informer ignores."""
        ...

    def disproved(self, other: OtherHistory) -> None:
        """Learns that the server has another history. Does not wait."""
        ...


async def has_version(member: Member, reached: str) -> Proof:
    answer = await list_few(member.source, ListRequest(version="", limit=1))
    if isinstance(answer, Page):
        return proof.is_behind(answer, reached) or SameHistory()
    return _not_now(answer)


async def has_delete(member: Member, deleted: Deleted) -> Proof:
    """Proves by a known delete: the object must exist before its version, and be gone at it."""
    if not deleted.version.isdecimal():
        return UnknownHistory("the version of the newest delete has no order")
    for version in (str(int(deleted.version) - 1), deleted.version):
        request = ListRequest(version=version, limit=0, match=Match.EXACT, only=deleted.key)
        answer = await list_few(member.source, request)
        match proof.was_gone(answer, version, deleted):
            case OtherHistory() as other:
                return other
            case True:
                continue
        if isinstance(answer, Page | Expired | Unsupported | TooLarge):
            return await _stays_deleted(member, deleted, proof.has_version_of(answer, deleted))
        return _not_now(answer)
    return SameHistory()


async def _stays_deleted(member: Member, deleted: Deleted, had_its_version: bool) -> Proof:
    """Proves by a delete whose version the server has forgotten: the object must not be back in an older state; nor
    in any state, if the object ``had_its_version``."""
    answer = await list_few(member.source, ListRequest(version="", limit=0, only=deleted.key))
    if isinstance(answer, Page):
        behind = proof.is_behind(answer, deleted.version)
        contradiction = behind or proof.is_back(answer, deleted, had_its_version)
        return contradiction or UnknownHistory("the server has forgotten the version of the newest delete")
    return UnknownHistory(answer.reason) if isinstance(answer, Unsupported) else _not_now(answer)


async def has_newest(member: Member, newest: Sequence[tuple[str, ObjectVersion]]) -> Proof:
    # A member with an open watch may have processed deletes since ``newest`` was made.
    now_known = ((key, known) for key, _ in newest if (known := member.known(key)) is not None)
    key, known = next(now_known, (None, None))
    if key is None or known is None:
        return Failed(f"all known {member.resource} were deleted meanwhile")
    exported, version = member.exported(key, known), known.resource_version
    answer = await list_few(member.source, ListRequest(version=version, limit=0, match=Match.EXACT, only=key))
    match proof.was_there(answer, key, exported):
        case OtherHistory() as other:
            return other
        case ApiObject() as found:
            return _same_state(member.as_exported(found), exported, key)
    if isinstance(answer, Page | Expired | Unsupported | TooLarge):
        return await _has_newest_now(member, newest)
    return _not_now(answer)


async def _has_newest_now(member: Member, newest: Iterable[tuple[str, ObjectVersion]]) -> Proof:
    """Proves by the current states, because the server has forgotten the known version. A changed or deleted object
    proves neither history, so the next objects are listed too; an object older than its known version disproves."""
    gone = ""
    for key, known in newest:
        answer = await list_few(member.source, ListRequest(version="", limit=0, only=key))
        if isinstance(answer, Unsupported):
            return UnknownHistory(f"{member.resource} cannot be listed by name: {answer.reason}")
        if not isinstance(answer, Page):
            return _not_now(answer)
        if behind := proof.is_behind(answer, known.resource_version):
            return behind
        match proof.now(answer, known):
            case Seen.OLDER:
                return OtherHistory(f"{key} at {known.resource_version}", f"{key} at {answer.version}, older")
            case Seen.SAME:
                if member.known(key) != known:
                    break  # It has changed while the server was asked.
                state = _same_state(member.as_exported(answer.objects[0]), member.exported(key, known), key)
                if isinstance(state, OtherHistory):
                    return state
                break
            case Seen.GONE | Seen.UNREADABLE as seen:
                gone = gone or f"{member.resource} {key} at {known.resource_version} is {seen.value}"
    return UnknownHistory(gone) if gone else SameHistory()


async def list_few(source: ListerWatcher, request: ListRequest, most: int = 1) -> ListAnswer:
    """Lists, and keeps the first ``most`` objects and the object that was asked for: a server that ignores the limit or
    the name may send all that it has, and the page would be in memory as a whole."""
    kept: list[ApiObject] = []

    async def keep(part: Part | Page) -> None:
        for thing in part.objects:
            if len(kept) < most:
                kept.append(thing)
            elif thing.key == request.only:
                kept[most:] = [thing]

    answer = await source.list(request, keep)
    if not isinstance(answer, Page):
        return answer
    await keep(answer)
    return replace(answer, objects=kept)


def _same_state(found: ApiObject, exported: ApiObject, key: str) -> Proof:
    if proof.is_other_state(found, exported):
        version = exported.resource_version
        return OtherHistory(f"{key} at {version}", f"another state of the object at {version}")
    return SameHistory()


def _not_now(answer: ListAnswer) -> Refused | Busy | Failed:
    match answer:
        case Refused() | Busy() | Failed():
            return answer
        case Expired(reason=reason) | TooLarge(reason=reason) | Oversized(reason=reason) | Unsupported(reason=reason):
            return Failed(reason)
        case Page():
            raise AssertionError("a page is an answer")
