"""The table of a profile."""

from __future__ import annotations

from dataclasses import dataclass

from bridge.app.profiling.threads import Thread, since
from bridge.app.stages import Stage

STAGES = tuple(stage for stage in Stage if stage is not Stage.NONE)
EVENT_LOOP = "rest: event loop"
OTHER_THREADS = "rest: other threads"
PROFILE = "this profile"


@dataclass(frozen=True, slots=True)
class Row:
    """A stage: its CPU nanoseconds, how often it was entered from another stage, and its number of records. Calls of
    the event loop are its turns."""

    name: str
    cpu: int
    calls: int = 0
    records: int = 0

    def __sub__(self, other: Row) -> Row:
        return Row(self.name, self.cpu - other.cpu, self.calls - other.calls, self.records - other.records)


@dataclass(frozen=True, slots=True)
class Profile:
    """Elapsed and CPU nanoseconds of the whole process. The rows add up to ``cpu``."""

    elapsed: int
    cpu: int
    rows: tuple[Row, ...]
    threads: tuple[Thread, ...] = ()

    @property
    def records(self) -> int:
        """Number of committed records."""
        return self[Stage.COMMIT.name.lower()].records

    def __sub__(self, earlier: Profile) -> Profile:
        rows = tuple(row - before for row, before in zip(self.rows, earlier.rows, strict=True))
        threads = since(self.threads, earlier.threads)
        return Profile(self.elapsed - earlier.elapsed, self.cpu - earlier.cpu, rows, threads)

    def __getitem__(self, name: str) -> Row:
        return next(row for row in self.rows if row.name == name)
