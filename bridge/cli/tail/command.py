"""Reads the records of a destination and prints those that the options choose, until the reader leaves."""

from __future__ import annotations

import time
from contextlib import closing
from datetime import datetime
from pathlib import Path

from bridge.cli.command_line.arguments import UsageError
from bridge.cli.default_file import NO_FILE, default_file
from bridge.cli.exits import Exit
from bridge.cli.settings import OperatorSettings, operator_settings
from bridge.cli.tail.filters import TailFilter
from bridge.cli.tail.printer import Printer
from bridge.cli.terminal.output import complain
from bridge.model.versions.followed_record import RecordFollower
from bridge.model.versions.stored_version import CannotReadBack
from config.errors import ConfigError
from config.schema import SinkSettings
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
    """``target``: a file, the name of a sink in the configuration at ``path``, or None for the running bridge. Without
    ``path``, a file that exists is meant before a sink of the default configuration. ``lines``: how many of the last
    records come first; None to begin at ``since``, or with the oldest."""
    printer = Printer(TailFilter(resource, namespace, where), as_json=as_json)
    try:
        found = None if target is not None and path is None and Path(target).exists() else _configuration(path)
        if found is None and target is None:
            raise UsageError(f"kubedelta tail: {NO_FILE}: name one with -c, or a file of deltas")
        follower = _follower(target, found)
        if follower is not None:
            with closing(follower):
                return _tail(target or "", follower, printer, lines, since, follow=follow, of_sink=found is not None)
        if found is None or lines is None or not follow:
            raise _NotFollowed(f"{target or 'the bridge'} is followed from now on alone, as the bridge commits records")
        from bridge.cli.tail.live import follow_bridge

        found.warn()
        return follow_bridge(found, target, printer)
    except ConfigError as error:
        complain(error)
        return Exit.CONFIG
    except (_NotFollowed, CannotReadBack) as error:
        complain(error)
        return Exit.NO
    except SinkUnavailable as error:
        complain(f"{target}: {error}")
        return Exit.UNAVAILABLE


def _configuration(path: Path | None) -> OperatorSettings | None:
    """None without a file: none is named, and there is no default. Raises ConfigError."""
    if path is None and (default := default_file()) is not None:
        path = default.path
    return None if path is None else operator_settings(path)


def _tail(
    target: str,
    follower: RecordFollower,
    printer: Printer,
    lines: int | None,
    since: datetime | None,
    *,
    follow: bool,
    of_sink: bool,
) -> int:
    """``of_sink``: the target is a sink, and not the path of a file."""
    while not follower.open():
        if not follow:
            complain(f"{target}: no destination yet: no record was delivered, or the name is wrong")
            return Exit.NO
        printer.wait_for(f"the destination of {target}" if of_sink else _no_file(target))
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


def _no_file(target: str) -> str:
    return f"the file {target}, which does not exist; for a sink of that name, name the configuration (-c FILE)"


def _follower(target: str | None, found: OperatorSettings | None) -> RecordFollower | None:
    """None for the running bridge: without a target, for a sink whose destination cannot be read, and for any sink of
    an invalid configuration. Raises CannotReadBack and _NotFollowed."""
    if found is not None:
        sinks = None if isinstance(found.settings, ConfigError) else found.settings.sinks
        if target is None or (sinks is None and not Path(target).exists()):
            return None
        if sinks is not None and target in sinks:
            return _of_sink(target, sinks[target], found.required().cluster.name)
        if not Path(target).exists():
            known = f"sinks of {found.path}: {', '.join(sinks or ())}"
            raise _NotFollowed(f"there is no sink and no file {target}; {known}")
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
