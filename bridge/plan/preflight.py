"""Mistakes that no retry can mend, found before the first watch and without any network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path

from bridge.plan.plan import Plan, SinkPlan
from bridge.web.access import DetailsToken


def preflight(plan: Plan) -> Sequence[tuple[str, str]]:
    """Returns (path of the option, reason) for each mistake. Reads files; blocks."""
    found = list(_details_token(plan.details_token_file))
    found += [(f"sinks.{sink.name}.{wrong.option}", wrong.reason) for sink in plan.sinks for wrong in sink.examine()]
    return [*found, *_meetings(plan.sinks)]


def _details_token(file: Path | None) -> Iterator[tuple[str, str]]:
    if file is not None:
        try:
            DetailsToken(file).read()
        except ValueError as error:
            yield "telemetry.details_token_file", str(error)


def _meetings(sinks: Sequence[SinkPlan]) -> Iterator[tuple[str, str]]:
    """Finds two sinks that write to the same file or topic, although a sink must be its only writer."""
    claimed = [(sink, tuple(sink.claims())) for sink in sinks]
    for (one, its), (other, others) in combinations(claimed, 2):
        both = [(a, b) for a in its for b in others if a.destination == b.destination and (a.exclusive or b.exclusive)]
        if both:
            (first, second), *_ = both
            words = (first if first.exclusive else second).description
            yield f"sinks.{other.name}", f"sinks.{one.name} writes to the same: {words}; give each its own"
