"""Writes one stream of log lines: the bridge's, which facts say (structlog), and the libraries' (the standard library's
logging).

For the person on call. info: changes of state (synced, recovered, stopped). warning: failures, with the next action.
error: gaps, and a blocked intake. Batches and single requests are debug. No line has an object's body.

A line gets its level and time, then the form for people or for machines. Credentials are taken out of the finished
text, tracebacks included; control characters are escaped, so a line cannot be forged by the text of a server.
"""

from __future__ import annotations

import io
import logging
import re
import time
from collections.abc import Callable
from typing import TextIO

import msgspec
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from bridge.model.primitives.printable import escaped
from bridge.telemetry.fact_log import FactLog, Level, LogThrottle
from bridge.telemetry.facts import Fact

NAME = "kubedelta"
"""The bridge's own logger."""
_CREDENTIALS = re.compile(r"""(?<=://)[^/@\s"'<>]+(?=@)|(?i:(?<=bearer )|(?<=basic ))[\w.~+/=-]+""")
_FIRST = ("timestamp", "level", "event")


class Logs:
    """An observer of facts: each writes its lines to the logger."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        logger = structlog.stdlib.get_logger(NAME)
        standard = logging.getLogger(NAME)

        def write(level: Level, text: str, fields: dict[str, object]) -> None:
            getattr(logger, level)(text, **fields)

        self._log = FactLog(write, lambda: standard.isEnabledFor(logging.DEBUG), clock)

    def observe(self, fact: Fact) -> None:
        fact.log(self._log)


# ── The stream ───────────────────────────────────────────────────────────────


def set_up_logging(
    level: str, form: str, stream: TextIO, *, shard: str = "", clock: Callable[[], float] = time.monotonic
) -> None:
    """Writes lines from ``level`` on (debug, info, warning, error) to ``stream``: standard error, because standard
    output may belong to a sink. ``form`` is ``json``, ``console``, or ``auto``: console on a terminal, else JSON.

    With ``shard``, the name of the bridge's shard, every line has it.

    Of libraries, warnings and errors are logged, each message once every half minute with its count in between, since
    some libraries log every request of a stranger. Tracebacks show no variables, since these hold tokens and bodies.
    """
    console = form == "console" or (form == "auto" and stream.isatty())
    shared: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if shard:
        shared.append(_NamedByShard(shard))
    handler = logging.StreamHandler(stream)
    handler.addFilter(_ThrottledLibraries(clock))
    handler.setFormatter(
        _WithoutCredentials(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, _add_times, *shared],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *(_for_people(stream.isatty()) if console else _for_machines()),
            ],
        )
    )
    root = logging.getLogger()
    # Replaced and not added: with a handler of a library, every line would come twice.
    root.handlers = [handler]
    root.setLevel(logging.WARNING)
    # Python's own warnings would stand as plain text among the lines of JSON.
    logging.captureWarnings(True)
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        # A refused configuration is logged with other settings than a run: a cached logger would keep the first ones.
        cache_logger_on_first_use=False,
    )
    set_log_level(level)


def set_log_level(level: str) -> None:
    """Changes the level of ``set_up_logging``."""
    logging.getLogger(NAME).setLevel(level.upper())
    structlog.configure(
        **{**structlog.get_config(), "wrapper_class": structlog.make_filtering_bound_logger(level)},
    )


def _for_people(colors: bool) -> list[Processor]:
    return [_escape_values, structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=_plain_traceback)]


def _escape_values(_logger: WrappedLogger, _name: str, event: EventDict) -> EventDict:
    """Runs before the renderer, whose colours are control characters too. The renderer shows other values by repr."""
    for name, value in event.items():
        if isinstance(value, str):
            event[name] = escaped(value)
    return event


def _plain_traceback(stream: TextIO, error: structlog.typing.ExcInfo) -> None:
    text = io.StringIO()
    structlog.dev.plain_traceback(text, error)
    stream.write(escaped(text.getvalue(), keep="\n"))


def _for_machines() -> list[Processor]:
    return [
        structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False)),
        structlog.processors.JSONRenderer(serializer=_json),
    ]


def _json(event: EventDict, **_: object) -> str:
    first = {name: event.pop(name) for name in _FIRST if name in event}
    return escaped(msgspec.json.encode({**first, **event}, enc_hook=str).decode())


class _NamedByShard:
    """Adds the shard to each line."""

    def __init__(self, shard: str) -> None:
        self._shard = shard

    def __call__(self, _logger: WrappedLogger, _name: str, event: EventDict) -> EventDict:
        event["shard"] = self._shard
        return event


class _ThrottledLibraries(logging.Filter):
    """Throttles lines of libraries by logger and template, since arguments may come from strangers."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__()
        self._throttle = LogThrottle(clock)

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name == NAME:
            return True
        times = self._throttle.due(record.name, str(record.msg))
        record.times = times or 0
        return times is not None


def _add_times(_logger: WrappedLogger, _name: str, event: EventDict) -> EventDict:
    if (times := getattr(event["_record"], "times", 1)) > 1:
        event["times"] = times
    return event


class _WithoutCredentials(structlog.stdlib.ProcessorFormatter):
    """Removes the user of a URL, and the word behind "Bearer" or "Basic", from every line, tracebacks included."""

    def format(self, record: logging.LogRecord) -> str:
        return _CREDENTIALS.sub("…", super().format(record))
