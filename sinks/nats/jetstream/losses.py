"""Whether a stream has lost messages that the sink had stored there. Pure.

A stream that was deleted is created again without a Gap. A Gap stands for records that a sink never gets; this sink got
them, and its consumers, whose own cursors were in the stream, know that they are gone. A snapshot would be more than
the operator who deleted the stream asked for. There are a warning and a metric, and ``kubedelta replay``.
"""

from __future__ import annotations

from datetime import datetime

import msgspec


class StreamLimits(msgspec.Struct, frozen=True, rename={"by_consumers": "retention"}):
    """The part of a stream's configuration by which it removes messages."""

    by_consumers: str = "limits"
    """``limits``; with ``workqueue`` and ``interest`` the stream removes what its consumers have read."""
    discard: str = "old"
    max_age: int = 0
    """Nanoseconds."""
    max_msgs: int = -1
    max_bytes: int = -1
    max_msgs_per_subject: int = -1

    @property
    def remove_none(self) -> bool:
        """No message leaves the stream unless somebody removes it."""
        by_size = self.discard == "old" and (self.max_msgs > 0 or self.max_bytes > 0)
        return not (self.by_consumers != "limits" or self.max_age > 0 or by_size or self.max_msgs_per_subject > 0)


class StreamContents(msgspec.Struct, frozen=True):
    messages: int
    bytes: int
    first_seq: int
    """The number of the first message; in an empty stream that of the next message, or 0 before the very first."""
    last_seq: int
    subjects: dict[str, int] | None = None
    """Messages of the subjects that the request asked for; None if there are none."""


class StreamDescription(msgspec.Struct, frozen=True):
    """The server's answer to STREAM.INFO, as far as the sink needs it."""

    created: datetime
    state: StreamContents
    config: StreamLimits
    ts: datetime | None = None
    """The server's time."""


class KnownStream(msgspec.Struct, frozen=True):
    """The stream as the sink has last seen it."""

    created: datetime
    first: int
    """The number of its first message."""
    last: int
    """The number of its newest message that the sink knows of; 0 before the first."""
    at: float
    """When the sink knew of that message, in seconds since 1970."""


def loss_of(known: KnownStream, found: StreamDescription, now: float) -> str:
    """How the stream has lost messages since it was ``known``; empty if it has not, or if its own limits may have
    removed them. ``now``: seconds since 1970."""
    state, limits = found.state, found.config
    if found.created != known.created:
        return "was deleted and created again" if known.last else ""
    if state.last_seq < known.last:
        return f"has lost its newest messages: its last was {known.last}, and is {state.last_seq}"
    if known.last and state.first_seq > known.last and not _limits_remove(known, found, now):
        return "was purged"
    if limits.remove_none and state.first_seq > max(1, known.first):
        return f"was purged up to its message {state.first_seq - 1}"
    return ""


def _limits_remove(known: KnownStream, found: StreamDescription, now: float) -> bool:
    """Whether the limits of the stream may have removed even the newest known message."""
    state, limits = found.state, found.config
    if limits.by_consumers != "limits":
        return True
    if limits.max_age > 0 and (found.ts.timestamp() if found.ts else now) - known.at >= limits.max_age / 1e9:
        return True
    if limits.max_msgs_per_subject > 0 and state.messages:
        return True
    # Such a limit removes the oldest messages of a full stream. Half full is far from it, whatever their sizes.
    full = state.messages >= limits.max_msgs > 0 or state.bytes >= limits.max_bytes / 2 > 0
    return limits.discard == "old" and full
