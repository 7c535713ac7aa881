"""The page of a running bridge, if one is configured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from bridge.facts import Report
from bridge.model.admin import AdminOperations
from bridge.model.primitives.addresses import host_and_port
from bridge.model.record import Record
from bridge.model.status import StatusSnapshot
from bridge.pipelines.sink_pipeline import SinkPipeline
from bridge.plan.plan import Plan, PlanRefused
from bridge.processor.shared_processor import SharedProcessor

if TYPE_CHECKING:
    from bridge.page.server import PageServer
    from bridge.page.tail import Form


class RunningSources:
    """See PageSources."""

    def __init__(
        self,
        processor: SharedProcessor[Record],
        pipelines: Mapping[str, SinkPipeline],
        snapshot: Callable[[], StatusSnapshot],
    ) -> None:
        """``pipelines``: those of the configured sinks at each moment."""
        self.processor = processor
        self.snapshot = snapshot
        self._pipelines = pipelines

    def form(self, sink: str) -> Form | None:
        return self._pipelines[sink].seen if sink in self._pipelines else None


async def start_page(plan: Plan, admin: AdminOperations, sources: RunningSources, report: Report) -> PageServer | None:
    """The page, which listens already; None without one in the plan. Raises PlanRefused if the address is taken. The
    room is imported only here, so that a bridge without a page does not have it in memory."""
    if plan.page is None:
        return None
    from bridge.page.server import PageServer

    page = PageServer(plan.page, admin, sources, report, cluster=plan.cluster)
    try:
        await page.start()
    except OSError as error:
        where = host_and_port(plan.page.host, plan.page.port)
        raise PlanRefused(f"page.listen: cannot listen on {where}: {error.strerror or error}") from error
    return page
