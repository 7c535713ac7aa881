"""Where operators reach the process: the control socket for commands and, if one is configured, the page."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TypeAlias

from bridge.app.admin.commands import AdminOperations
from bridge.app.admin.server import AdminServer
from bridge.model.admin import About
from bridge.model.primitives.network import host_and_port
from bridge.model.record import Record
from bridge.model.status import BridgeStatus
from bridge.outbox import StateUnusable
from bridge.plan.plan import Plan, PlanRefused
from bridge.processor.shared_processor import SharedProcessor
from bridge.telemetry.facts import Report

Form: TypeAlias = Callable[[Record], Record | None]
"""A record of the log → the record as a sink gets it; None if the sink does not get it."""


@dataclass(frozen=True, slots=True)
class PageSources:
    """The running bridge, as far as the page reads it."""

    processor: SharedProcessor[Record]
    status: Callable[[], BridgeStatus]
    form: Callable[[str], Form | None]
    """Sink → the form of its records; None for an unknown sink. It changes with the configuration: asked for each
    batch."""


@asynccontextmanager
async def open_to_operators(
    plan: Plan, operations: AdminOperations, sources: PageSources, report: Report
) -> AsyncIterator[None]:
    """Raises StateUnusable if the socket cannot be made, PlanRefused if the page's address is taken."""
    about = About(os.getpid(), plan.file, "" if plan.listen is None else host_and_port(*plan.listen))
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(AdminServer(plan.state, operations, report, about=about))
        except OSError as error:
            raise StateUnusable(f"state.directory: cannot make admin.sock in {plan.state}: {error}") from error
        if plan.page is not None:
            # Imported only here, so that a bridge without a page does not have it in memory.
            from bridge.app.page.server import PageServer

            page = PageServer(plan.page, operations, sources, report, cluster=plan.cluster)
            try:
                await stack.enter_async_context(page)
            except OSError as error:
                where = host_and_port(plan.page.host, plan.page.port)
                raise PlanRefused(f"page.listen: cannot listen on {where}: {error.strerror or error}") from error
            tasks = await stack.enter_async_context(asyncio.TaskGroup())
            stack.callback(tasks.create_task(page.run(), name="page").cancel)
        yield
