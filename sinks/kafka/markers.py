"""Where a notice is told beside its topic: in every partition of the topics that it is about, between the records in
front of it and those behind. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bridge.model.record import Concern, Gap
from bridge.model.resource import Resource
from bridge.model.versions.stored_version import ReadFilter
from sinks.kafka.memory import MOST_PARTITIONS
from sinks.kafka.names import topics_of
from sinks.template import Template

Place = tuple[str, int]
"""A topic and one of its partitions."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Over which topics, and whether these are all."""

    topics: tuple[str, ...]
    whole: bool


@dataclass(frozen=True, slots=True)
class Naming:
    """How this sink calls its topics."""

    text: str
    cluster: str
    template: Template

    def spread_of(self, gap: Gap, watched: Sequence[Resource], there: Mapping[str, int]) -> Spread:
        """Of a gap. ``watched`` counts where the gap may be about anything. A topic that is not there, or may come with
        another namespace, gets no marker."""
        concerns = gap.concerns if gap.only else (*gap.concerns, *(Concern(resource) for resource in watched))
        topics: dict[str, None] = {}
        whole = gap.only
        for concern in concerns:
            found, all_of_them = self._topics_of(concern, there)
            topics |= dict.fromkeys(found)
            whole = whole and all_of_them
        return bounded(topics, there, whole=whole)

    def _topics_of(self, concern: Concern, there: Mapping[str, int]) -> tuple[Iterable[str], bool]:
        resource = concern.resource
        if resource.namespaced and concern.namespace is None and self.template.needs_namespace:
            sought = ReadFilter(resource.group, resource.version, resource.plural, resource.kind, None)
            form = re.compile(topics_of(self.text, self.cluster, (sought,)))
            return [topic for topic in there if form.fullmatch(topic)], False
        topic = self.template.of_namespace(resource, concern.namespace)
        return ([topic], True) if topic in there else ([], False)


def bounded(topics: Iterable[str], there: Mapping[str, int], *, whole: bool) -> Spread:
    """None of them where they have too many partitions."""
    names = tuple(topics)
    if sum(there.get(topic, 0) for topic in names) > MOST_PARTITIONS:
        return Spread((), whole=False)
    return Spread(names, whole)


def partitions(topics: Iterable[str], there: Mapping[str, int]) -> list[Place]:
    return [(topic, number) for topic in topics for number in range(there.get(topic, 0))]
