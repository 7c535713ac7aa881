"""Where the bridge of a configuration file runs: on its ``state.directory``, or still on a former one.

A command on a running bridge needs ``state.directory`` alone, because the file on disk is not the configuration that
runs: it may be half edited, refused, or wait for a restart. So commands read that option, from its own section if the
rest is no YAML, and warn; the bridge judges the file. Where the directory itself was changed, ``/readyz?verbose`` names
that of the running bridge, which has to say that it runs with this file. A second socket at a fixed place would need a
directory that every pod may write.
"""

from __future__ import annotations

from pathlib import Path

import aiohttp

from bridge.admin.client import AdminClient, NoAnswer, NotRunning
from bridge.cli.settings import OperatorSettings
from bridge.cli.terminal.output import complain
from bridge.model.primitives.addresses import host_and_port
from bridge.web.readiness import STATE
from config.errors import ConfigError

_SECONDS = 5.0
_LARGEST = 32 << 20
"""Bytes of an answer: /metrics may have ten thousand series."""


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
