"""Encodes and checks the messages between a leader and its followers: msgpack over a WebSocket.

    follower                                     leader
    GET /replication (token, nonce)        →
                                           ←     Welcome: the proof that this is the leader
    FollowerHello: its point and format    →
                                           ←     BaseCopyBegins, NextPart …, where the leader's history lacks the point
    CommitAcknowledged: the copy's commit  →
                                           ←     Commit (and NextPart … for a large one), in order, without a hole
    CommitAcknowledged: the newest commit  →     … of several, whenever it has applied some
                                           ←     Named, once the Lease names this follower

A message has at most ``MOST`` bytes. Both sides check what they get: the other one may be of another version.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec
from aiohttp import ClientWebSocketResponse, WSMsgType
from aiohttp.web import WebSocketResponse

PATH = "/replication"
NONCE = "Kubedelta-Nonce"
PART = 1 << 20
"""Bytes of a part."""
MOST = PART + 1024
"""Bytes of a message."""
LONGEST_RUN = 64


class ProtocolBroken(Exception):
    """The other side sent what it must not."""


class Welcome(msgspec.Struct, frozen=True, tag="welcome"):
    """The leader of the bridge, and no other server: see ``identity``."""

    proof: str


class FollowerHello(msgspec.Struct, frozen=True, tag="hello"):
    """A follower: what it has, and for what."""

    run: str
    """Of its process."""
    name: str
    """Of the replica."""
    cluster: str
    shard: str
    format: int
    """Of its database; 0 without one."""
    newest_format: int
    """That it could take over with."""
    term: int = 0
    mark: int = 0
    commit: int = 0
    """Its point; 0 without a database."""


class FollowerRefused(msgspec.Struct, frozen=True, tag="refused"):
    """The leader cannot be followed by this replica, for good."""

    reason: str


class BaseCopyBegins(msgspec.Struct, frozen=True, tag="base copy"):
    """A whole database of so many bytes follows in parts."""

    size: int


class NextPart(msgspec.Struct, frozen=True, tag="part"):
    """The next bytes."""

    data: bytes


class Commit(msgspec.Struct, frozen=True, tag="commit"):
    """The next commit. ``data`` is the patchset, or empty: then its ``size`` bytes follow in parts."""

    commit: int
    size: int
    data: bytes = b""


class Named(msgspec.Struct, frozen=True, tag="named"):
    """The Lease names this follower, in this term."""

    term: int
    version: str
    """The resourceVersion of the Lease with that list."""


class CommitAcknowledged(msgspec.Struct, frozen=True, tag="acknowledged"):
    """The follower has everything up to this commit."""

    commit: int


Message: TypeAlias = (
    Welcome | FollowerHello | FollowerRefused | BaseCopyBegins | NextPart | Commit | Named | CommitAcknowledged
)

encode = msgspec.msgpack.Encoder().encode
_decode: Callable[[bytes], Message] = msgspec.msgpack.Decoder(Message).decode


def decode(message: bytes) -> Message:
    """Raises ProtocolBroken."""
    try:
        return _decode(message)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolBroken(f"the other side sent what is no message: {error}") from error


async def heard(socket: ClientWebSocketResponse | WebSocketResponse) -> Message | None:
    """The next message; None at the end. Raises ProtocolBroken, and ConnectionError for what ended the connection."""
    received = await socket.receive()
    if received.type is WSMsgType.BINARY:
        return decode(received.data)
    if received.type in (WSMsgType.CLOSE, WSMsgType.CLOSING, WSMsgType.CLOSED):
        return None
    if received.type is WSMsgType.ERROR and isinstance(received.data, Exception):
        raise ConnectionError(str(received.data)) from received.data
    raise ProtocolBroken("the other side sent no binary message")
