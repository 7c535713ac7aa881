"""Checks this machine for ``kubedelta check``: the state directory, its holder, its disk, and the listen address. The
checks do not affect a running bridge.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from bridge.checks.findings import CheckResult, Finding
from bridge.http.socket_file import expect_room
from bridge.model.admin import About
from bridge.model.primitives.network import host_and_port
from bridge.model.primitives.printable import why_not_writable
from bridge.outbox import FILE, KEY_FILES_OPTION, Damaged, StateError, is_held, look_at, unusable
from bridge.plan.keys import KEY_FILE, load_cipher, read_redaction_keys
from bridge.plan.plan import Plan

_STATE = "state.directory"


def check_directory(plan: Plan, running: About | None) -> Iterator[Finding]:
    """Findings of the state directory, its disk and the redaction keys. Blocks for a moment."""
    directory = plan.state
    if not directory.is_dir():
        problem = "is not a directory" if directory.exists() else "does not exist"
        yield Finding(_STATE, CheckResult.WRONG, f"{directory} {problem}: create it, or mount a volume there")
        return
    if not os.access(directory, os.R_OK | os.W_OK | os.X_OK):
        yield Finding(_STATE, CheckResult.WRONG, f"cannot write in {directory}: {why_not_writable(directory)}")
        return
    try:
        # Without the option in front, which is the subject of the finding.
        in_the_way = unusable(directory).partition(": ")[2]
        expect_room(directory)
    except OSError as error:
        in_the_way = str(error) if isinstance(error, FileExistsError) else f"{directory}: {error.strerror}"
    yield Finding(_STATE, CheckResult.WRONG, in_the_way) if in_the_way else _holder(plan, running)
    free = _free_bytes(directory)
    if free < plan.retention.min_free:
        reason = f"the disk of {directory} has {free} bytes free; the bridge reads only with {plan.retention.min_free}"
        yield Finding("state.min_free_bytes", CheckResult.WRONG, reason)
    if (finding := _encryption(plan)) is not None:
        yield finding
    if plan.redaction_key_file is not None or (directory / KEY_FILE).exists():
        try:
            keys = read_redaction_keys(plan.redaction_key_file, plan.former_key_files, directory)
            if len(keys) > 1:
                ids = ", ".join(key.id for key in keys)
                yield Finding("redaction", CheckResult.NOTE, f"every redacted value has a digest under each key: {ids}")
        except StateError as error:
            option, _, reason = str(error).partition(": ")
            yield Finding(option, CheckResult.WRONG, reason)


def _encryption(plan: Plan) -> Finding | None:
    """Whether a start could read the content of the state; None without any encryption, and without a readable state,
    which other findings are about."""
    try:
        cipher = load_cipher(plan)
    except StateError as error:
        option, _, reason = str(error).partition(": ")
        return Finding(option, CheckResult.WRONG, reason)
    with suppress(StateError, Damaged), look_at(plan.state) as look:
        if look is not None and (missing := look.missing_keys(cipher)):
            reason = f"no file has the key {', '.join(missing)}, with which content of the state is encrypted"
            return Finding(KEY_FILES_OPTION, CheckResult.WRONG, reason)
    if cipher is None:
        return None
    written = f"encrypted with the key {cipher.first.id}" if cipher.encrypts else "not encrypted"
    return Finding("state.encryption", CheckResult.RIGHT, f"new content is {written}")


def _holder(plan: Plan, running: About | None) -> Finding:
    directory = plan.state
    if not is_held(directory):
        known = "holds a state" if (directory / FILE).exists() else "has no state: a start creates one"
        return Finding(_STATE, CheckResult.RIGHT, f"{directory} {known}")
    if running is None:
        return Finding(_STATE, CheckResult.WRONG, f"{directory} is held by another process: only one bridge may use it")
    with_file = "with this file" if running.file == plan.file else f"with {running.file or 'another file'}"
    reason = (
        f"a bridge runs on {directory} (process {running.pid}, {with_file}), and goes on: everything else is checked as"
        " for its next start; a second bridge needs a directory of its own"
    )
    return Finding(_STATE, CheckResult.NOTE, reason)


def _free_bytes(directory: Path) -> int:
    found = os.statvfs(directory)
    return found.f_bavail * found.f_frsize


async def check_addresses(plan: Plan, running: About | None) -> Sequence[Finding]:
    """Whether the configured addresses can be listened on."""
    found = []
    if plan.listen is not None:
        mine = running is not None and running.listen == host_and_port(*plan.listen)
        found.append(await _address("telemetry.listen", *plan.listen, mine=mine))
    if plan.page is not None:
        found.append(await _address("page.listen", plan.page.host, plan.page.port, mine=running is not None))
    return found


async def _address(option: str, host: str, port: int, *, mine: bool) -> Finding:
    """``mine``: the bridge that runs on the state directory may have the address."""
    shown = host_and_port(host, port)
    try:
        loop = asyncio.get_running_loop()
        # Bound, but not listening: a probe of the port is refused at once, and does not hang.
        server = await loop.create_server(asyncio.Protocol, host or None, port, start_serving=False)
    except OSError as error:
        if mine:
            return Finding(option, CheckResult.NOTE, f"the running bridge listens on {shown}")
        return Finding(option, CheckResult.WRONG, f"cannot listen on {shown}: {error.strerror or error}")
    server.close()
    return Finding(option, CheckResult.RIGHT, f"{shown} is free")
