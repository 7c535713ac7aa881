"""What a replica that follows answers to its operator: who leads, and whether it is in sync."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any, NoReturn

from bridge.model.admin import AdminOperations, Followed, UnknownTarget
from bridge.model.primitives.election import replica_of
from bridge.model.status import StatusSnapshot


class FollowerOperations(AdminOperations):
    """The state here is the leader's, and only the leader changes it: every command but ``status`` says who that is."""

    def __init__(self, snapshot: Callable[[], StatusSnapshot]) -> None:
        self._snapshot = snapshot

    async def status(self) -> StatusSnapshot:
        return self._snapshot()

    async def follow(self, sink: str | None = None) -> AsyncGenerator[Followed, None]:
        self._refuse()
        yield

    def _refuse(self) -> NoReturn:
        election = self._snapshot().election
        holder = "" if election is None else election.holder
        leader = f"the leader, {replica_of(holder)}" if holder else "the leader, once there is one"
        raise UnknownTarget(f"this replica follows, with a copy of the leader's state: ask {leader}")

    async def _refused(self, *_: Any, **__: Any) -> NoReturn:
        self._refuse()

    cursors = replay = snapshot = snapshots = cancel_snapshot = _refused
    dead_letters = dead_letter_chains = dead_letter_body = retry = drop = _refused
    retry_sink = pause_sink = resume_sink = reload = state_check = _refused
