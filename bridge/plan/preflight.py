"""What a run would never get over, found before anything is watched and without asking anybody."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path

from bridge.plan.plan import Plan, SinkPlan
from bridge.web.access import TokenFile


def preflight(plan: Plan) -> Sequence[tuple[str, str]]:
    """The configuration's path and what is wrong there, each; empty where nothing is. Reads files; blocks."""
    found = list(_details_token(plan.details_token_file))
    found += [(f"sinks.{sink.name}.{wrong.option}", wrong.reason) for sink in plan.sinks for wrong in sink.examine()]
    return [*found, *_meetings(plan.sinks)]


def _details_token(file: Path | None) -> Iterator[tuple[str, str]]:
    if file is not None:
        try:
            TokenFile(file).read()
        except ValueError as error:
            yield "telemetry.details_token_file", str(error)


def _meetings(sinks: Sequence[SinkPlan]) -> Iterator[tuple[str, str]]:
    """Sinks that write to one thing, though one of them must be alone there."""
    claimed = [(sink, tuple(sink.claims())) for sink in sinks]
    for (one, its), (other, others) in combinations(claimed, 2):
        both = [(a, b) for a in its for b in others if a.destination == b.destination and (a.exclusive or b.exclusive)]
        if both:
            (first, second), *_ = both
            words = (first if first.exclusive else second).description
            yield f"sinks.{other.name}", f"sinks.{one.name} writes to the same: {words}; give each its own"
