"""``kubedelta snapshot``: begins a snapshot on demand, shows its progress, and cancels it."""

from __future__ import annotations

from pathlib import Path

from bridge.cli.admin import tables
from bridge.cli.admin.access import StateAccess
from bridge.cli.admin.commands import json_text, run, when
from bridge.cli.admin.waiting import elapsed, snapshot_delivered
from bridge.cli.exits import Exit
from bridge.cli.terminal.output import complain, say
from bridge.model.admin import SnapshotRequest, UnknownTarget
from bridge.model.primitives.printable import counted
from bridge.model.status import SnapshotState, SnapshotStatus


def snapshot(
    path: Path,
    sink: str | None,
    *,
    resource: str | None,
    namespace: str | None,
    where: str | None,
    status: bool,
    cancel: bool,
    wait: bool,
    as_json: bool,
) -> int:
    """Without a sink, the status of all. With ``wait``, returns when a running bridge has delivered the snapshot; 1 if
    that was cancelled."""

    async def ask(access: StateAccess) -> Exit:
        if status:
            found = await _found(access, sink)
            say(json_text(found) if as_json else tables.of_snapshots(found))
            return Exit.OK
        name = sink or ""
        if cancel:
            done = await access.admin.cancel_snapshot(name)
            taken = f"{name} has taken {done.objects - done.left} of its {counted(done.objects, 'object')}"
            said = f"{done.id} is cancelled: {taken}, which it still gets, and does not get the other {done.left}"
        else:
            with elapsed("planning the snapshot", quiet=as_json):
                done = await access.admin.snapshot(SnapshotRequest(name, resource, namespace, where))
            said = f"{name} gets {done.id} with {counted(done.objects, 'object')}{when(access)}"
            if wait and access.running:
                done = await snapshot_delivered(access.admin, done, quiet=as_json)
                said = f"{name} has got {done.id} with {counted(done.objects, 'object')}"
                if done.state is SnapshotState.CANCELLED:
                    complain(f"{done.id} was cancelled: {done.left} of {counted(done.objects, 'object')} are missing")
                    return Exit.NO
        say(json_text(done) if as_json else said)
        return Exit.OK

    return run(path, ask)


async def _found(access: StateAccess, sink: str | None) -> list[SnapshotStatus]:
    found = await access.admin.snapshots()
    if sink is None:
        return list(found)
    if not (of_sink := [each for each in found if each.sink == sink]):
        raise UnknownTarget(f"sink {sink} has had no snapshot on demand")
    return of_sink
