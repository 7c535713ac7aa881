"""The commands on the state: cursors, replay, dead letters, sinks, state check. Each returns its exit code."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from bridge.admin.client import CommandFailed, NoAnswer, NotRunning
from bridge.cli.admin import tables
from bridge.cli.admin.access import StateAccess, admin_of
from bridge.cli.admin.waiting import elapsed, replayed
from bridge.cli.exits import Exit
from bridge.cli.settings import OperatorSettings, operator_settings
from bridge.cli.terminal.output import complain, say
from bridge.cli.terminal.pretty import pretty
from bridge.cli.terminal.text import plain
from bridge.model.admin import AdminOperations, DeadLetter, ReplayRequest, UnknownTarget
from bridge.model.primitives.printable import counted
from bridge.outbox import Damaged, StateError
from config.errors import ConfigError

_NOT_RETAINED = (
    "; replay: off (state.retain): set state.retain.age (such as 7d) or state.retain.bytes to keep later records for"
    " replays"
)

Ask: TypeAlias = Callable[[StateAccess], Awaitable[Exit]]


def cursors(path: Path, *, as_json: bool) -> int:
    async def ask(access: StateAccess) -> Exit:
        found = await access.admin.cursors()
        say(json_text(found) if as_json else tables.of_cursors(found))
        return Exit.OK

    return run(path, ask)


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
            say(tables.of_dead_letters(chains))
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
            say(tables.of_dead_letter(dead_letter))
            say(pretty(body.decode()))
        return Exit.OK

    return run(path, ask)


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
        say(json_text(report) if as_json else tables.of_state(report))
        return Exit.NO if report.problems else Exit.OK

    return run(path, ask)


async def _dead_letter(admin: AdminOperations, number: int) -> DeadLetter:
    # The list goes on with the next number if this one is gone.
    for dead_letter in await admin.dead_letters(after=number - 1, limit=1):
        if dead_letter.number == number:
            return dead_letter
    raise UnknownTarget(f"there is no dead letter {number}; see kubedelta dead-letters list")


def _say_result(name: str, value: int | bool, said: str, access: StateAccess, *, as_json: bool) -> Exit:
    """Prints the result of a change: ``said``, or as JSON the value under its name, and whether a bridge runs."""
    say(json_text({name: value, "running": access.running}) if as_json else said)
    return Exit.OK


def when(access: StateAccess) -> str:
    return "" if access.running else ", at the next start: the bridge does not run now"


def json_text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


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
