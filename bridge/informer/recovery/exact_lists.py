"""Lists objects at exact versions (``ExactLists``), within bounds: of the recovery after a list (``Allowance``), and of
all informers together (``RecoverySlots``).

A server that is busy, or starts anew, is asked again after a pause, and gets fewer requests at the same time. Once the
bounds are reached, requests are answered by None, and the recovery ends with what it has.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias, TypeVar

import msgspec

from bridge.informer.history.member import Member, list_few
from bridge.informer.recovery.walk import Moment
from bridge.model.answers import (
    Busy,
    Expired,
    Failed,
    ListAnswer,
    ListerWatcher,
    ListRequest,
    Match,
    Page,
    Refused,
    TooLarge,
    Unsupported,
)
from bridge.model.object import ApiObject
from bridge.model.resource import Resource, Scope
from bridge.model.versions import number_of
from bridge.telemetry.facts.informer import RecoveryEnd

LONGEST = 20.0
"""Seconds of a list's recovery. Meanwhile the queue takes the events of the next watch up to its bounds, and a watch
that is read no more must continue before the API server's watch cache has forgotten its version (75 s)."""
MOST_BYTES = 32 << 20
"""Bytes of found states in a batch."""
ATTEMPTS = 8
"""Requests for the same state, where the server is busy, or starts anew: that takes some seconds."""

PAUSE = 1.0
"""Seconds before the next request for the same state, unless the server asks for more."""
MOST_KEPT = 2
"""Objects of an answer that should have at most a single object."""
HARMLESS = "kubedelta"
"""A name that every server takes in a list. No object needs to have it."""

# ── The meaning of an answer ──────────────────────────────────────────────────


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


# ── Requests ──────────────────────────────────────────────────────────────────

Found = TypeVar("Found", Moment, list[ApiObject])
Read: TypeAlias = Callable[[ListAnswer], Found | Meaning]
MayAsk: TypeAlias = Callable[[], bool]
"""Whether another request is within the bounds, which it then counts for."""


class ExactLists:
    """The lists of a recovery. None as an answer means that the bounds are reached."""

    def __init__(self, informer: Member, slots: RecoverySlots) -> None:
        self.limits = slots.limits
        self._informer = informer
        self._slots = slots
        self._offered_by: ListerWatcher | None = None
        """A server that has listed an object at a version."""

    @property
    def are_wanted(self) -> bool:
        """The operator wants the steps of the informer's objects, at this moment."""
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
                meaning = read(await list_few(self._informer.source, request, most))
            if not isinstance(meaning, NotNow):
                self._slots.answered()
                break
            self._slots.pause(max(PAUSE, meaning.after or 0.0))
        return meaning


# ── The bounds of the recovery after a list ───────────────────────────────────


class RecoveryLimits(msgspec.Struct, frozen=True, kw_only=True):
    most_requests: int = 2000
    """After a list."""
    concurrency: int = 4
    """Requests at the same time, of all informers together."""


class Allowance:
    """The rest of a list's bounds, and the account of its recovery."""

    def __init__(self, limits: RecoveryLimits) -> None:
        self._most_requests = limits.most_requests
        self._most_unsealed = limits.most_requests - max(1, min(ATTEMPTS, limits.most_requests // 2))
        self.seconds = 0.0
        self.requests = 0
        self.objects = 0
        self.steps = 0
        self.bytes = 0
        """Bytes of found states in the present batch."""
        self.forgotten = 0
        """The server has forgotten all states through this version."""
        self._end: RecoveryEnd | None = None
        self.reason = ""

    @property
    def ended_by(self) -> RecoveryEnd:
        if self._end is not None:
            return self._end
        if self.reason:
            return RecoveryEnd.FAILED
        return RecoveryEnd.FORGOTTEN if self.forgotten else RecoveryEnd.COMPLETE

    @property
    def is_over(self) -> bool:
        return self._end is not None

    def end(self, why: RecoveryEnd, reason: str = "") -> None:
        """Ends the recovery; the first reason counts, unless the states are contradicted."""
        if self._end is None or why is RecoveryEnd.CONTRADICTED:
            self._end, self.reason = why, reason

    def pass_over(self, reason: str) -> None:
        """Takes note of an object whose steps cannot be had. The recovery goes on with the others."""
        if self._end is None:
            self.reason = reason

    def take(self, size: int) -> None:
        """Takes note of a found state of so many bytes."""
        self.bytes += size
        if self.bytes > MOST_BYTES:
            self.end(RecoveryEnd.BYTES)

    def may_ask(self) -> bool:
        """Whether another request is within the bounds, which it then counts for. The last requests of the bound are
        kept for the request that seals a batch."""
        if self.requests >= self._most_unsealed:
            self.end(RecoveryEnd.REQUESTS)
        if self.is_over:
            return False
        self.requests += 1
        return True

    def may_seal(self) -> bool:
        """Does the same for the request that seals a batch, which also comes where the search for steps is over."""
        if self.requests >= self._most_requests or self.drops_steps:
            return False
        self.requests += 1
        return True

    @property
    def seconds_left(self) -> float:
        return max(0.0, LONGEST - self.seconds)

    @property
    def drops_steps(self) -> bool:
        """The found steps may not be exported."""
        return self._end in (RecoveryEnd.CONTRADICTED, RecoveryEnd.STOPPED)


# ── The bounds of all informers together ──────────────────────────────────────


class RecoverySlots:
    """Shared by all informers of a process; first come, first served. A server that is busy gets half as many requests
    at the same time from then on, and one more behind as many answers: else the same requests would be refused again,
    each time they come together."""

    def __init__(
        self, limits: RecoveryLimits, is_wanted: Callable[[Resource, Scope], bool] = lambda _resource, _scope: True
    ) -> None:
        """``is_wanted``: whether the operator wants the steps of these objects, at the present moment."""
        self.limits = limits
        self.is_wanted = is_wanted
        self._slots = asyncio.Semaphore(limits.concurrency)
        self._at_once = limits.concurrency
        """The present bound."""
        self._too_many = 0
        """Slots beyond the present bound, which nobody gets any more."""
        self._answers = 0
        """Answers since the bound has changed."""
        self._quiet_until = 0.0
        self._now = asyncio.get_running_loop().time

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """A slot for a request, once the server is not busy."""
        await self._slots.acquire()
        while self._too_many:  # It was free when the bound fell.
            self._too_many -= 1
            await self._slots.acquire()
        try:
            # The answer to another request may meanwhile ask for a longer pause.
            while (rest := self._quiet_until - self._now()) > 0:  # noqa: ASYNC110  # Only time ends it.
                await asyncio.sleep(rest)
            yield
        finally:
            self._free()

    def answered(self) -> None:
        """The server was not too busy for a request."""
        self._answers += 1
        if self._at_once < self.limits.concurrency and self._answers >= self._at_once:
            self._at_once += 1
            self._answers = 0
            self._free()

    def pause(self, seconds: float) -> None:
        """The server is busy: no request begins before this time is over. Refusals within this time count as one."""
        if self._now() >= self._quiet_until:
            bound = max(1, self._at_once // 2)
            self._too_many += self._at_once - bound
            self._at_once = bound
            self._answers = 0
        self._quiet_until = max(self._quiet_until, self._now() + seconds)

    def _free(self) -> None:
        if self._too_many:
            self._too_many -= 1
        else:
            self._slots.release()
