"""The commands that operate on the state: ``cursors``, ``replay``, ``snapshot``, ``dead-letters``, ``sinks``, ``state
check`` and ``reload``. Each is a function that returns its exit code, with its table for people behind it.

Those decorated with ``_on_state`` reach the operations wherever they are, in the running bridge or in the files of a
stopped bridge. A snapshot is begun on demand, shown with its progress, and cancelled. A reload needs the running
bridge, because no other process can put a changed configuration into effect.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec

import msgspec

from bridge.app.admin.client import AdminClient
from bridge.cli.admin_access import StateAccess, admin_of, directory_of, elapsed, replayed, snapshot_delivered
from bridge.cli.exits import Exit
from bridge.cli.settings import OperatorSettings, operator_settings
from bridge.cli.terminal import age, complain, pairs, plain, pretty, say, shortened, size, table
from bridge.model.admin import (
    Cursors,
    CursorStatus,
    DeadLetter,
    DeadLetterChain,
    Reloaded,
    ReloadRequest,
    ReplayRequest,
    SnapshotRequest,
    StateReport,
    UnknownTarget,
)
from bridge.model.diagnosis import Trouble, troubles_of
from bridge.model.primitives.printable import counted
from bridge.model.status import SnapshotState, SnapshotStatus
from sinks import registry

# ── Access to the state ──────────────────────────────────────────────────────

_Asked = ParamSpec("_Asked")


def _on_state(ask: Callable[Concatenate[StateAccess, _Asked], Awaitable[Exit]]) -> Callable[..., int]:
    """Makes a command line's function of ``ask``, which takes the configuration's path in place of the access."""

    @wraps(ask)
    def command(path: Path, *values: _Asked.args, **named: _Asked.kwargs) -> int:
        async def asked() -> int:
            async with admin_of(operator_settings(path)) as access:
                return await ask(access, *values, **named)

        return asyncio.run(asked())

    return command


def _say(access: StateAccess, said: str, *, as_json: bool, **result: object) -> Exit:
    """Prints the result of a change: ``said``, or as JSON the result, and whether a bridge runs."""
    say(_json({**result, "running": access.running}) if as_json else said)
    return Exit.OK


def _when(access: StateAccess) -> str:
    return "" if access.running else ", at the next start: the bridge does not run now"


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


# ── Cursors and replays ──────────────────────────────────────────────────────


@_on_state
async def cursors(access: StateAccess, *, as_json: bool) -> Exit:
    found = await access.admin.cursors()
    say(_json(found) if as_json else _cursor_table(found))
    return Exit.OK


_LONGEST_REASON = 80
"""Characters in a table."""


def _cursor_table(found: Cursors) -> str:
    header = ("SINK", "SETTLED", "BACKLOG", "BYTES", "OLDEST", "")
    replayable = f"{found.first} to {found.last}" if found.first <= found.last else "no records"
    # Without it, the log has the backlogs alone.
    replay = f"{replayable} can be replayed" if found.retains else "replay: off (state.retain)"
    return f"{table(header, [_cursor(each) for each in found.sinks])}\n{replay}"


def _cursor(cursor: CursorStatus) -> list[str]:
    notes = []
    if cursor.gone:
        reason = shortened(cursor.last_error, _LONGEST_REASON) or "the destination wants no more records (HTTP 410)"
        notes.append(f"gone, until kubedelta sinks resume: {reason}")
    elif cursor.fenced:
        reason = shortened(cursor.last_error, _LONGEST_REASON) or "another bridge has taken the destination over"
        notes.append(f"fenced, until kubedelta sinks resume: {reason}")
    elif cursor.paused:
        notes.append("paused")
    elif cursor.retry_in is not None:
        asked = f" (the destination asked for {age(cursor.asked)})" if cursor.asked else ""
        notes.append(f"next attempt in {age(cursor.retry_in)}{asked}: {shortened(cursor.last_error, _LONGEST_REASON)}")
    elif cursor.last_error:
        notes.append(f"failing: {shortened(cursor.last_error, _LONGEST_REASON)}")
    if cursor.backfill:
        notes.append(f"{cursor.backfill}: {cursor.backfill_left} left")
    if not cursor.configured:
        notes.append("not in the configuration")
    oldest = age(cursor.oldest_seconds) if cursor.backlog_records else "-"
    return [
        cursor.sink,
        str(cursor.settled),
        str(cursor.backlog_records),
        size(cursor.backlog_bytes),
        oldest,
        "; ".join(notes),
    ]


_NOT_RETAINED = (
    "; replay: off (state.retain): set state.retain.age (such as 7d) or state.retain.bytes to keep later records for"
    " replays"
)


@_on_state
async def replay(
    access: StateAccess,
    sink: str,
    start: int | str,
    *,
    resource: str | None,
    namespace: str | None,
    wait: bool,
    as_json: bool,
) -> Exit:
    """With ``wait``, returns when a running bridge has delivered the records. 1: there is none to deliver."""
    with elapsed("planning the replay", quiet=as_json):
        done = await access.admin.replay(ReplayRequest(sink, start, resource, namespace))
    if wait and access.running:
        await replayed(access.admin, sink, done.records, quiet=as_json)
    if as_json:
        say(_json({**msgspec.to_builtins(done), "running": access.running}))
    elif done.records:
        again = f"{counted(done.records, 'record')} again, {done.first} to {done.last}"
        say(f"{sink} {'has got' if wait and access.running else 'will get'} {again}{_when(access)}")
    else:
        why = "" if (await access.admin.cursors()).retains else _NOT_RETAINED
        complain(f"no records to replay: {sink} has settled no such record{why}")
    return Exit.OK if done.records else Exit.NO


# ── Snapshots ────────────────────────────────────────────────────────────────


@_on_state
async def snapshot(
    access: StateAccess,
    sink: str | None,
    *,
    resource: str | None,
    namespace: str | None,
    where: str | None,
    status: bool,
    cancel: bool,
    wait: bool,
    as_json: bool,
) -> Exit:
    """Without a sink, the status of all. With ``wait``, returns when a running bridge has delivered the snapshot; 1 if
    that was cancelled."""
    if status:
        found = await _snapshots(access, sink)
        say(_json(found) if as_json else _snapshot_table(found))
        return Exit.OK
    name = sink or ""
    if cancel:
        done = await access.admin.cancel_snapshot(name)
        taken = f"{name} has taken {done.objects - done.left} of its {counted(done.objects, 'object')}"
        said = f"{done.id} is cancelled: {taken}, which it still gets, and does not get the other {done.left}"
    else:
        with elapsed("planning the snapshot", quiet=as_json):
            done = await access.admin.snapshot(SnapshotRequest(name, resource, namespace, where))
        said = f"{name} gets {done.id} with {counted(done.objects, 'object')}{_when(access)}"
        if wait and access.running:
            done = await snapshot_delivered(access.admin, done, quiet=as_json)
            said = f"{name} has got {done.id} with {counted(done.objects, 'object')}"
            if done.state is SnapshotState.CANCELLED:
                complain(f"{done.id} was cancelled: {done.left} of {counted(done.objects, 'object')} are missing")
                return Exit.NO
    say(_json(done) if as_json else said)
    return Exit.OK


async def _snapshots(access: StateAccess, sink: str | None) -> list[SnapshotStatus]:
    found = [each for each in await access.admin.snapshots() if sink in (None, each.sink)]
    if sink is not None and not found:
        raise UnknownTarget(f"sink {sink} has had no snapshot on demand")
    return found


def _snapshot_table(snapshots: Sequence[SnapshotStatus]) -> str:
    header = ("SINK", "SNAPSHOT", "STATE", "OBJECTS", "LEFT", "BEGAN", "ENDED", "")
    return table(header, [_snapshot(each) for each in snapshots])


def _snapshot(snapshot: SnapshotStatus) -> list[str]:
    narrowed = {"--resource": snapshot.resource, "--namespace": snapshot.namespace, "--where": snapshot.where}
    return [
        snapshot.sink,
        str(snapshot.number),
        snapshot.state,
        str(snapshot.objects),
        str(snapshot.left),
        f"{snapshot.began[:19]}Z",
        f"{snapshot.ended[:19]}Z" if snapshot.ended else "-",
        " ".join(f"{option} {value}" for option, value in narrowed.items() if value is not None),
    ]


# ── Dead letters ─────────────────────────────────────────────────────────────


@_on_state
async def list_dead_letters(access: StateAccess, sink: str | None, *, as_json: bool) -> Exit:
    """Prints page by page, since there may be more dead letters than fit in memory. For people a row for each chain,
    so that one rejected record is not hidden among those that wait behind it; as JSON every dead letter."""
    after = total = 0
    if as_json:
        while page := await access.admin.dead_letters(sink, after=after):
            say("\n".join(map(_json, page)))
            after = page[-1].number
        return Exit.OK
    while chains := await access.admin.dead_letter_chains(sink, after=after):
        say(_chain_table(chains))
        after = chains[-1].first.number
        total += sum(each.rejected + each.parked for each in chains)
    say(counted(total, "dead letter"))
    return Exit.OK


def _chain_table(chains: Sequence[DeadLetterChain]) -> str:
    header = ("NUMBER", "SINK", "SEEN", "RESOURCE", "OBJECT", "OP", "STATE", "REASON")
    return table(header, [_chain(each) for each in chains])


def _chain(chain: DeadLetterChain) -> list[str]:
    dead_letter = chain.first
    reason = shortened(plain(dead_letter.reason), _LONGEST_REASON)
    seen = f"{dead_letter.time[:19]}Z"
    return [
        str(dead_letter.number),
        dead_letter.sink,
        seen,
        dead_letter.resource,
        dead_letter.key,
        dead_letter.op,
        _letter_state(dead_letter) if chain.rejected + chain.parked == 1 else _states(chain),
        reason,
    ]


def _states(chain: DeadLetterChain) -> str:
    found = f"{chain.rejected} rejected, {chain.parked} parked"
    return f"retrying {found}" if chain.first.retrying else found


def _letter_state(dead_letter: DeadLetter) -> str:
    return "retrying" if dead_letter.retrying else "parked" if dead_letter.parked else "rejected"


@_on_state
async def show_dead_letter(access: StateAccess, number: int, *, as_json: bool) -> Exit:
    # The list goes on with the next number if this one is gone.
    found = await access.admin.dead_letters(after=number - 1, limit=1)
    if not found or found[0].number != number:
        raise UnknownTarget(f"there is no dead letter {number}; see kubedelta dead-letters list")
    body = await access.admin.dead_letter_body(number)
    if as_json:
        say(_json({"dead_letter": found[0], "object": msgspec.Raw(body)}))
    else:
        say(_dead_letter(found[0]))
        say(pretty(body.decode()))
    return Exit.OK


def _dead_letter(dead_letter: DeadLetter) -> str:
    return pairs(
        [
            ("number", str(dead_letter.number)),
            ("sink", dead_letter.sink),
            ("sequence", str(dead_letter.sequence)),
            ("id", dead_letter.id),
            ("resource", dead_letter.resource),
            ("object", dead_letter.key),
            ("op", dead_letter.op),
            ("seen", dead_letter.time),
            ("state", _letter_state(dead_letter)),
            ("reason", dead_letter.reason),
            *([("answer", dead_letter.answer)] if dead_letter.answer else []),
        ]
    )


@_on_state
async def retry(access: StateAccess, sink: str, numbers: list[int] | None, *, as_json: bool) -> Exit:
    count = await access.admin.retry(sink, numbers)
    named = count if numbers is None else len(set(numbers))
    more = f", and {count - named} more of the same {'object' if named == 1 else 'objects'}" if count > named else ""
    said = f"{counted(named, 'dead letter')} of {sink} will be delivered again{more}{_when(access)}"
    return _say(access, said, as_json=as_json, retried=count)


@_on_state
async def drop(access: StateAccess, sink: str, numbers: list[int] | None, *, as_json: bool) -> Exit:
    count = await access.admin.drop(sink, numbers)
    return _say(access, f"{counted(count, 'dead letter')} of {sink} dropped", as_json=as_json, dropped=count)


# ── Sinks and the state ──────────────────────────────────────────────────────


def sinks() -> int:
    """Prints the installed types of sinks."""
    for name, kind in registry.types().items():
        say(f"{name:<10} {kind.summary}")
    for point, why in registry.unusable().items():
        say(f"{point:<10} cannot be used: {why}")
    return Exit.OK


@_on_state
async def retry_sink(access: StateAccess, sink: str, *, as_json: bool) -> Exit:
    changed = await access.admin.retry_sink(sink)
    why_not = "it is paused, an attempt is under way, or none is due"
    said = f"{sink} is tried now" if changed else f"{sink} was not waiting: {why_not}"
    if not access.running:
        said = f"no bridge runs: the next one tries {sink} as soon as it starts"
    return _say(access, said, as_json=as_json, changed=changed)


@_on_state
async def pause_sink(access: StateAccess, sink: str, *, as_json: bool) -> Exit:
    changed = await access.admin.pause_sink(sink)
    until = "until kubedelta sinks resume; max_backlog still holds"
    said = f"{sink} is paused {until}" if changed else f"{sink} was already paused"
    return _say(access, said, as_json=as_json, changed=changed)


@_on_state
async def resume_sink(access: StateAccess, sink: str, *, as_json: bool) -> Exit:
    changed = await access.admin.resume_sink(sink)
    said = f"{sink} is resumed{_when(access)}" if changed else f"{sink} was not paused"
    return _say(access, said, as_json=as_json, changed=changed)


@_on_state
async def state_check(access: StateAccess, *, as_json: bool) -> Exit:
    with elapsed("checking the state", quiet=as_json):
        report = await access.admin.state_check()
    say(_json(report) if as_json else _state(report))
    return Exit.NO if report.problems else Exit.OK


def _state(report: StateReport) -> str:
    counts = pairs(
        [
            ("path", report.path),
            ("sqlite", report.sqlite),
            ("format", str(report.format)),
            ("cluster", report.cluster or "not known"),
            *([("shard", report.shard)] if report.shard else []),
            ("records", str(report.records)),
            ("objects", str(report.objects)),
            ("informers", str(report.informers)),
            ("sinks", str(report.sinks)),
            ("dead letters", str(report.dead_letters)),
            ("file", f"{size(report.file_bytes)}, of which {size(report.free_bytes)} are free"),
            ("wal", size(report.wal_bytes)),
            *_encryption(report.bytes_by_key),
            ("integrity", counted(len(report.problems), "problem") if report.problems else "ok"),
        ]
    )
    return "\n".join([counts, *(f"  {plain(problem)}" for problem in report.problems)])


def _encryption(bytes_by_key: Mapping[str, int]) -> list[tuple[str, str]]:
    """Nothing about a state that has no key."""
    if not any(bytes_by_key):
        return []
    under = {name: f"{size(count)} of content" for name, count in sorted(bytes_by_key.items()) if name}
    return [*((f"key {name}", text) for name, text in under.items()), ("no key", size(bytes_by_key.get("", 0)))]


# ── Reload ───────────────────────────────────────────────────────────────────

_SETTLES_WITHIN = 10.0
"""Seconds for the first answers to new informers and new sinks. A long list takes longer, and is no failure."""
_LOOK_EVERY = 0.25


def reload(path: Path, *, allow_deletes: int, as_json: bool) -> int:
    """Finds the bridge by the file's ``state.directory``; the file itself is for the bridge to judge. 1: the bridge
    refuses the change, or a part of the change fails."""
    return asyncio.run(_reload(path, ReloadRequest(allow_deletes), as_json=as_json))


async def _reload(path: Path, request: ReloadRequest, *, as_json: bool) -> int:
    done, since = await _ask(operator_settings(path), request)
    if as_json:
        say(_json({**msgspec.to_builtins(done), "troubles": since}))
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
