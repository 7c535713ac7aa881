"""Proves that an API server still has the known history, once for all of its informers together."""

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
"""Seconds to wait for other members whose watches broke at the same moment."""
ASSURED = 0.25
"""Seconds. Two answers within this time are of one history: a restore of the store takes longer, since etcd and the API
server start anew."""
KNOWN = 1.0
"""Seconds that a proof waits for queued deltas to reach the Indexer."""
NOT_FOUND = 404
ATTEMPTS = 3
"""The most members per proof whose resources cannot be listed now, for instance because a webhook of theirs is down."""
WITNESSES = 5
"""Objects of an informer to be listed, if the newest object cannot be listed at its version any more."""

Part: TypeAlias = tuple[Resource, Scope]

Forsake: TypeAlias = Callable[[Collection[Part], bool], Awaitable[None]]
"""Drops the positions of these parts, so that no later start resumes from them; if the second argument is True, each
part begins a new epoch. Counts for all batches delivered after the call. Returns when it is durable."""


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


async def nowhere(_parts: Collection[Part], _restored: bool) -> None:
    """The Forsake of informers without durable positions."""


class History:
    """The history of one store behind an API server, for all informers of that store (members).

    Invariant: all objects that members vouch for are of one history, and a member exports one history in an epoch.

    - A page, or an open watch, is taken in only where its history is assured: within ``ASSURED`` seconds of another
      answer of the known history, or by a proof that began after the answer had come. A broken connection ends the
      assurance for all members.
    - A proof is of the moment in which it begins. It counts for members that asked before, and queued deltas of all
      members are known to it.
    - In another history all members begin an epoch and compare (``Comparison``). A comparison that breaks off may have
      exported yet another history: its member begins one more epoch (``renew``).

    Only ``list`` is needed, within each member's scope. No request of a proof counts as a list of the resource.
    """

    def __init__(
        self, name: str = "", *, forsake: Forsake = nowhere, report: Report = unheard, gather: float = GATHER
    ) -> None:
        """``name`` distinguishes stores behind an address (see ``kube.store_of``); empty for kube-apiserver's own."""
        self._name = name
        self._forsake = forsake
        self._report = report
        self._gather = gather
        self._now = asyncio.get_running_loop().time
        self._members: list[Member] = []
        self._lost_sight = float("-inf")
        self._turn = asyncio.Lock()
        self._began = float("-inf")
        self._proof: Proof = SameHistory()
        self._assured: float | None = None
        """When an answer of the known history came last; None while nothing is known of the present history."""
        self._other: OtherHistory | None = None
        """The other history that was found last in this process."""
        self._current: set[str] = set()
        """Names of resources whose checkpoints belong to the present history."""
        self._doubtful: set[Member] = set()
        """Members that had no open watch when the history was unknown. The next proof is unknown to each of them: it
        may lack the knowledge that other members have dropped since."""
        self._failing: set[Member] = set()
        """Members whose last request failed: the other members are asked first."""

    def join(self, member: Member, *, resumed: bool) -> None:
        """Adds a member. A ``resumed`` member has a checkpoint from before this process."""
        self._members.append(member)
        if resumed and self._other is not None and member.resource.name not in self._current:
            member.disproved(self._other)
        self._current.add(member.resource.name)

    def leave(self, member: Member) -> None:
        """Removes a member. A second call has no effect."""
        self._failing.discard(member)
        self._doubtful.discard(member)
        if member in self._members:
            self._members.remove(member)

    async def prove(self, member: Member) -> Proof:
        """Whether the server's history is the known one, at a moment after the call. All members learn of another
        history by ``disproved`` before this returns."""
        made = await self._newest_proof()
        if member not in self._doubtful:
            return made
        self._doubtful.discard(member)
        return UnknownHistory("an earlier proof failed") if isinstance(made, SameHistory) else made

    async def _newest_proof(self) -> Proof:
        asked = self._now()
        async with self._turn:
            if self._began > asked:
                return self._proof
            await asyncio.sleep(self._gather)
            began = self._now()
            made = await self._make()
            match made:
                case SameHistory() if self._lost_sight < began:
                    self.assure(began)
                case OtherHistory():
                    await self._announce(made, self._members)
                case UnknownHistory():
                    # Members with an open watch have missed no events.
                    unwatched = [each for each in self._members if not each.live]
                    self._doubtful.update(unwatched)
                    await self._forsake(_parts(unwatched), False)
            self._began, self._proof = began, made
            self._report(HistoryChecked(self._name, *_outcome(made)))
            return made

    async def disprove(self, member: Member, other: OtherHistory) -> None:
        """This member has found another history by itself: all other members learn of it."""
        await self._announce(other, [each for each in self._members if each is not member])

    def is_assured(self, member: Member) -> bool:
        """An answer to this member, at this moment, is of the known history, or no member knows anything."""
        if member in self._doubtful:
            return False
        return self._assured is None or self._now() - self._assured <= ASSURED

    def assure(self, at: float) -> None:
        """An answer that came at this time, on the event loop's clock, is of the known history."""
        self._assured = at if self._assured is None else max(at, self._assured)

    def lose_sight(self) -> None:
        """A connection broke: the server may have another store now."""
        self._lost_sight = self._now()
        if self._assured is not None:
            self._assured = float("-inf")

    async def renew(self, member: Member) -> None:
        """Begin another epoch for this member alone. Durable when this returns."""
        await self._forsake(_parts([member]), True)

    async def _announce(self, other: OtherHistory, members: Collection[Member]) -> None:
        """Makes the end of the known history durable before it returns. Otherwise, after a crash, a member with objects
        of the new history could prove it for a member with a position of the old history."""
        self._other, self._assured = other, None
        self._doubtful.clear()
        self._current = {each.resource.name for each in self._members}
        durable = self._forsake(_parts(self._members), True)
        for each in members:
            each.disproved(other)
        await durable

    # ── A proof ──────────────────────────────────────────────────────────────

    async def _make(self) -> Proof:
        """Members with the newest versions are asked first: for the version of the server, from the first member that
        may list; then for what the server had at the version of the newest known object, and of the newest delete where
        the delete is newer."""
        try:
            async with asyncio.timeout(KNOWN):
                for each in list(self._members):
                    await each.wait_known()
        except TimeoutError:
            return Busy("received changes wait to be stored")
        return await self._ask()

    async def _ask(self) -> Proof:
        witnesses = [each for each in self._members if each.is_witness]
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
        than that, and older than the known version of a member that cannot be asked."""
        unable: Proof | None = None
        unknown: UnknownHistory | None = None
        same = asked = _NEVER
        attempts = ATTEMPTS
        for member in sorted(known, key=lambda each: (each not in self._failing, _age(known[each])), reverse=True):
            if _age(known[member]) <= asked:
                continue
            answer = await ask(member)
            if isinstance(answer, SameHistory | UnknownHistory) and not any_will_do:
                self._failing.discard(member)
                asked = _age(known[member])
                same, unknown = (asked, None) if isinstance(answer, SameHistory) else (same, answer)
                continue
            if isinstance(answer, Failed):
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
        if unknown is not None and newer is None:
            return unknown
        return UnknownHistory(f"{newer.resource} cannot be asked for now") if newer else SameHistory()

    async def _look_at_version(self, member: Member, reached: str) -> Proof:
        answer = await member.source.list(ListRequest(version="", limit=1))
        if isinstance(answer, Page):
            return proof.is_behind(answer, reached) or SameHistory()
        return _not_now(answer)

    async def _look_at_delete(self, member: Member, deleted: Deleted) -> Proof:
        """Proves by a known delete: the object must exist before its version, and be gone at it."""
        if not deleted.version.isdecimal():
            return UnknownHistory("the version of the newest delete has no order")
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
        """Proves by a delete whose version the server has forgotten: the object must not be back in an older state."""
        answer = await member.source.list(ListRequest(version="", limit=0, only=deleted.key))
        if isinstance(answer, Page):
            behind = proof.is_behind(answer, deleted.version)
            contradiction = behind or proof.is_back(answer, deleted)
            return contradiction or UnknownHistory("the server has forgotten the version of the newest delete")
        return UnknownHistory(answer.reason) if isinstance(answer, Unsupported) else _not_now(answer)

    async def _look_at_its_version(self, member: Member, newest: Sequence[tuple[str, ObjectVersion]]) -> Proof:
        # A member with an open watch may have processed deletes since ``newest`` was made.
        now_known = ((key, known) for key, _ in newest if (known := member.known(key)) is not None)
        key, known = next(now_known, (None, None))
        if key is None or known is None:
            return Failed(f"all known {member.resource} were deleted meanwhile")
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
        """Proves by the current states, because the server has forgotten the known version. A changed or deleted object
        proves neither history, so the next objects are listed too; an object older than its known version disproves."""
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
                    if member.known(key) != known:
                        break  # It has changed while the server was asked.
                    state = _same_state(member.as_exported(answer.objects[0]), member.exported(key, known), key)
                    if isinstance(state, OtherHistory):
                        return state
                    break
                case Seen.GONE | Seen.UNREADABLE as seen:
                    gone = gone or f"{member.resource} {key} at {known.resource_version} is {seen.value}"
        return UnknownHistory(gone) if gone else SameHistory()


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
    """The newest objects, without objects that cannot be listed because a definition came back with another scope."""
    return [each for each in member.newest(WITNESSES) if ("/" in each[0]) is member.resource.namespaced]


def _age(version: str) -> tuple[int, bytes]:
    return age_of(version.encode())
