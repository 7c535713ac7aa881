"""Puts clocks around the functions of each stage."""

from __future__ import annotations

import asyncio
import inspect
import sys
from asyncio import base_events, selector_events
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from aiohttp.client_proto import ResponseHandler

from bridge.app.profiling.clocks import Clocks, Count, calibrated
from bridge.app.profiling.figures import Stage
from bridge.delivery.attempts import SinkAttempts
from bridge.delivery.feeds import Exporter
from bridge.delivery.sink_feed import SinkFeed
from bridge.delivery.sink_worker import SinkWorker
from bridge.informer.controller import Controller
from bridge.informer.delta_fifo import DeltaFIFO
from bridge.informer.reflector.reflector import Reflector
from bridge.kube import transport
from bridge.kube.wire.frames import Frames
from bridge.kube.wire.pages import PageReader
from bridge.model import object as api_object
from bridge.model.answers import Announced, Page
from bridge.model.formats.cloudevent import CloudEvents
from bridge.outbox import writer
from bridge.outbox.appender import Appender
from bridge.outbox.log import statements
from bridge.outbox.outbox import Outbox
from bridge.processor.shared_processor import SharedProcessor
from bridge.transform import transform
from sinks.base import BatchResult

_CONNECTION: type = selector_events._SelectorSocketTransport  # type: ignore[attr-defined]


@dataclass(frozen=True, slots=True)
class Hook:
    """A function that belongs to a stage, and its owner."""

    stage: Stage
    owner: type | ModuleType
    name: str
    count: Count | None = None


HOOKS = (
    # The work of a watch's task, without other stages.
    Hook(Stage.RECEIVE, Reflector, "run"),
    Hook(Stage.RECEIVE, transport._Transport, "handle_async_request"),
    Hook(Stage.SPLIT, Frames, "feed", lambda _, answers: sum(map(_events, answers))),
    Hook(Stage.DECODE, Frames, "_event", lambda _, event: event is not None),
    Hook(Stage.DECODE, Frames, "_unusual", lambda _, found: isinstance(found, tuple)),
    Hook(Stage.DECODE, PageReader, "feed", lambda _, objects: objects),
    Hook(Stage.DECODE, PageReader, "end", lambda _, page: len(page.objects) if isinstance(page, Page) else 0),
    Hook(Stage.STRIP, api_object, "cut"),  # Records are counted at the transform.
    Hook(Stage.FIFO, DeltaFIFO, "happened", lambda args, _: len(args[1])),
    Hook(Stage.FIFO, DeltaFIFO, "replaced", lambda args, _: len(args[1])),
    Hook(Stage.FIFO, DeltaFIFO, "end_replace"),
    Hook(Stage.FIFO, DeltaFIFO, "drain"),
    Hook(Stage.COMPARE, Controller, "_process"),
    Hook(Stage.COMPARE, Controller, "handle_deltas", lambda args, _: len(args[1])),
    Hook(Stage.COMMIT, Exporter, "export"),
    Hook(Stage.COMMIT, Appender, "append", lambda _, deltas: len(deltas)),
    Hook(Stage.COMMIT, writer.Writer, "_commit"),
    Hook(Stage.COMMIT, writer, "_finish"),
    Hook(Stage.COMMIT, Outbox, "run"),
    Hook(Stage.COMPRESS, statements, "rows", lambda _, rows: len(rows)),
    Hook(Stage.DISTRIBUTE, SharedProcessor, "distribute"),
    Hook(Stage.DISTRIBUTE, SinkFeed, "take", lambda _, fetch: len(fetch.items)),
    Hook(Stage.ENCODE, BatchResult, "encode"),
    Hook(Stage.ENCODE, CloudEvents, "headers"),
    Hook(Stage.ENCODE, CloudEvents, "data", lambda _, __: 1),
    # The work of a sink's tasks, without other stages.
    Hook(Stage.DELIVER, SinkWorker, "run"),
    Hook(Stage.DELIVER, SinkAttempts, "deliver", lambda args, result: len(args[1]) - len(result[0].pending)),
)

_TRANSFORM = (transform, "transform_for")
_EXECUTOR = (base_events.BaseEventLoop, "run_in_executor")
_TURN = (base_events.BaseEventLoop, "_run_once")
_MADE = (_CONNECTION, ResponseHandler)
_OF_MAKER = ((_CONNECTION, "_read_ready"), (ResponseHandler, "data_received"))

TOUCHED: tuple[tuple[type | ModuleType, str], ...] = (
    *((hook.owner, hook.name) for hook in HOOKS),
    _TRANSFORM,
    _EXECUTOR,
    _TURN,
    *((made, "__init__") for made in _MADE),
    *_OF_MAKER,
)
"""Every attribute that is replaced while a profile runs."""


@contextmanager
def profiled() -> Iterator[Clocks]:
    """Installs the clocks inside the context. Enter it on the event loop, before the bridge is created."""
    clocks = calibrated()
    with ExitStack() as undo:
        for hook in HOOKS:
            function = getattr(hook.owner, hook.name)
            around = clocks.stepped if inspect.iscoroutinefunction(function) else clocks.timed
            _replace(undo, hook.owner, hook.name, around(hook.stage, function, hook.count))
        _replace(undo, *_TRANSFORM, _transform_timed(clocks))
        _replace(undo, *_EXECUTOR, clocks.of_caller(base_events.BaseEventLoop.run_in_executor))
        _replace(undo, *_TURN, clocks.turn(vars(_TURN[0])["_run_once"]))
        for made in _MADE:
            _replace(undo, made, "__init__", clocks.made(vars(made)["__init__"]))
        for made, name in _OF_MAKER:
            _replace(undo, made, name, clocks.of_maker(vars(made)[name]))
        loop = asyncio.get_running_loop()
        undo.callback(loop.set_task_factory, loop.get_task_factory())
        loop.set_task_factory(clocks.task)
        yield clocks


def _transform_timed(clocks: Clocks) -> Callable[..., Any]:
    transform_for = transform.transform_for
    return lambda *args: clocks.timed(Stage.STRIP, transform_for(*args), lambda _args, _result: 1)


def _events(answer: object) -> int:
    return len(answer.events) if isinstance(answer, Announced) else 0


def _replace(undo: ExitStack, owner: type | ModuleType, name: str, by: Any) -> None:
    there = vars(owner)[name]
    if isinstance(owner, ModuleType):
        _rename(name, there, by)
        undo.callback(_rename, name, by, there)
    else:
        setattr(owner, name, by)
        undo.callback(setattr, owner, name, there)


def _rename(name: str, there: Any, by: Any) -> None:
    """Replaces a function in every module that imported it by name. Modules that are imported later get it too."""
    for module in list(sys.modules.values()):
        if getattr(module, "__dict__", {}).get(name) is there:
            setattr(module, name, by)
