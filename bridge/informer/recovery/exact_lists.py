"""Lists objects at exact versions, within the bounds of a recovery."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeAlias, TypeVar

from msgspec.structs import replace

from bridge.informer.recovery.allowance import ATTEMPTS, RecoverySlots
from bridge.informer.recovery.answers import Meaning, NotNow, NotOffered, NotThis, moment_of, sample_of
from bridge.informer.recovery.walk import Moment
from bridge.model.answers import ListAnswer, ListerWatcher, ListRequest, Match, Page, Part
from bridge.model.object import ApiObject
from bridge.model.resource import Resource, Scope

PAUSE = 1.0
"""Seconds before the next of them, unless the server asks for more."""
MOST_KEPT = 2
"""Objects of an answer that should have at most a single object."""
HARMLESS = "kubedelta"
"""A name that every server takes in a list. No object needs to have it."""

Found = TypeVar("Found", Moment, list[ApiObject])
Read: TypeAlias = Callable[[ListAnswer], Found | Meaning]
MayAsk: TypeAlias = Callable[[], bool]
"""Whether another request is within the bounds, which it then counts for."""


class Walked(Protocol):
    """The part of an informer that its recovery uses."""

    resource: Resource
    scope: Scope
    source: ListerWatcher


class ExactLists:
    """The lists of a recovery. None as an answer means that the bounds are reached."""

    def __init__(self, informer: Walked, slots: RecoverySlots) -> None:
        self.limits = slots.limits
        self._informer = informer
        self._slots = slots
        self._offered_by: ListerWatcher | None = None
        """A server that has listed an object at a version."""

    @property
    def are_wanted(self) -> bool:
        """The operator wants them for the informer's objects, at this moment."""
        return self._slots.is_wanted(self._informer.resource, self._informer.scope)

    async def state_at(self, key: str, version: int, may_ask: MayAsk) -> Moment | Meaning | None:
        """NotThis where the server lists other objects at this version."""
        answer = await self._state_at(key, version, may_ask)
        if not isinstance(answer, NotThis) or self._offered_by is self._informer.source:
            return answer
        namespace, slash, _ = key.rpartition("/")
        match await self._state_at(f"{namespace}{slash}{HARMLESS}", version, may_ask):
            case Moment():
                return answer
            case NotThis(reason=reason):
                return NotOffered(reason)
            case other:
                return other

    async def all_at(self, version: int, most: int, may_ask: MayAsk) -> list[ApiObject] | Meaning | None:
        """At most ``most`` of all objects."""
        request = ListRequest(version=str(version), limit=most, match=Match.EXACT)
        answer = await self._list(request, may_ask, most, lambda answer: sample_of(answer, version))
        return NotOffered(answer.reason) if isinstance(answer, NotThis) else answer

    async def _state_at(self, key: str, version: int, may_ask: MayAsk) -> Moment | Meaning | None:
        source = self._informer.source
        request = ListRequest(version=str(version), limit=0, match=Match.EXACT, only=key)
        answer = await self._list(request, may_ask, MOST_KEPT, lambda answer: moment_of(answer, key, version))
        if isinstance(answer, Moment):
            self._offered_by = source
        return answer

    async def _list(
        self, request: ListRequest, may_ask: MayAsk, most: int, read: Read[Found]
    ) -> Found | Meaning | None:
        meaning: Found | Meaning | None = None
        for _ in range(ATTEMPTS):
            async with self._slots.turn():
                if not may_ask():
                    return meaning
                meaning = read(await self._answer(request, most))
            if not isinstance(meaning, NotNow):
                self._slots.answered()
                break
            self._slots.pause(max(PAUSE, meaning.after or 0.0))
        return meaning

    async def _answer(self, request: ListRequest, most: int) -> ListAnswer:
        """The answer with its first objects: a server that ignores the limit or the name may send all that it has, and
        the page would be in memory as a whole."""
        kept: list[ApiObject] = []

        def keep(objects: Iterable[ApiObject]) -> None:
            kept.extend(list(objects)[: most - len(kept)])

        async def take(part: Part) -> None:
            keep(part.objects)

        answer = await self._informer.source.list(request, take)
        if not isinstance(answer, Page):
            return answer
        keep(answer.objects)
        return replace(answer, objects=kept)
