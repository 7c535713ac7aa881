"""The commands that operate on the state: ``cursors``, ``replay``, ``snapshot``, ``dead-letters``, ``sinks``, ``state
check`` and ``reload``. Each is a function that returns its exit code.

All but ``reload`` go through ``run``, which reaches the operations wherever they are, in the running bridge or in the
files of a stopped bridge, and words every failure. A snapshot is begun on demand, shown with its progress, and
cancelled. A reload needs the running bridge, because no other process can put a changed configuration into effect.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from bridge.cli import admin_tables
from bridge.cli.admin_access import StateAccess, admin_of, directory_of, elapsed, replayed, snapshot_delivered
from bridge.cli.exits import Exit
from bridge.cli.settings import OperatorSettings, operator_settings
from bridge.cli.terminal import complain, plain, pretty, say
from bridge.model.admin import (
    AdminOperations,
    DeadLetter,
    Reloaded,
    ReloadRequest,
    ReplayRequest,
    SnapshotRequest,
    UnknownTarget,
)
from bridge.model.diagnosis import Trouble, troubles_of
from bridge.model.primitives.printable import counted
from bridge.model.status import SnapshotState, SnapshotStatus
from bridge.operations.admin.client import AdminClient, CommandFailed, NoAnswer, NotRunning
from bridge.outbox import Damaged, StateError
from config.errors import ConfigError

# ── Cursors and replays ──────────────────────────────────────────────────────

Ask: TypeAlias = Callable[[StateAccess], Awaitable[Exit]]


def cursors(path: Path, *, as_json: bool) -> int:
    async def ask(access: StateAccess) -> Exit:
        found = await access.admin.cursors()
        say(json_text(found) if as_json else admin_tables.of_cursors(found))
        return Exit.OK

    return run(path, ask)


_NOT_RETAINED = (
    "; replay: off (state.retain): set state.retain.age (such as 7d) or state.retain.bytes to keep later records for"
    " replays"
)


def replay(
    path: Path, sink: str, start: int | str, *, resource: str | None, namespace: str | None, wait: bool, as_json: bool
) -> int:
    """With ``wait``, returns when a running bridge has delivered the records. 1: there is none to deliver."""
    request = ReplayRequest(sink, start, resource, namespace)

    async def ask(access: StateAccess) -> Exit:
        with elapsed("planning the replay", quiet=as_json):
            done = await access.admin.replay(request)
        if wait and access.running:
            await replayed(access.admin, sink, done.records, quiet=as_json)
        if as_json:
            say(json_text({**msgspec.to_builtins(done), "running": access.running}))
        elif done.records:
            again = f"{counted(done.records, 'record')} again, {done.first} to {done.last}"
            say(f"{sink} {'has got' if wait and access.running else 'will get'} {again}{when(access)}")
        else:
            why = "" if (await access.admin.cursors()).retains else _NOT_RETAINED
            complain(f"no records to replay: {sink} has settled no such record{why}")
        return Exit.OK if done.records else Exit.NO

    return run(path, ask)


# ── Snapshots ────────────────────────────────────────────────────────────────


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
            say(json_text(found) if as_json else admin_tables.of_snapshots(found))
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


# ── Dead letters ─────────────────────────────────────────────────────────────


def list_dead_letters(path: Path, sink: str | None, *, as_json: bool) -> int:
    """Prints page by page, since there may be more dead letters than fit in memory. For people a row for each chain,
    so that one rejected record is not hidden among those that wait behind it; as JSON every dead letter."""

    async def ask(access: StateAccess) -> Exit:
        after = total = 0
        if as_json:
            while page := await access.admin.dead_letters(sink, after=after):
                say("\n".join(map(json_text, page)))
                after = page[-1].number
            return Exit.OK
        while chains := await access.admin.dead_letter_chains(sink, after=after):
            say(admin_tables.of_dead_letters(chains))
            after = chains[-1].first.number
            total += sum(each.rejected + each.parked for each in chains)
        say(counted(total, "dead letter"))
        return Exit.OK

    return run(path, ask)


def show_dead_letter(path: Path, number: int, *, as_json: bool) -> int:
    async def ask(access: StateAccess) -> Exit:
        dead_letter = await _dead_letter(access.admin, number)
        body = await access.admin.dead_letter_body(number)
        if as_json:
            say(json_text({"dead_letter": dead_letter, "object": msgspec.Raw(body)}))
        else:
            say(admin_tables.of_dead_letter(dead_letter))
            say(pretty(body.decode()))
        return Exit.OK

    return run(path, ask)


async def _dead_letter(admin: AdminOperations, number: int) -> DeadLetter:
    # The list goes on with the next number if this one is gone.
    for dead_letter in await admin.dead_letters(after=number - 1, limit=1):
        if dead_letter.number == number:
            return dead_letter
    raise UnknownTarget(f"there is no dead letter {number}; see kubedelta dead-letters list")


def retry(path: Path, sink: str, numbers: list[int] | None, *, as_json: bool) -> int:
    async def ask(access: StateAccess) -> Exit:
        count = await access.admin.retry(sink, numbers)
        named = count if numbers is None else len(set(numbers))
        more = (
            f", and {count - named} more of the same {'object' if named == 1 else 'objects'}" if count > named else ""
        )
        said = f"{counted(named, 'dead letter')} of {sink} will be delivered again{more}{when(access)}"
        return _say_result("retried", count, said, access, as_json=as_json)

    return run(path, ask)


def drop(path: Path, sink: str, numbers: list[int] | None, *, as_json: bool) -> int:
    async def ask(access: StateAccess) -> Exit:
        count = await access.admin.drop(sink, numbers)
        return _say_result(
            "dropped", count, f"{counted(count, 'dead letter')} of {sink} dropped", access, as_json=as_json
        )

    return run(path, ask)


# ── Sinks and the state ──────────────────────────────────────────────────────


def retry_sink(path: Path, sink: str, *, as_json: bool) -> int:
    async def ask(access: StateAccess) -> Exit:
        changed = await access.admin.retry_sink(sink)
        said = f"{sink} is tried now" if changed else f"{sink} was not waiting: an attempt is under way, or none is due"
        if not access.running:
            said = f"no bridge runs: the next one tries {sink} as soon as it starts"
        return _say_result("changed", changed, said, access, as_json=as_json)

    return run(path, ask)


def pause_sink(path: Path, sink: str, *, as_json: bool) -> int:
    async def ask(access: StateAccess) -> Exit:
        changed = await access.admin.pause_sink(sink)
        until = "until kubedelta sinks resume; max_backlog still holds"
        said = f"{sink} is paused {until}" if changed else f"{sink} was already paused"
        return _say_result("changed", changed, said, access, as_json=as_json)

    return run(path, ask)


def resume_sink(path: Path, sink: str, *, as_json: bool) -> int:
    async def ask(access: StateAccess) -> Exit:
        changed = await access.admin.resume_sink(sink)
        said = f"{sink} is resumed{when(access)}" if changed else f"{sink} was not paused"
        return _say_result("changed", changed, said, access, as_json=as_json)

    return run(path, ask)


def state_check(path: Path, *, as_json: bool) -> int:
    async def ask(access: StateAccess) -> Exit:
        with elapsed("checking the state", quiet=as_json):
            report = await access.admin.state_check()
        say(json_text(report) if as_json else admin_tables.of_state(report))
        return Exit.NO if report.problems else Exit.OK

    return run(path, ask)


# ── What these commands share ────────────────────────────────────────────────


def run(path: Path, ask: Ask) -> int:
    try:
        return asyncio.run(_asked(operator_settings(path), ask))
    except ConfigError as error:
        return _refuse(error, Exit.CONFIG)


async def _asked(found: OperatorSettings, ask: Ask) -> int:
    """Raises ConfigError."""
    try:
        async with admin_of(found) as access:
            return await ask(access)
    except UnknownTarget as error:
        return _refuse(plain(str(error)), Exit.NO)
    except (NoAnswer, NotRunning) as error:
        return _refuse(error, Exit.UNAVAILABLE)
    except CommandFailed as error:
        return _refuse(f"the running bridge failed: {plain(str(error))}", Exit.SOFTWARE)
    except StateError as error:
        return _refuse(error, Exit.CONFIG)
    except Damaged as error:
        return _refuse(f"the state is damaged; the next start moves it aside: {error}", Exit.NO)


def _refuse(why: object, code: Exit) -> int:
    complain(why)
    return code


def _say_result(name: str, value: int | bool, said: str, access: StateAccess, *, as_json: bool) -> Exit:
    """Prints the result of a change: ``said``, or as JSON the value under its name, and whether a bridge runs."""
    say(json_text({name: value, "running": access.running}) if as_json else said)
    return Exit.OK


def when(access: StateAccess) -> str:
    return "" if access.running else ", at the next start: the bridge does not run now"


def json_text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


# ── Reload ───────────────────────────────────────────────────────────────────

_SETTLES_WITHIN = 10.0
"""Seconds for the first answers to new informers and new sinks. A long list takes longer, and is no failure."""
_LOOK_EVERY = 0.25


def reload(path: Path, *, allow_deletes: int, as_json: bool) -> int:
    """Finds the bridge by the file's ``state.directory``; the file itself is for the bridge to judge. 1: the bridge
    refuses the change, or a part of the change fails."""
    try:
        done, since = asyncio.run(_ask(operator_settings(path), ReloadRequest(allow_deletes)))
    except ConfigError as error:
        complain(error)
        return Exit.CONFIG
    except (NoAnswer, NotRunning) as error:
        complain(error)
        return Exit.UNAVAILABLE
    except UnknownTarget as error:
        complain(plain(str(error)))
        return Exit.NO
    except CommandFailed as error:
        complain(f"the running bridge failed: {plain(str(error))}")
        return Exit.SOFTWARE
    if as_json:
        say(msgspec.json.encode({**msgspec.to_builtins(done), "troubles": since}).decode())
    elif done.problems:
        complain("\n".join(["refused; the former configuration stays in effect:", *map(plain, done.problems)]))
    else:
        say("\n".join(map(plain, _lines(done))))
        for each in since:
            complain(f"{'under way' if each.under_way else 'fails since'}: {plain(each.line)}")
    return Exit.NO if done.problems or not all(each.under_way for each in since) else Exit.OK


async def _ask(found: OperatorSettings, request: ReloadRequest) -> tuple[Reloaded, Sequence[Trouble]]:
    """The answer, and the troubles that begin with the change, or belong to a part of it."""
    async with AdminClient(await directory_of(found)) as running:
        before = {each.subject for each in troubles_of(await running.status())}
        done = await running.reload(request)
        if done.problems or not done.changes:
            return done, ()
        until = asyncio.get_running_loop().time() + _SETTLES_WITHIN
        while True:
            # Readiness is steady over a change, which would hide new resources for the first seconds.
            status = msgspec.structs.replace(await running.status(), changing=False)
            since = [
                each
                for each in troubles_of(status)
                if each.subject not in before or any(_concerns(change, each.subject) for change in done.changes)
            ]
            unanswered = any(
                each.backlog_records and not each.delivered and not each.fails
                for each in status.sinks
                if any(_concerns(change, f"sinks.{each.name}") for change in done.changes)
            )
            settled = not unanswered and not any(each.under_way for each in since)
            if settled or asyncio.get_running_loop().time() >= until:
                return done, since
            await asyncio.sleep(_LOOK_EVERY)


def _concerns(change: str, subject: str) -> bool:
    """``sinks.audit: added``, or ``resources: changed: pods, secrets``."""
    section, _, name = subject.partition(".")
    words = change.replace(",", ":").split(": ")
    return words[0] == subject or (words[0] == section == "resources" and name in words)


def _lines(done: Reloaded) -> list[str]:
    deletes = [f"{what}: {counted(count, 'object')} exported as deleted" for what, count in done.deletes.items()]
    return [*done.changes, *deletes, f"{done.configuration} is in effect" + ("" if done.changes else ", as before")]
