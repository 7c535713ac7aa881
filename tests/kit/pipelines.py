"""Pipelines whose records a test takes by hand."""

from __future__ import annotations

from typing import cast

from bridge.delivery import SinkWorker
from bridge.delivery.sink_feed import SinkFeed
from bridge.delivery.sink_pipeline import SinkPipeline
from bridge.outbox import Outbox
from bridge.plan.plan import SinkPlan


def without_worker(plan: SinkPlan, feed: SinkFeed, outbox: Outbox) -> SinkPipeline:
    """For rooms that ask a pipeline for its plan and its feed alone."""
    return SinkPipeline(plan, feed, outbox.sinks.dead_letters[plan.name], cast("SinkWorker", None))
