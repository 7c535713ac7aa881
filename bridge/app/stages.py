"""The stages of a change: the functions on its way at which a profile puts clocks and a trace takes times.

Both replace these functions while they are on, so that none of this lies on the way of a change otherwise. A call that
asks whether somebody listens costs 25 ns for a function of known arguments and 80 ns for any; a record passes six
functions by itself, and that would be a fiftieth of its cost for a measurement that is off.

The table names each function by the object. So an editor finds and renames it, and a function that has gone fails the
import.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import IntEnum, auto
from functools import reduce
from types import ModuleType
from typing import Any, TypeAlias

from bridge.delivery.attempts import SinkAttempts
from bridge.delivery.backpressure import Exporter
from bridge.delivery.sink_feed import SinkFeed
from bridge.delivery.sink_worker import SinkWorker
from bridge.informer.controller import Controller
from bridge.informer.delta_fifo import DeltaFIFO
from bridge.informer.reflector.reflector import Reflector
from bridge.kube.gathering import Gathering, WatchBody
from bridge.kube.transport import _Transport
from bridge.kube.wire.frames import Frames
from bridge.kube.wire.pages import PageReader
from bridge.model.answers import Announced, Page
from bridge.model.formats.cloudevent import CloudEvents
from bridge.model.object import cut
from bridge.outbox.appender import Appender
from bridge.outbox.log.statements import rows
from bridge.outbox.outbox import Outbox
from bridge.outbox.writer import Writer, _finish
from bridge.processor.shared_processor import SharedProcessor
from sinks.base import BatchResult

Function: TypeAlias = Callable[..., Any]
Replacements: TypeAlias = Mapping[Function, Callable[[Function], Function]]
"""Each function that is replaced → what makes its replacement of it."""
Count: TypeAlias = Callable[[tuple[Any, ...], Any], int]
"""Returns the number of records of a call, from its arguments and its result."""


class Stage(IntEnum):
    """Stages in the order of a record's way."""

    RECEIVE = 0
    SPLIT = auto()
    DECODE = auto()
    FIFO = auto()
    COMPARE = auto()
    STRIP = auto()
    COMMIT = auto()
    COMPRESS = auto()
    DISTRIBUTE = auto()
    ENCODE = auto()
    DELIVER = auto()
    NONE = auto()


@dataclass(frozen=True, slots=True)
class StageFunction:
    """A function that belongs to a stage."""

    stage: Stage
    function: Function
    count: Count | None = None


STAGE_FUNCTIONS = (
    # The work of a watch's task, without other stages.
    StageFunction(Stage.RECEIVE, Reflector.run),
    StageFunction(Stage.RECEIVE, _Transport.handle_async_request),
    StageFunction(Stage.RECEIVE, Gathering.wait),
    StageFunction(Stage.RECEIVE, WatchBody.read),
    StageFunction(Stage.SPLIT, Frames.feed, lambda _, answers: sum(map(_events, answers))),
    StageFunction(Stage.DECODE, Frames._event, lambda _, event: event is not None),
    StageFunction(Stage.DECODE, Frames._unusual, lambda _, found: isinstance(found, tuple)),
    StageFunction(Stage.DECODE, PageReader.feed, lambda _, objects: objects),
    StageFunction(Stage.DECODE, PageReader.end, lambda _, page: len(page.objects) if isinstance(page, Page) else 0),
    StageFunction(Stage.STRIP, cut),  # Records are counted at the transform.
    StageFunction(Stage.FIFO, DeltaFIFO.happened, lambda args, _: len(args[1])),
    StageFunction(Stage.FIFO, DeltaFIFO.replaced, lambda args, _: len(args[1])),
    StageFunction(Stage.FIFO, DeltaFIFO.end_replace),
    StageFunction(Stage.FIFO, DeltaFIFO.drain),
    StageFunction(Stage.COMPARE, Controller._process),
    StageFunction(Stage.COMPARE, Controller.handle_deltas, lambda args, _: len(args[1])),
    StageFunction(Stage.COMMIT, Exporter.export),
    StageFunction(Stage.COMMIT, Appender.append, lambda _, deltas: len(deltas)),
    StageFunction(Stage.COMMIT, Writer._commit),
    StageFunction(Stage.COMMIT, _finish),
    StageFunction(Stage.COMMIT, Outbox.run),
    StageFunction(Stage.COMPRESS, rows, lambda _, found: len(found)),
    StageFunction(Stage.DISTRIBUTE, SharedProcessor.distribute),
    StageFunction(Stage.DISTRIBUTE, SinkFeed.take, lambda _, fetch: len(fetch.items)),
    StageFunction(Stage.ENCODE, BatchResult.encode),
    StageFunction(Stage.ENCODE, CloudEvents.headers),
    StageFunction(Stage.ENCODE, CloudEvents.encoded_headers),
    StageFunction(Stage.ENCODE, CloudEvents.data, lambda _, __: 1),
    StageFunction(Stage.ENCODE, CloudEvents.structured),
    # The work of a sink's tasks, without other stages.
    StageFunction(Stage.DELIVER, SinkWorker.run),
    StageFunction(Stage.DELIVER, SinkAttempts.deliver, lambda args, result: len(args[1]) - len(result[0].pending)),
)
"""Every function on the way of a change that a profile or a trace replaces."""


def _events(answer: object) -> int:
    return len(answer.events) if isinstance(answer, Announced) else 0


@contextmanager
def replaced(replacements: Replacements) -> Iterator[None]:
    """Inside the context, replacements stand in the place of these functions and methods. A profile and a trace may
    replace the same one, one around the other."""
    with ExitStack() as undo:
        for function, around in replacements.items():
            owner, name = place_of(function)
            there = vars(owner)[name]
            by = around(there)
            if isinstance(owner, ModuleType):
                _rename(name, there, by)
                undo.callback(_rename, name, by, there)
            else:
                setattr(owner, name, by)
                undo.callback(setattr, owner, name, there)
        yield


def place_of(function: Function) -> tuple[type | ModuleType, str]:
    """The class or module in which a function is defined, and its name there."""
    *classes, name = function.__qualname__.split(".")
    return reduce(getattr, classes, sys.modules[function.__module__]), name


def _rename(name: str, there: Function, by: Function) -> None:
    """Replaces a function in every module that imported it by name. Modules that are imported later get it too."""
    for module in list(sys.modules.values()):
        if getattr(module, "__dict__", {}).get(name) is there:
            setattr(module, name, by)
