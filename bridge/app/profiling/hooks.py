"""Puts clocks around the functions of each stage, and around those by which one stage works for another."""

from __future__ import annotations

import asyncio
import inspect
from asyncio import base_events, selector_events
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from aiohttp.client_proto import ResponseHandler

from bridge.app.profiling.clocks import Clocks, calibrated
from bridge.app.stages import STAGE_FUNCTIONS, Function, Replacements, Stage, StageFunction, replaced
from bridge.transform.transform import transform_for

_CONNECTION = selector_events._SelectorSocketTransport  # type: ignore[attr-defined]
_TURN = base_events.BaseEventLoop._run_once  # type: ignore[attr-defined]


@contextmanager
def profiled() -> Iterator[Clocks]:
    """Installs the clocks inside the context. Enter it on the event loop, before the bridge is created."""
    clocks = calibrated()
    loop = asyncio.get_running_loop()
    with replaced(replacements(clocks)), ExitStack() as undo:
        undo.callback(loop.set_task_factory, loop.get_task_factory())
        loop.set_task_factory(clocks.task)
        yield clocks


def replacements(clocks: Clocks) -> Replacements:
    return {
        **{staged.function: _clocked(clocks, staged) for staged in STAGE_FUNCTIONS},
        transform_for: lambda made: _transform_timed(clocks, made),
        base_events.BaseEventLoop.run_in_executor: clocks.of_caller,
        _TURN: clocks.turn,
        _CONNECTION.__init__: clocks.made,
        _CONNECTION._read_ready: clocks.of_maker,
        ResponseHandler.__init__: clocks.made,
        ResponseHandler.data_received: clocks.of_maker,
    }


def _clocked(clocks: Clocks, staged: StageFunction) -> Callable[[Function], Function]:
    around = clocks.stepped if inspect.iscoroutinefunction(staged.function) else clocks.timed
    return lambda function: around(staged.stage, function, staged.count)


def _transform_timed(clocks: Clocks, transform_for: Function) -> Function:
    """The transform of each resource belongs to a stage, and not the function that makes it."""
    return lambda *args: clocks.timed(Stage.STRIP, transform_for(*args), lambda _args, _result: 1)
