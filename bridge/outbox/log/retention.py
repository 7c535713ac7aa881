"""The records and the space that are kept beyond need, and the start of the log that follows (pure)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bridge.outbox.log.sparse_index import SparseIndex


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Records and space that are kept beyond need. 0 turns a retention off."""

    retain_age: float = 0.0
    """Seconds that a settled record stays in the log, for replays."""
    retain_bytes: int = 0
    """Bytes of settled records that stay in the log, for replays."""
    forget_after: float = 7 * 86_400.0
    """Seconds until a sink that is not configured loses its cursor."""
    min_free: int = 0
    """Bytes on the disk that appends leave free."""
    before: bool = False
    """True if some sink delivers the state of an object before each change."""
    managers: bool = False
    """True if some sink delivers the field managers of each change."""

    @property
    def retains(self) -> bool:
        """Whether settled records stay in the log."""
        return bool(self.retain_age or self.retain_bytes)


def trim_through(
    cursors: Iterable[int], retain_age: float, retain_bytes: int, sparse_index: SparseIndex, now: float, last: int
) -> int:
    """The log can be trimmed up to this sequence number: every cursor has passed it, and the records are older than
    ``retain_age`` seconds, or ``retain_bytes`` bytes follow them. 0 turns a bound off; without any bound, no settled
    record is retained."""
    settled = min(cursors, default=last)
    retained = []
    if retain_age:
        retained.append(sparse_index.sequence_of_age(retain_age, now))
    if retain_bytes:
        retained.append(sparse_index.sequence_of_bytes(retain_bytes))
    return min(settled, last, max(retained, default=last))
