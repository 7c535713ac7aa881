"""Whether an API server still has the history that is known: proven once for all of its informers together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias

from bridge.facts import HistoryChecked, Report, unheard
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
    Refused,
    TooLarge,
    Unsupported,
)
from bridge.model.change import ObjectVersion
from bridge.model.object import ApiObject
from bridge.model.resource import Resource, Scope
from bridge.model.versions.version_table import Deleted, age_of

GATHER = 0.05
"""Seconds to wait for others whose watches broke at the same moment."""
LASTS = 5.0
"""Seconds for which a proof that was made counts. Who comes later has not watched since: the store may be another one
by now, and nobody noticed."""
NOT_FOUND = 404
ATTEMPTS = 3
"""Members that are asked in one proof whose resources cannot be listed now, as where a webhook of theirs is down."""
WITNESSES = 5
"""Objects of one informer that are asked for where the newest one cannot be asked for at its version any more."""

Part: TypeAlias = tuple[Resource, Scope]

Forsake: TypeAlias = Callable[[Collection[Part], bool], Awaitable[None]]
"""What these parts have reached is not to be gone on from, whenever this process ends; where the second is True, each
is in a new epoch. Takes effect for everything that is delivered after the call; returns when it is durable."""


class Member(Protocol):
    """An informer, as its history sees it."""

    resource: Resource
    scope: Scope
    source: ListerWatcher

    @property
    def reached(self) -> str | None:
        """The newest version that the server told it of the history that it has."""
        ...

    @property
    def is_witness(self) -> bool:
        """What it knows is of the history that it was told last, as far as it was told."""
        ...

    @property
    def live(self) -> bool:
        """A watch of it is open."""
        ...

    def newest(self, most: int) -> list[tuple[str, ObjectVersion]]:
        """The newest objects that it knows, newest first."""
        ...

    @property
    def deleted(self) -> Deleted | None:
        """The newest delete that the server announced, unless something newer is known."""
        ...

    def known(self, key: str) -> ObjectVersion | None: ...

    def exported(self, key: str, known: ObjectVersion) -> ApiObject:
        """A known object with its body. What ``known`` says must be of this moment."""
        ...

    def as_exported(self, thing: ApiObject) -> ApiObject:
        """What would be exported of an object."""
        ...

    def disproved(self, other: OtherHistory) -> None:
        """Its server has another history. Does not wait."""
        ...


async def nowhere(_parts: Collection[Part], _restored: bool) -> None:
    """Nothing is kept that could be gone on from."""


class History:
    """Of one store behind an API server. Members ask for a proof after each time that the server was out of sight; one
    that began since then is as good as a new one for some seconds, and whoever comes while one is made gets the same.

    Only ``list`` is needed, and of each member what its scope covers. Nothing here counts as a list of the resource.
    """

    def __init__(
        self, name: str = "", *, forsake: Forsake = nowhere, report: Report = unheard, gather: float = GATHER
    ) -> None:
        """``name`` tells it from others behind the same address; empty for most of what an API server has."""
        self._name = name
        self._forsake = forsake
        self._report = report
        self._gather = gather
        self._now = asyncio.get_running_loop().time
        self._members: list[Member] = []
        self._turn = asyncio.Lock()
        self._began = self._ended = float("-inf")
        self._proof: Proof = SameHistory()
        self._other: OtherHistory | None = None
        """Since this process began."""
        self._current: set[str] = set()
        """Names of resources whatever is remembered of which is of the history of now."""
        self._failing: set[Member] = set()
        """Members whose resources could not be listed when they were last asked: others are asked first."""

    def join(self, member: Member, *, resumed: bool) -> None:
        """One that is ``resumed`` knows what was before this process."""
        self._members.append(member)
        if resumed and self._other is not None and member.resource.name not in self._current:
            member.disproved(self._other)
        self._current.add(member.resource.name)

    def leave(self, member: Member) -> None:
        """No error where it left before."""
        self._failing.discard(member)
        if member in self._members:
            self._members.remove(member)

    async def prove(self, since: float) -> Proof:
        """Of what was known before ``since``, on the event loop's clock. Another history is told to all members by
        ``disproved`` before this returns."""
        asked = self._now()
        async with self._turn:
            lasts = isinstance(self._proof, SameHistory | UnknownHistory) and asked - self._ended <= LASTS
            if self._began >= (since if lasts else asked):
                return self._proof
            await asyncio.sleep(self._gather)
            began = self._now()
            made = await self._make()
            match made:
                case OtherHistory():
                    await self._tell(made, self._members)
                case UnknownHistory():
                    # Those whose watch is open have seen everything.
                    await self._forsake(_parts(each for each in self._members if not each.live), False)
            self._began, self._ended, self._proof = began, self._now(), made
            self._report(HistoryChecked(self._name, *_outcome(made)))
            return made

    async def disprove(self, member: Member, other: OtherHistory) -> None:
        """This member has found out by itself: the others are told."""
        await self._tell(other, [each for each in self._members if each is not member])

    async def _tell(self, other: OtherHistory, members: Collection[Member]) -> None:
        """Durable before anybody goes on: what one informer then knows of the new history must not vouch for another
        one that still has a position of the old one, whenever this process ends."""
        self._other = other
        self._current = {each.resource.name for each in self._members}
        durable = self._forsake(_parts(self._members), True)
        for each in members:
            each.disproved(other)
        await durable

    # ── A proof ──────────────────────────────────────────────────────────────

    async def _make(self) -> Proof:
        """Those who know the most are asked first. Which version the server has, as the first says who may list; then
        what it had at the version of the newest object, or of the newest delete where that is newer."""
        witnesses = [each for each in self._members if each.is_witness]
        if not witnesses:
            return UnknownHistory("all that is known is being compared with what the server has")
        reached = {each: version for each in witnesses if (version := each.reached) is not None}
        answer = await self._ask_in_turn(
            reached, lambda each: self._look_at_version(each, reached[each]), any_will_do=True
        )
        if not isinstance(answer, SameHistory):
            return answer
        newest = {each: found for each in witnesses if (found := _still_possible(each))}
        if not newest and (replaced := next((each for each in witnesses if each.newest(1)), None)):
            return UnknownHistory(f"{replaced.resource} has another scope than what is known of it")
        known = {each: found[0][1].resource_version for each, found in newest.items()}
        deletes = {each: deleted for each in witnesses if (deleted := each.deleted) is not None}
        gone = {each: deleted.version for each, deleted in deletes.items()}
        if max(map(_age, gone.values()), default=_NEVER) > max(map(_age, known.values()), default=_NEVER):
            answer = await self._ask_in_turn(gone, lambda each: self._look_at_delete(each, deletes[each]))
            if not isinstance(answer, UnknownHistory | Refused):
                return answer
        answer = await self._ask_in_turn(known, lambda each: self._look_at_its_version(each, newest[each]))
        if isinstance(answer, Refused) and answer.status == NOT_FOUND:
            # Its collection is there: its definition has come back with another scope.
            return UnknownHistory(answer.reason)
        return answer

    async def _ask_in_turn(
        self, known: Mapping[Member, str], ask: Callable[[Member], Awaitable[Proof]], *, any_will_do: bool = False
    ) -> Proof:
        """Refused is who may not list; what fails may be a matter of that resource alone. Neither keeps others from
        being asked, in this proof or the next. But unless ``any_will_do``, who knows less vouches for no more than it
        knows: a backup may be newer than that, and older than what is known to who cannot be asked."""
        unable: Proof | None = None
        same = _NEVER
        attempts = ATTEMPTS
        for member in sorted(known, key=lambda each: (each not in self._failing, _age(known[each])), reverse=True):
            if _age(known[member]) <= same:
                continue
            answer = await ask(member)
            if isinstance(answer, SameHistory) and not any_will_do:
                self._failing.discard(member)
                same = _age(known[member])
                continue
            if isinstance(answer, Failed):
                self._failing.add(member)
                attempts -= 1
                if not attempts and same == _NEVER:
                    return answer
            elif not isinstance(answer, Refused):
                self._failing.discard(member)
                return answer
            unable = answer
            if not attempts:
                break
        if same == _NEVER:
            return unable or SameHistory()
        newer = next((each for each in known if _age(known[each]) > same), None)
        return UnknownHistory(f"{newer.resource} cannot be asked for now") if newer else SameHistory()

    async def _look_at_version(self, member: Member, reached: str) -> Proof:
        answer = await member.source.list(ListRequest(version="", limit=1))
        if isinstance(answer, Page):
            return proof.is_behind(answer, reached) or SameHistory()
        return _not_now(answer)

    async def _look_at_delete(self, member: Member, deleted: Deleted) -> Proof:
        """It was there until this version, and not any more at it."""
        if not deleted.version.isdecimal():
            return UnknownHistory("its version has no order")
        for version in (str(int(deleted.version) - 1), deleted.version):
            request = ListRequest(version=version, limit=0, match=Match.EXACT, only=deleted.key)
            answer = await member.source.list(request)
            match proof.was_gone(answer, version, deleted):
                case OtherHistory() as other:
                    return other
                case True:
                    continue
            if isinstance(answer, Page | Expired | Unsupported | TooLarge):
                return await self._look_whether_it_is_back(member, deleted)
            return _not_now(answer)
        return SameHistory()

    async def _look_whether_it_is_back(self, member: Member, deleted: Deleted) -> Proof:
        """The version of its delete is forgotten."""
        answer = await member.source.list(ListRequest(version="", limit=0, only=deleted.key))
        if isinstance(answer, Page):
            behind = proof.is_behind(answer, deleted.version)
            return behind or proof.is_back(answer, deleted) or UnknownHistory("its version is forgotten")
        return UnknownHistory(answer.reason) if isinstance(answer, Unsupported) else _not_now(answer)

    async def _look_at_its_version(self, member: Member, newest: Sequence[tuple[str, ObjectVersion]]) -> Proof:
        # Those with an open watch go on learning while others are asked.
        now_known = ((key, known) for key, _ in newest if (known := member.known(key)) is not None)
        key, known = next(now_known, (None, None))
        if key is None or known is None:
            return Failed(f"all that was known of {member.resource} was deleted meanwhile")
        exported, version = member.exported(key, known), known.resource_version
        answer = await member.source.list(ListRequest(version=version, limit=0, match=Match.EXACT, only=key))
        match proof.was_there(answer, key, exported):
            case OtherHistory() as other:
                return other
            case ApiObject() as found:
                return _same_state(member.as_exported(found), exported, key)
        if isinstance(answer, Page | Expired | Unsupported | TooLarge):
            return await self._look_at_now(member, newest)
        return _not_now(answer)

    async def _look_at_now(self, member: Member, newest: Iterable[tuple[str, ObjectVersion]]) -> Proof:
        """Its version is forgotten. That an object changed since, or went, is nothing unusual: then the next newest are
        looked at too, since one that is older than it was known decides."""
        gone = ""
        for key, known in newest:
            answer = await member.source.list(ListRequest(version="", limit=0, only=key))
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
                    break
                case Seen.GONE | Seen.UNREADABLE as seen:
                    gone = gone or f"{member.resource} {key} at {known.resource_version} is {seen.value}"
        return UnknownHistory(gone) if gone else SameHistory()


def _same_state(found: ApiObject, exported: ApiObject, key: str) -> Proof:
    if proof.is_other_state(found, exported):
        version = exported.resource_version
        return OtherHistory(f"{key} at {version}", f"another state of it at {version}")
    return SameHistory()


def _not_now(answer: ListAnswer) -> Refused | Busy | Failed:
    match answer:
        case Refused() | Busy() | Failed():
            return answer
        case Expired(reason=reason) | TooLarge(reason=reason) | Oversized(reason=reason) | Unsupported(reason=reason):
            return Failed(reason)
        case Page():
            raise AssertionError("a page is an answer")


def _outcome(made: Proof) -> tuple[str, str]:
    match made:
        case SameHistory():
            return "same", ""
        case OtherHistory(was=was, now=now):
            return "other", f"{was} is known; it has {now}"
        case UnknownHistory(reason=reason):
            return "unknown", reason
        case Busy(reason=reason) | Refused(reason=reason) | Failed(reason=reason):
            return "failed", reason


_NEVER = (-1, b"")


def _parts(members: Iterable[Member]) -> list[Part]:
    return [(each.resource, each.scope) for each in members]


def _still_possible(member: Member) -> list[tuple[str, ObjectVersion]]:
    """Its newest objects, without those that no server can be asked for: the definition came back with another scope,
    and they are of the former one."""
    return [each for each in member.newest(WITNESSES) if ("/" in each[0]) is member.resource.namespaced]


def _age(version: str) -> tuple[int, bytes]:
    return age_of(version.encode())
