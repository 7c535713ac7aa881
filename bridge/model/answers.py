"""Answers of the API server to a list or a watch: a type for each reaction of the Reflector.

``kube`` makes them from HTTP. Texts for an operator are shortened, and are free of object bodies and credentials.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from enum import StrEnum
from typing import Protocol, TypeAlias

import msgspec

from bridge.model.object import ApiObject


class Match(StrEnum):
    """The API's resourceVersionMatch."""

    NOT_OLDER_THAN = "NotOlderThan"
    EXACT = "Exact"


class ListRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A page of a list. With ``next_page`` no version is sent: the token contains it."""

    version: str
    """"" for the newest (a consistent read), "0" for any version in the cache, else not older than this."""
    limit: int
    """Objects in the page; 0 for all."""
    next_page: str | None = None
    match: Match = Match.NOT_OLDER_THAN
    """With ``EXACT`` the state at ``version``. Servers without it answer with a newer state."""
    only: str | None = None
    """The key of the only object to list; None for all objects."""
    shard_selector: str = ""
    """The API's shardSelector (KEP-5866); empty for none. A server without that feature ignores it."""


class WatchRequest(msgspec.Struct, frozen=True, kw_only=True):
    version: str
    """Changes after this version; "" or "0" only together with ``initial_events``."""
    timeout: int
    """Seconds until the server ends the watch by itself."""
    initial_events: bool = False
    """WatchList (KEP-3157): first all objects as ADDED, then a bookmark that marks their end, then changes."""
    shard_selector: str = ""
    """See ListRequest. The answer to a watch does not say whether the server selects."""


class EventType(StrEnum):
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


# ── Answers with objects ─────────────────────────────────────────────────────


class Page(msgspec.Struct, frozen=True):
    """A page of a list, or the last part of it."""

    objects: list[ApiObject]
    version: str
    """The resourceVersion of the list."""
    next_page: str | None
    unreadable: tuple[str, ...] = ()
    """A short reason for each item without identity (no metadata, no name, no uid)."""
    size: int = 0
    """Bytes of the whole page, its earlier Parts included."""
    shard_selector: str = ""
    """The shard selector by which the server has selected; empty if it has not."""


class Part(msgspec.Struct, frozen=True):
    """Objects of a page that is still being received. The other objects follow as further Parts, and as the Page."""

    objects: list[ApiObject]
    version: str
    """The resourceVersion of the list."""


class Opened(msgspec.Struct, frozen=True):
    """The server accepted the watch."""


class Announced(msgspec.Struct, frozen=True):
    """Changes, in the order of the server. Never empty."""

    events: list[tuple[EventType, ApiObject]]


class Bookmark(msgspec.Struct, frozen=True):
    """The server has sent every change up to ``version``."""

    version: str
    initial_events_end: bool = False


class Unreadable(msgspec.Struct, frozen=True):
    """A line of a watch that could not be read. The stream goes on behind it."""

    reason: str


# ── Answers that end a request ───────────────────────────────────────────────


class HungUp(msgspec.Struct, frozen=True):
    """The stream ended without an error: the server's timeout, its shutdown, a proxy, a cut line."""

    reason: str
    torn: bool = False
    """Whether the end was irregular: the connection broke, or the last line is incomplete."""


class Silent(msgspec.Struct, frozen=True):
    """The idle timeout passed without a byte, and so without the bookmark that comes every minute."""

    seconds: float


class Expired(msgspec.Struct, frozen=True):
    """410: the version or the continue token is older than what the server keeps."""

    reason: str


# kube-apiserver waits three seconds for the version, and answers 504 with a cause. Behind a load balancer another
# server may be at that version already; after a restore of etcd none will be.
class TooLarge(msgspec.Struct, frozen=True):
    """The server has not reached the requested version, and perhaps never will."""

    reason: str


class Oversized(msgspec.Struct, frozen=True):
    """The page exceeds the bound on bytes, and cannot be cut: its version is at its end. A smaller page may fit."""

    reason: str


class Busy(msgspec.Struct, frozen=True):
    """429, or no listener: the same request may succeed later."""

    reason: str
    after: float | None = None
    """Seconds (Retry-After), if the server sent them."""


class Refused(msgspec.Struct, frozen=True):
    """401, 403, 404, 405: the operator must act. The request is repeated slowly."""

    status: int
    reason: str


class Unsupported(msgspec.Struct, frozen=True):
    """400 or 422 to a WatchList: this server wants a list."""

    reason: str


class Failed(msgspec.Struct, frozen=True):
    """Any other failure: 5xx, a broken connection, an answer of a wrong form (HTML, a Table, bad JSON)."""

    reason: str


class Conflict(msgspec.Struct, frozen=True):
    """409 to a write: the object has another version than the write is for, or exists already."""

    reason: str


ErrorAnswer: TypeAlias = Expired | TooLarge | Oversized | Busy | Refused | Unsupported | Failed
ListAnswer: TypeAlias = Page | ErrorAnswer
WatchAnswer: TypeAlias = Opened | Announced | Bookmark | Unreadable | HungUp | Silent | ErrorAnswer


TakePart: TypeAlias = Callable[[Part], Awaitable[object]]


class ListerWatcher(Protocol):
    """Lists and watches a resource in a scope (client-go's ListerWatcher). Failures of a server or a network are
    answers: neither method raises for them."""

    async def list(self, request: ListRequest, take: TakePart | None = None) -> ListAnswer:
        """Calls ``take`` with each Part of the page as it arrives. While ``take`` runs, the response is not read."""
        ...

    def watch(self, request: WatchRequest) -> AbstractAsyncContextManager[AsyncIterator[WatchAnswer]]:
        """Yields Opened, then changes and bookmarks, and last HungUp, Silent or a failure; or a failure alone.
        Leaving the context closes the connection."""
        ...
