"""Reads the records of a destination and prints those that the options choose, until the reader leaves."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

from bridge.cli.exits import Exit
from bridge.cli.settings import load_settings
from bridge.cli.tail.filters import TailFilter
from bridge.cli.tail.lines import TailLines
from bridge.cli.terminal.colours import Colours
from bridge.cli.terminal.output import complain, flush, say, say_escaped
from bridge.model.versions.followed_record import FollowedRecord, RecordFollower
from bridge.model.versions.stored_version import CannotReadBack
from config.errors import ConfigError
from sinks import registry
from sinks.base import SinkType, SinkUnavailable

POLL_EVERY = 0.25
"""Seconds between two looks for further records."""
_FILE = "file"


class _NotFollowed(Exception):
    """The message says why the target cannot be followed."""


def tail(
    target: str,
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
    """``target``: a file; with a configuration at ``path``, also the name of a sink in it. ``lines``: how many of the
    last records come first; None to begin at ``since``, or with the oldest."""
    chosen = TailFilter(resource, namespace, where)
    printer = Printer(chosen, as_json=as_json)
    try:
        with closing(_follower(target, path)) as follower:
            return _tail(target, follower, printer, lines, since, follow=follow)
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


class Printer:
    """Prints records as lines."""

    def __init__(self, chosen: TailFilter, *, as_json: bool) -> None:
        self.chosen = chosen
        self._as_json = as_json
        self._lines = TailLines(Colours.of_output())
        self._waits = False

    def wait_for(self, target: str) -> None:
        if not self._waits:
            complain(f"waiting for {target}")
        self._waits = True

    def print(self, records: Iterable[FollowedRecord]) -> None:
        for record in records:
            if self._as_json:
                if not record.foreign:
                    say(record.text.decode(errors="replace"))
            else:
                say_escaped(self._lines.line(record))
        if (failed := self.chosen.failed()) is not None:
            complain(f"--where fails on {failed.resource} {failed.key}, and chooses no such record: {failed.reason}")
        flush()


def _follower(target: str, path: Path | None) -> RecordFollower:
    """Raises ConfigError, CannotReadBack and _NotFollowed."""
    if path is not None:
        settings = load_settings(path)
        if (sink := settings.sinks.get(target)) is not None:
            return _made(registry.types()[sink.type], target, sink.options, settings.cluster.name)
        if not Path(target).exists():
            raise _NotFollowed(f"there is no sink and no file {target}; sinks: {', '.join(settings.sinks)}")
    kind = registry.types()[_FILE]
    return _made(kind, target, kind.options.model_validate({"path": target}), "")


def _made(kind: SinkType, name: str, options: Any, cluster: str) -> RecordFollower:
    if kind.follow is None:
        able = ", ".join(each.name for each in registry.types().values() if each.follow is not None)
        raise _NotFollowed(f"{name}: a destination of type {kind.name} cannot be followed; types that can: {able}")
    return kind.follow()(name, options, cluster=cluster)
