"""Feeds and pipelines whose records a test takes by hand."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from bridge.delivery import SinkWorker
from bridge.delivery.backfills import begin_replay
from bridge.delivery.sink_feed import Feeds, SinkFeed, record_processor
from bridge.delivery.sink_pipeline import SinkPipeline
from bridge.model.admin import Replayed
from bridge.model.policies import StartPolicy
from bridge.outbox import Outbox
from bridge.plan.plan import SinkPlan


async def opened_feeds(directory: Path, sinks: Mapping[str, StartPolicy | None], **options: Any) -> Feeds:
    """Of an outbox that is opened, and not entered. ``options``: of ``Outbox.open``."""
    processor = record_processor()
    return Feeds(await Outbox.open(directory, sinks, committed=processor.distribute, **options), processor)


def without_worker(plan: SinkPlan, feed: SinkFeed, outbox: Outbox) -> SinkPipeline:
    """For rooms that ask a pipeline for its plan and its feed alone."""
    return SinkPipeline(plan, feed, outbox.sinks.dead_letters[plan.name], cast("SinkWorker", None))


async def replay(
    outbox: Outbox, feed: SinkFeed, start: int | str, kind: int | None = None, namespace: str | None = None
) -> Replayed:
    """To the sink of this feed, as an operator asks for it. Raises UnknownTarget."""
    return await begin_replay(outbox, feed.sink, feed, cluster="test", start=start, kind=kind, namespace=namespace)
