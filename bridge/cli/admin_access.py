"""Gives a command access to the state: through the running bridge, or through its files if no bridge runs; and waits
for what the command has begun, with its progress on the terminal.

A bridge runs on the ``state.directory`` of its configuration file, or still on a former directory. A command on a
running bridge needs ``state.directory`` alone, because the file on disk is not the configuration that runs: it may be
half edited, refused, or wait for a restart. So commands read that option, from its own section if the rest is no YAML,
and warn; the bridge judges the file. Where the directory itself was changed, ``/readyz?verbose`` names that of the
running bridge, which has to say that it runs with this file. A second socket at a fixed place would need a directory
that every pod may write.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import msgspec

from bridge.app.admin.client import AdminClient, NoAnswer, NotRunning
from bridge.app.admin.commands import AdminOperations
from bridge.app.endpoints import STATE
from bridge.cli.settings import OperatorSettings
from bridge.cli.terminal import complain, plain, progress
from bridge.model.diagnosis import troubles_of_sink
from bridge.model.primitives.network import host_and_port
from bridge.model.status import SinkStatus, SnapshotState, SnapshotStatus
from config.errors import ConfigError
from config.schema import Settings


@dataclass(frozen=True, slots=True)
class StateAccess:
    """The operations on the state, and where they run."""

    admin: AdminOperations
    running: bool
    """False if commands take effect at the next start."""


@asynccontextmanager
async def admin_of(found: OperatorSettings) -> AsyncIterator[StateAccess]:
    """Yields the operations, and warns of an invalid file. Raises NoAnswer if a bridge may be running and does not
    answer, StateError if the files cannot be used, and ConfigError for files behind an invalid configuration."""
    async with AsyncExitStack() as held:
        try:
            running = await held.enter_async_context(AdminClient(await directory_of(found)))
        except NotRunning:
            yield StateAccess(await held.enter_async_context(on_files(found.required())), running=False)
        else:
            found.warn()
            yield StateAccess(running, running=True)


def on_files(settings: Settings) -> AbstractAsyncContextManager[AdminOperations]:
    from bridge.app.admin.operations import open_admin

    return open_admin(settings)


# ── Where the bridge runs ────────────────────────────────────────────────────


async def directory_of(found: OperatorSettings) -> Path:
    """The state directory of the running bridge, to enter an AdminClient with. A changed ``state.directory`` is not in
    effect before a restart: then the bridge that listens on ``telemetry.listen`` says where it runs, and a warning says
    so too. The file's directory where no bridge runs."""
    try:
        async with AdminClient(found.directory):
            return found.directory
    except NoAnswer:
        return found.directory
    except NotRunning:
        former = await _former(found)
    if former is None:
        return found.directory
    changed = f"state.directory in {found.path} is {found.directory}"
    complain(f"warning: {changed}; its bridge runs on {former} until a restart")
    return former


async def _former(found: OperatorSettings) -> Path | None:
    if isinstance(found.settings, ConfigError):
        return None
    listen = found.settings.telemetry.listen
    report = await fetched(host_and_port(listen.host, listen.port), "/readyz?verbose")
    for line in (report or b"").decode(errors="replace").splitlines():
        if line.startswith(STATE):
            directory = Path(line.removeprefix(STATE))
            try:
                async with AdminClient(directory) as running:
                    # Another bridge may have taken the port.
                    return directory if running.about.file == found.file else None
            except (NoAnswer, NotRunning):
                return None
    return None


_SECONDS = 5.0
_LARGEST = 32 << 20
"""Bytes of an answer: /metrics may have ten thousand series."""


async def fetched(listen: str, path: str) -> bytes | None:
    """What the web server of a bridge on this machine answers, whatever the status. ``listen``: its host:port. None
    without an answer."""
    host, _, port = listen.rpartition(":")
    local = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # noqa: S104  # where every interface is meant
    timeout = aiohttp.ClientTimeout(total=_SECONDS)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(f"http://{local.get(host, host)}:{port}{path}", allow_redirects=False) as answer,
        ):
            body = bytearray()
            async for part in answer.content.iter_any():
                body += part
                if len(body) > _LARGEST:
                    return None
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
        return None
    return bytes(body)


# ── Waiting ──────────────────────────────────────────────────────────────────

_LOOK_EVERY = 0.25
"""Seconds."""
_REPLAY = "replay"


@contextmanager
def elapsed(what: str, *, quiet: bool) -> Iterator[None]:
    """Shows on the event loop how long the block takes: its end is unknown."""
    loop = asyncio.get_running_loop()

    ended = False

    def show() -> None:
        if not ended:
            line.show(what, 0)
            loop.call_later(_LOOK_EVERY, show)

    with progress(quiet=quiet) as line:
        loop.call_later(_LOOK_EVERY, show)
        try:
            yield
        finally:
            ended = True


async def replayed(admin: AdminOperations, sink: str, records: int, *, quiet: bool) -> None:
    """Returns when the running bridge has delivered the records of a replay, however often it must try."""
    with progress(quiet=quiet) as line:
        held_up = _HeldUp(sink)
        while True:
            replays = [each for each in await held_up.look(admin) if (each.name, each.backfill) == (sink, _REPLAY)]
            left = sum(each.backfill_left for each in replays)
            if not left:
                return
            line.show(f"{sink}: records delivered again", max(0, records - left), records)
            await asyncio.sleep(_LOOK_EVERY)


async def snapshot_delivered(admin: AdminOperations, begun: SnapshotStatus, *, quiet: bool) -> SnapshotStatus:
    """Returns the status at the end of a snapshot in the running bridge: it is delivered, or cancelled."""
    with progress(quiet=quiet) as line:
        held_up = _HeldUp(begun.sink)
        while True:
            now = next((each for each in await admin.snapshots() if each.sink == begun.sink), begun)
            if now.number != begun.number or now.state is not SnapshotState.DELIVERING:
                return now
            await held_up.look(admin)
            line.show(f"{begun.sink}: objects delivered", now.objects - now.left, now.objects)
            await asyncio.sleep(_LOOK_EVERY)


class _HeldUp:
    """Says once on standard error why a sink does not move, each time that it stops: nobody waits for a paused or
    failing sink without knowing."""

    def __init__(self, sink: str) -> None:
        self._sink = sink
        self._said = False

    async def look(self, admin: AdminOperations) -> Sequence[SinkStatus]:
        """The sinks of the running bridge."""
        sinks = (await admin.status()).sinks
        here = (msgspec.structs.replace(each, dead_letters=0, parked=0) for each in sinks if each.name == self._sink)
        trouble = next((found for each in here for found in troubles_of_sink(each)), None)
        if trouble is not None and not self._said:
            complain(f"waiting for {plain(trouble.line)} (see kubedelta status)")
        self._said = trouble is not None
        return sinks
