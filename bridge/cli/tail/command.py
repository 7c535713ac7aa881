"""Reads the records of a destination and prints those that the options choose, until the reader leaves."""

from __future__ import annotations

import time
from contextlib import closing
from datetime import datetime
from pathlib import Path

from bridge.cli.exits import Exit
from bridge.cli.settings import load_settings
from bridge.cli.tail.filters import TailFilter
from bridge.cli.tail.printer import Printer
from bridge.cli.terminal.output import complain
from bridge.model.versions.followed_record import RecordFollower
from bridge.model.versions.stored_version import CannotReadBack
from config.errors import ConfigError
from config.schema import Settings, SinkSettings
from sinks import registry
from sinks.base import SinkUnavailable

POLL_EVERY = 0.25
"""Seconds between two looks for further records."""
_FILE = "file"


class _NotFollowed(Exception):
    """The message says why the target cannot be followed."""


def tail(
    target: str | None,
    path: Path | None,
    *,
    resource: str | None,
    namespace: str | None,
    where: str | None,
    lines: int | None,
    since: datetime | None,
    follow: bool,
    as_json: bool,
) -> int:
    """``target``: a file; with a configuration at ``path``, also the name of a sink in it, or None for the running
    bridge. ``lines``: how many of the last records come first; None to begin at ``since``, or with the oldest."""
    printer = Printer(TailFilter(resource, namespace, where), as_json=as_json)
    try:
        settings = None if path is None else load_settings(path)
        follower = _follower(target, settings)
        if follower is not None:
            with closing(follower):
                return _tail(target or "", follower, printer, lines, since, follow=follow)
        if settings is None or lines is None or not follow:
            raise _NotFollowed(f"{target or 'the bridge'} is followed from now on alone, as the bridge commits records")
        from bridge.cli.tail.live import follow_bridge

        return follow_bridge(settings, target, printer)
    except ConfigError as error:
        complain(error)
        return Exit.CONFIG
    except (_NotFollowed, CannotReadBack) as error:
        complain(error)
        return Exit.NO
    except SinkUnavailable as error:
        complain(f"{target}: {error}")
        return Exit.UNAVAILABLE


def _tail(
    target: str, follower: RecordFollower, printer: Printer, lines: int | None, since: datetime | None, *, follow: bool
) -> int:
    while not follower.open():
        if not follow:
            complain(f"{target}: no destination yet: no record was delivered, or the name is wrong")
            return Exit.NO
        printer.wait_for(target)
        time.sleep(POLL_EVERY)
    if lines is not None:
        printer.print(follower.last(lines, printer.chosen))
    else:
        follower.begin(since)
    while True:
        printer.print(filter(printer.chosen, follower.news()))
        if not follow:
            return Exit.OK
        time.sleep(POLL_EVERY)


def _follower(target: str | None, settings: Settings | None) -> RecordFollower | None:
    """None for the running bridge: without a target, and for a sink whose destination cannot be read. Raises
    CannotReadBack and _NotFollowed."""
    if settings is not None:
        sink = None if target is None else settings.sinks.get(target)
        if target is None or sink is not None:
            return None if sink is None else _of_sink(target or "", sink, settings.cluster.name)
        if not Path(target).exists():
            raise _NotFollowed(f"there is no sink and no file {target}; sinks: {', '.join(settings.sinks)}")
    kind = registry.types()[_FILE]
    if kind.follow is None or target is None:
        raise _NotFollowed("no file is named")
    return kind.follow()(target, kind.options.model_validate({"path": target}), cluster="")


def _of_sink(name: str, sink: SinkSettings, cluster: str) -> RecordFollower | None:
    follow = registry.types()[sink.type].follow
    if follow is None:
        return None
    try:
        return follow()(name, sink.options, cluster=cluster)
    except CannotReadBack:
        return None
