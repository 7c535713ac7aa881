"""``kubedelta snapshot``: begins a snapshot on demand, shows its progress, and cancels it."""

from __future__ import annotations

from pathlib import Path

from bridge.cli.admin import tables
from bridge.cli.admin.access import StateAccess
from bridge.cli.admin.commands import json_text, run, when
from bridge.cli.exits import Exit
from bridge.cli.terminal.output import say
from bridge.model.admin import SnapshotRequest, UnknownTarget
from bridge.model.primitives.printable import counted
from bridge.model.status import SnapshotStatus


def snapshot(
    path: Path,
    sink: str | None,
    *,
    resource: str | None,
    namespace: str | None,
    where: str | None,
    status: bool,
    cancel: bool,
    as_json: bool,
) -> int:
    """Without a sink, the status of all."""

    async def ask(access: StateAccess) -> Exit:
        if status:
            found = await _found(access, sink)
            say(json_text(found) if as_json else tables.of_snapshots(found))
            return Exit.OK
        name = sink or ""
        if cancel:
            done = await access.admin.cancel_snapshot(name)
            said = f"{done.id} is cancelled: {name} does not get {done.left} of its {counted(done.objects, 'object')}"
        else:
            done = await access.admin.snapshot(SnapshotRequest(name, resource, namespace, where))
            said = f"{name} gets {done.id} with {counted(done.objects, 'object')}{when(access)}"
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
