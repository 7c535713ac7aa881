"""An AdminOperations in memory: gives the answers that a test sets, and remembers the requests."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

import msgspec

from bridge.app.admin.commands import AdminOperations
from bridge.model.admin import (
    Cursors,
    CursorStatus,
    DeadLetter,
    DeadLetterChain,
    Followed,
    Reloaded,
    ReloadRequest,
    Replayed,
    ReplayRequest,
    SnapshotRequest,
    StateReport,
    UnknownTarget,
)
from bridge.model.status import BridgeStatus, SnapshotState, SnapshotStatus


def a_dead_letter(number: int, sink: str = "hook", **differing: object) -> DeadLetter:
    fields = {
        "number": number,
        "sink": sink,
        "sequence": 100 + number,
        "id": f"u-{number}/7/updated",
        "resource": "pods",
        "key": f"shop/web-{number}",
        "op": "updated",
        "time": "2026-11-21T08:30:00.000001Z",
        "reason": "413 Payload Too Large",
        "parked": False,
    }
    return DeadLetter(**(fields | differing))  # type: ignore[arg-type]


class FakeAdmin(AdminOperations):
    """Knows one sink, ``hook``, and the dead letters of it that were put in."""

    def __init__(self) -> None:
        self.found = Cursors(1, 40, [CursorStatus("hook", 40, 0, 0, 0.0, True)])
        self.replayed = Replayed(30, 11, 40)
        self.snapshot_status = SnapshotStatus(
            "hook",
            3,
            "snapshot/hook/40/3",
            SnapshotState.DELIVERING,
            20,
            7,
            "2026-11-21T08:30:00.000001Z",
            where="object.kind\n",
        )
        self.snapshot_ends: list[SnapshotState] = []
        """Its states at the next requests for its status."""
        self.stored: list[DeadLetter] = []
        self.chains: dict[int, DeadLetterChain] = {}
        """By the number of the first dead letter."""
        self.followers = 0
        """Dead letters that a retry takes along with those that it names."""
        self.bodies: dict[int, bytes] = {}
        self.report = StateReport("/state/outbox.db", "3.51.0", 1, "u-1", [], 40, 20, 2, 1, 0, 65536, 4096, 0)
        self.reloaded = Reloaded("/etc/kubedelta.yaml", ["sinks.audit: added"], deletes={"pods": 7})
        self.status_snapshot = BridgeStatus(informers=(), sinks=())
        self.followed: list[Followed] = []
        self.asked: list[tuple[object, ...]] = []
        self.changes = True
        """What it answers who steers a sink."""
        self.error: Exception | None = None
        """Raised by every method, if there is one."""

    async def cursors(self) -> Cursors:
        self._take("cursors")
        return self.found

    async def replay(self, request: ReplayRequest) -> Replayed:
        self._take("replay", request)
        self._expect(request.sink)
        return self.replayed

    async def snapshot(self, request: SnapshotRequest) -> SnapshotStatus:
        self._take("snapshot", request)
        self._expect(request.sink)
        return self.snapshot_status

    async def snapshots(self) -> Sequence[SnapshotStatus]:
        self._take("snapshots")
        if self.snapshot_ends:
            self.snapshot_status = msgspec.structs.replace(self.snapshot_status, state=self.snapshot_ends.pop(0))
        return [self.snapshot_status]

    async def cancel_snapshot(self, sink: str) -> SnapshotStatus:
        self._take("cancel_snapshot", sink)
        self._expect(sink)
        return msgspec.structs.replace(self.snapshot_status, state=SnapshotState.CANCELLED, left=4)

    async def dead_letters(self, sink: str | None = None, *, after: int = 0, limit: int = 1000) -> Sequence[DeadLetter]:
        self._take("dead_letters", sink, after, limit)
        if sink is not None:
            self._expect(sink)
        return [each for each in self.stored if each.number > after and sink in (None, each.sink)][:limit]

    async def dead_letter_chains(
        self, sink: str | None = None, *, after: int = 0, limit: int = 1000
    ) -> Sequence[DeadLetterChain]:
        """Each letter is a chain of its own, unless ``chains`` has others of it."""
        found = await self.dead_letters(sink, after=after, limit=limit)
        return [
            self.chains.get(each.number) or DeadLetterChain(each, 1 - each.parked, int(each.parked)) for each in found
        ]

    async def dead_letter_body(self, number: int) -> bytes:
        self._take("dead_letter_body", number)
        if number not in self.bodies:
            raise UnknownTarget(f"there is no dead letter {number}")
        return self.bodies[number]

    async def retry(self, sink: str, numbers: Sequence[int] | None = None) -> int:
        self._take("retry", sink, numbers)
        return self._count(sink, numbers and sorted(set(numbers))) + self.followers

    async def drop(self, sink: str, numbers: Sequence[int] | None = None) -> int:
        self._take("drop", sink, numbers)
        return self._count(sink, numbers)

    async def retry_sink(self, sink: str) -> bool:
        return self._steer("retry_sink", sink)

    async def pause_sink(self, sink: str) -> bool:
        return self._steer("pause_sink", sink)

    async def resume_sink(self, sink: str) -> bool:
        return self._steer("resume_sink", sink)

    async def state_check(self) -> StateReport:
        self._take("state_check")
        return self.report

    async def reload(self, request: ReloadRequest) -> Reloaded:
        self._take("reload", request)
        return self.reloaded

    async def status(self) -> BridgeStatus:
        self._take("status")
        return self.status_snapshot

    async def follow(self, sink: str | None = None) -> AsyncGenerator[Followed, None]:
        self._take("follow", sink)
        if sink is not None:
            self._expect(sink)
        yield Followed()
        for each in self.followed:
            yield each

    def _steer(self, action: str, sink: str) -> bool:
        self._take(action, sink)
        self._expect(sink)
        return self.changes

    def _take(self, *asked: object) -> None:
        self.asked.append(asked)
        if self.error is not None:
            raise self.error

    def _expect(self, sink: str) -> None:
        if sink != "hook":
            raise UnknownTarget(f"there is no sink {sink}; there is: hook")

    def _count(self, sink: str, numbers: Sequence[int] | None) -> int:
        self._expect(sink)
        return len(self.stored) if numbers is None else len(numbers)
