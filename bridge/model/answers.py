"""What the API server may answer to a list or a watch, sorted by what there is to do about it.

``kube`` makes these from HTTP; the Reflector decides on them. Every word of an answer that reaches an operator has
been shortened, and none carries an object's body or a credential.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeAlias

from bridge.model.object import ApiObject


class Match(StrEnum):
    """The API's resourceVersionMatch."""

    NOT_OLDER_THAN = "NotOlderThan"
    EXACT = "Exact"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListRequest:
    """One page of a list. With ``next_page`` the versions are not sent: the token carries them."""

    version: str
    """"" for the newest (a consistent read), "0" for whatever the cache has, else not older than this."""
    limit: int
    """Objects a page; 0 for all at once."""
    next_page: str | None = None
    match: Match = Match.NOT_OLDER_THAN
    """With ``EXACT`` the state at ``version``, not a newer one. Servers that do not know it answer with a newer one."""
    only: str | None = None
    """The key of the one object that is meant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchRequest:
    version: str
    """Changes after this version; "" or "0" only together with ``initial_events``."""
    timeout: int
    """Seconds until the server ends the watch by itself."""
    initial_events: bool = False
    """WatchList (KEP-3157): first all objects as ADDED, then a bookmark that says so, then changes."""


class EventType(StrEnum):
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


# ── Answers that carry what was asked for ────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Page:
    objects: list[ApiObject]
    version: str
    """The resourceVersion of the list."""
    next_page: str | None
    unreadable: tuple[str, ...] = ()
    """One short reason for each item that could not be told apart (no metadata, no name, no uid)."""
    size: int = 0
    """Bytes of the whole page, parts that were told before included."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a page that is still on its way. The rest follows as further parts, and as the Page."""

    objects: list[ApiObject]
    version: str
    """The resourceVersion of the list."""


@dataclass(frozen=True, slots=True)
class Opened:
    """The server accepted the watch."""


@dataclass(frozen=True, slots=True)
class Announced:
    """Changes, in the order in which the server told them. Never empty."""

    events: list[tuple[EventType, ApiObject]]


@dataclass(frozen=True, slots=True)
class Bookmark:
    """Everything up to ``version`` has been told."""

    version: str
    initial_events_end: bool = False


@dataclass(frozen=True, slots=True)
class Unreadable:
    """One line of a watch could not be read; the stream goes on behind it."""

    reason: str


# ── Answers that end a request ───────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class HungUp:
    """The stream ended without an error: the server's timeout, its shutdown, a proxy, a cut line."""

    reason: str
    torn: bool = False
    """The server did not end it in due form: the connection broke, or the last line is not whole."""


@dataclass(frozen=True, slots=True)
class Silent:
    """Nothing came, not even a bookmark, for longer than bookmarks allow."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Expired:
    """410: the version or the continue token is older than what the server keeps."""

    reason: str


@dataclass(frozen=True, slots=True)
class TooLarge:
    """The server has not (or never) reached the version that was asked for."""

    reason: str


@dataclass(frozen=True, slots=True)
class Oversized:
    """A page has more bytes than can be held, and must be: its version stands at its end. A smaller one will do."""

    reason: str


@dataclass(frozen=True, slots=True)
class Busy:
    """429, or nobody listens: try the same again, later."""

    reason: str
    after: float | None = None
    """Seconds, where the server said how long."""


@dataclass(frozen=True, slots=True)
class Refused:
    """401, 403, 404, 405: the operator must change something. Asked again slowly."""

    status: int
    reason: str


@dataclass(frozen=True, slots=True)
class Unsupported:
    """400 or 422 to a WatchList: this server wants a list."""

    reason: str


@dataclass(frozen=True, slots=True)
class Failed:
    """Anything else: 5xx, a broken connection, an answer that is not the API's (HTML, a Table, bad JSON)."""

    reason: str


Trouble: TypeAlias = Expired | TooLarge | Oversized | Busy | Refused | Unsupported | Failed
ListAnswer: TypeAlias = Page | Trouble
WatchAnswer: TypeAlias = Opened | Announced | Bookmark | Unreadable | HungUp | Silent | Trouble


TakePart: TypeAlias = Callable[[Part], Awaitable[object]]


class ListerWatcher(Protocol):
    """Lists and watches one resource in one scope. Neither method raises for what a server or a network can do."""

    async def list(self, request: ListRequest, take: TakePart | None = None) -> ListAnswer:
        """``take`` is given what has come of a page before the page is over; the server waits while it does."""
        ...

    def watch(self, request: WatchRequest) -> AbstractAsyncContextManager[AsyncIterator[WatchAnswer]]:
        """Opened first, or a Trouble alone; then what comes; last exactly one of HungUp, Silent or a Trouble.
        Leaving the context closes the connection."""
        ...
