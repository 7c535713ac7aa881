"""Makes the requests of a proof, and draws the conclusion. ``proof`` compares each answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Protocol

from msgspec.structs import replace

from bridge.informer.reflector import proof
from bridge.informer.reflector.proof import Seen
from bridge.informer.reflector.states import OtherHistory, Proof, SameHistory, UnknownHistory
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
from bridge.model.versions.version_table import Deleted, age_of

NOT_FOUND = 404
ATTEMPTS = 3
"""The most members per proof whose resources cannot be listed now, for instance because a webhook of theirs is down."""
WITNESSES = 5
"""Objects of an informer to be listed, if the newest object cannot be listed at its version any more."""


class Member(Protocol):
    """The part of an informer that its History uses."""

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

    async def wait_known(self) -> None:
        """Return when the Indexer has every delta that is queued now."""
        ...

    def exported(self, key: str, known: ObjectVersion) -> ApiObject:
        """A known object with its exported body. ``known`` must be current."""
        ...

    def as_exported(self, thing: ApiObject) -> ApiObject:
        """The object as it would be exported (transformed)."""
        ...

    def disproved(self, other: OtherHistory) -> None:
        """Learns that the server has another history. Does not wait."""
        ...


class Prover:
    """Asks members for proofs. Remembers the members whose requests failed, and asks the other members first."""

    def __init__(self) -> None:
        self._failing: set[Member] = set()

    def forget(self, member: Member) -> None:
        self._failing.discard(member)

    async def prove(self, members: Iterable[Member]) -> Proof:
        """Members with the newest versions are asked first: for the version of the server, from the first member that
        may list; then for what the server had at the version of the newest known object, and of the newest delete where
        the delete is newer."""
        witnesses = [each for each in members if each.is_witness]
        if not witnesses:
            return UnknownHistory("the known objects are being compared with the server's")
        reached = {each: version for each in witnesses if (version := each.reached) is not None}
        answer = await self._ask_in_turn(
            reached, lambda each: self._look_at_version(each, reached[each]), any_will_do=True
        )
        if not isinstance(answer, SameHistory):
            return answer
        newest = {each: found for each in witnesses if (found := _still_possible(each))}
        if not newest and (replaced := next((each for each in witnesses if each.newest(1)), None)):
            return UnknownHistory(f"{replaced.resource} has another scope than its known objects")
        known = {each: found[0][1].resource_version for each, found in newest.items()}
        deletes = {each: deleted for each in witnesses if (deleted := each.deleted) is not None}
        gone = {each: deleted.version for each, deleted in deletes.items()}
        was_gone: Proof = UnknownHistory("no newer delete is known")
        if max(map(_age, gone.values()), default=_NEVER) > max(map(_age, known.values()), default=_NEVER):
            was_gone = await self._ask_in_turn(gone, lambda each: self._look_at_delete(each, deletes[each]))
            if not isinstance(was_gone, SameHistory | UnknownHistory | Refused):
                return was_gone
        answer = await self._ask_in_turn(known, lambda each: self._look_at_its_version(each, newest[each]))
        if isinstance(was_gone, SameHistory):
            # The same object may have been deleted at the same version in two histories.
            return answer if isinstance(answer, OtherHistory) else was_gone
        if isinstance(answer, Refused) and answer.status == NOT_FOUND:
            # The collection exists, so its definition came back with another scope.
            return UnknownHistory(answer.reason)
        return answer

    async def _ask_in_turn(
        self, known: Mapping[Member, str], ask: Callable[[Member], Awaitable[Proof]], *, any_will_do: bool = False
    ) -> Proof:
        """Asks members until an answer decides. After Refused and Failed, which may concern a single resource, the next
        member is asked.

        Unless ``any_will_do``, a member proves the history only up to its own newest version: a backup may be newer
        than that, and older than the known version of a member that cannot be asked. After its first failure, the proof
        fails and is tried again, since the connection may have broken in the middle of the proof."""
        unable: Proof | None = None
        unknown: UnknownHistory | None = None
        failed: dict[Member, Failed] = {}
        asked = _NEVER
        attempts = ATTEMPTS
        for member in sorted(known, key=lambda each: (each not in self._failing, _age(known[each])), reverse=True):
            if _age(known[member]) <= asked:
                continue
            answer = await ask(member)
            if isinstance(answer, SameHistory | UnknownHistory) and not any_will_do:
                self._failing.discard(member)
                asked, unknown = _age(known[member]), None if isinstance(answer, SameHistory) else answer
                continue
            if isinstance(answer, Failed):
                if member not in self._failing:
                    failed[member] = answer
                self._failing.add(member)
                attempts -= 1
                if not attempts and asked == _NEVER:
                    return answer
            elif not isinstance(answer, Refused):
                self._failing.discard(member)
                return answer
            unable = answer
            if not attempts:
                break
        if asked == _NEVER:
            return unable or SameHistory()
        newer = next((each for each in known if _age(known[each]) > asked), None)
        if newer is None:
            return unknown or SameHistory()
        return failed.get(newer) or UnknownHistory(f"{newer.resource} cannot be asked for now")

    async def _look_at_version(self, member: Member, reached: str) -> Proof:
        answer = await _first_of(member, ListRequest(version="", limit=1))
        if isinstance(answer, Page):
            return proof.is_behind(answer, reached) or SameHistory()
        return _not_now(answer)

    async def _look_at_delete(self, member: Member, deleted: Deleted) -> Proof:
        """Proves by a known delete: the object must exist before its version, and be gone at it."""
        if not deleted.version.isdecimal():
            return UnknownHistory("the version of the newest delete has no order")
        for version in (str(int(deleted.version) - 1), deleted.version):
            request = ListRequest(version=version, limit=0, match=Match.EXACT, only=deleted.key)
            answer = await _first_of(member, request)
            match proof.was_gone(answer, version, deleted):
                case OtherHistory() as other:
                    return other
                case True:
                    continue
            if isinstance(answer, Page | Expired | Unsupported | TooLarge):
                return await self._look_whether_it_is_back(member, deleted, proof.has_version_of(answer, deleted))
            return _not_now(answer)
        return SameHistory()

    async def _look_whether_it_is_back(self, member: Member, deleted: Deleted, had_its_version: bool) -> Proof:
        """Proves by a delete whose version the server has forgotten: the object must not be back in an older state; nor
        in any state, if the object ``had_its_version``."""
        answer = await _first_of(member, ListRequest(version="", limit=0, only=deleted.key))
        if isinstance(answer, Page):
            behind = proof.is_behind(answer, deleted.version)
            contradiction = behind or proof.is_back(answer, deleted, had_its_version)
            return contradiction or UnknownHistory("the server has forgotten the version of the newest delete")
        return UnknownHistory(answer.reason) if isinstance(answer, Unsupported) else _not_now(answer)

    async def _look_at_its_version(self, member: Member, newest: Sequence[tuple[str, ObjectVersion]]) -> Proof:
        # A member with an open watch may have processed deletes since ``newest`` was made.
        now_known = ((key, known) for key, _ in newest if (known := member.known(key)) is not None)
        key, known = next(now_known, (None, None))
        if key is None or known is None:
            return Failed(f"all known {member.resource} were deleted meanwhile")
        exported, version = member.exported(key, known), known.resource_version
        answer = await _first_of(member, ListRequest(version=version, limit=0, match=Match.EXACT, only=key))
        match proof.was_there(answer, key, exported):
            case OtherHistory() as other:
                return other
            case ApiObject() as found:
                return _same_state(member.as_exported(found), exported, key)
        if isinstance(answer, Page | Expired | Unsupported | TooLarge):
            return await self._look_at_now(member, newest)
        return _not_now(answer)

    async def _look_at_now(self, member: Member, newest: Iterable[tuple[str, ObjectVersion]]) -> Proof:
        """Proves by the current states, because the server has forgotten the known version. A changed or deleted object
        proves neither history, so the next objects are listed too; an object older than its known version disproves."""
        gone = ""
        for key, known in newest:
            answer = await _first_of(member, ListRequest(version="", limit=0, only=key))
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


async def _first_of(member: Member, request: ListRequest) -> ListAnswer:
    """Lists, and keeps the first object and the object that was asked for: a server that ignores the limit or the name
    may send all that it has, and the page would be in memory as a whole."""
    kept: list[ApiObject] = []

    def keep(objects: Iterable[ApiObject]) -> None:
        for thing in objects:
            if not kept or thing.key == request.only:
                kept.append(thing)

    async def take(part: Part) -> None:
        keep(part.objects)

    answer = await member.source.list(request, take)
    if isinstance(answer, Page):
        keep(answer.objects)
        return replace(answer, objects=kept)
    return answer


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


_NEVER = (-1, b"")


def _still_possible(member: Member) -> list[tuple[str, ObjectVersion]]:
    """The newest objects, without objects that cannot be listed because a definition came back with another scope."""
    return [each for each in member.newest(WITNESSES) if ("/" in each[0]) is member.resource.namespaced]


def _age(version: str) -> tuple[int, bytes]:
    return age_of(version.encode())
