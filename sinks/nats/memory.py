"""The state of a NATS sink that survives a restart (``Receipt.memory``), and its form in bytes."""

from __future__ import annotations

from datetime import datetime

import msgspec

from sinks.nats.stream import KnownStream


class KnownBucket(msgspec.Struct, frozen=True):
    """The bucket of the option ``state``."""

    name: str
    created: datetime
    """When, by its server's clock: a bucket that is created again has another time."""
    subject: str = ""
    """Of an object whose state the bucket has, unless somebody purged it; empty while no such object is known."""


class NatsMemory(msgspec.Struct, omit_defaults=True):
    gap: str = ""
    """The id of the newest gap; empty before the first."""
    stream: KnownStream | None = None
    """The stream as it was last seen; None before the first time, and with ``mode: core``."""
    bucket: KnownBucket | None = None
    """The bucket as it was last seen; None without one."""

    @classmethod
    def read(cls, saved: bytes) -> NatsMemory | None:
        """None if the bytes cannot be read."""
        try:
            return msgspec.json.decode(saved, type=cls) if saved else cls()
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None

    def written(self) -> bytes:
        """Empty without any state."""
        return b"" if self == NatsMemory() else msgspec.json.encode(self)
