"""Records that ``kubedelta tail`` reads at a destination, with their objects."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any, Protocol

import msgspec

from bridge.model.change import Op


class FollowedRecord(msgspec.Struct, frozen=True, gc=False):
    """A record at the destination. Texts come as they are, and may have control characters."""

    text: bytes
    """The whole record as the destination has it; JSON, unless ``foreign``."""
    op: Op | None = None
    """None for a notice, and in a format that has no operations."""
    time: str = ""
    """RFC 3339; empty if the format has no time."""
    cluster: str = ""
    group: str = ""
    plural: str = ""
    """Empty if the format has only a kind."""
    kind: str = ""
    """Empty if the format has it in the object alone."""
    namespace: str = ""
    name: str = ""
    version: str = ""
    """resourceVersion."""
    evidence: str = ""
    object: bytes | None = None
    """The state after the change, JSON; of a deleted object the last known state. None if the format has none."""
    before: bytes | None = None
    """The state before the change, if the format has it."""
    notice: str = ""
    """A gap, the edge of a snapshot or the beginning of a term, in words."""
    is_gap: bool = False
    foreign: bool = False
    """A record of another program, or one that cannot be read."""

    @property
    def resource(self) -> str:
        """kubectl's name: ``deployments.apps``; with the kind where the plural is not known."""
        word = self.plural or self.kind
        return f"{word}.{self.group}" if self.group else word


class RecordFollower(Protocol):
    """Reads the records of a destination, and further records as they come. Blocks. Call ``open``, then ``last`` or
    ``begin``, then ``news`` as often as you like, and ``close`` once. Every method but ``close`` raises
    ``sinks.base.SinkUnavailable``."""

    def __init__(self, name: str, options: Any, *, cluster: str) -> None:
        """``options``: of the class that the sink's type names. Raises CannotReadBack."""

    def open(self) -> bool:
        """False if the destination does not exist yet: call it again."""
        ...

    def last(self, count: int, accepts: Callable[[FollowedRecord], bool]) -> Sequence[FollowedRecord]:
        """The last records that ``accepts`` takes, in their order, as far back as the destination can look.
        ``news`` goes on behind them."""
        ...

    def begin(self, since: datetime | None) -> None:
        """``news`` begins with the first record of that time or later; None for the oldest record. Raises
        CannotReadBack if the destination keeps no records."""
        ...

    def news(self) -> Iterator[FollowedRecord]:
        """From the end of the previous call to the present end. May wait a fraction of a second for a record."""
        ...

    def close(self) -> None: ...
