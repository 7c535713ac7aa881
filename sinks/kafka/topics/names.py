"""Which topics hold the records of a resource, by the ``topic`` template. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from string import Formatter

import msgspec

from bridge.model.formats.object_paths import ABSENT, CORE
from bridge.model.record import Concern, Gap
from bridge.model.resource import Resource
from bridge.model.versions.stored_version import ReadFilter
from sinks.kafka.encode import topic_part
from sinks.kafka.memory import MAX_MARKED_PARTITIONS
from sinks.template import NOTICE, Template

_ANYTHING = "[A-Za-z0-9._-]+"
_NAMESPACE = "[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
"""A DNS label."""
_NOTICES = ReadFilter(group=ABSENT, version=ABSENT, plural=NOTICE, kind=ABSENT, namespace="")


class MarkedTopics(msgspec.Struct, frozen=True):
    """The topics that get the markers of a notice."""

    names: tuple[str, ...]
    complete: bool
    """These are all topics that the notice is about. If not, later records have to name the gap."""


class TopicNames(msgspec.Struct, frozen=True):
    """The names of a sink's topics."""

    text: str
    cluster: str
    template: Template

    def topics_of_gap(self, gap: Gap, watched: Sequence[Resource], partition_counts: Mapping[str, int]) -> MarkedTopics:
        """``watched`` resources count when the gap may be about any resource. A topic that does not exist gets no
        marker, nor does a topic that may appear later with a new namespace."""
        concerns = gap.concerns if gap.only else (*gap.concerns, *(Concern(resource) for resource in watched))
        topics: dict[str, None] = {}
        complete = gap.only
        for concern in concerns:
            found, all_of_them = self._topics_of(concern, partition_counts)
            topics |= dict.fromkeys(found)
            complete = complete and all_of_them
        return within_bound(topics, partition_counts, complete=complete)

    def concerns_of(self, topics: Iterable[str], watched: Iterable[Resource]) -> tuple[Concern, ...]:
        """The objects whose records are in these topics. ``watched``: the resources that are considered."""
        return tuple(
            dict.fromkeys(
                concern
                for resource in watched
                for topic in topics
                if (concern := self._concern(resource, topic)) is not None
            )
        )

    def _concern(self, resource: Resource, topic: str) -> Concern | None:
        """None if no record of the resource is in the topic."""
        if not (resource.namespaced and self.template.needs_namespace):
            return Concern(resource) if self.template.of_namespace(resource, None) == topic else None
        # A name of a namespace has no character that Kafka forbids, so it stands in the topic as it is.
        mark = "namespace-goes-here"
        before, *rest = map(re.escape, self.template.of_namespace(resource, mark).split(mark))
        pattern = before + f"({_NAMESPACE})" + r"\1".join(rest)
        found = re.fullmatch(pattern, topic)
        return None if found is None else Concern(resource, found[1])

    def _topics_of(self, concern: Concern, partition_counts: Mapping[str, int]) -> tuple[Iterable[str], bool]:
        resource = concern.resource
        # A namespace that appears later has a topic that cannot be marked now, so the topics are never complete.
        if resource.namespaced and concern.namespace is None and self.template.needs_namespace:
            sought = ReadFilter(resource.group, resource.version, resource.plural, resource.kind, None)
            form = re.compile("|".join(_patterns(self.text, self.cluster, (sought,))))
            return [topic for topic in partition_counts if form.fullmatch(topic)], False
        topic = self.template.of_namespace(resource, concern.namespace)
        return ([topic], True) if topic in partition_counts else ([], False)


def within_bound(topics: Iterable[str], partition_counts: Mapping[str, int], *, complete: bool) -> MarkedTopics:
    """No topics at all when they have more than ``MAX_MARKED_PARTITIONS`` partitions together."""
    names = tuple(topics)
    if sum(partition_counts.get(topic, 0) for topic in names) > MAX_MARKED_PARTITIONS:
        return MarkedTopics((), complete=False)
    return MarkedTopics(names, complete)


def topics_pattern(
    template: str, cluster: str, sought: Iterable[ReadFilter], notice_topic: str | None = None
) -> re.Pattern[str]:
    """Matches the topics that may hold these objects, and the topic of notices."""
    notices = _patterns(template, cluster, (_NOTICES,)) if notice_topic is None else {re.escape(notice_topic): None}
    return re.compile("|".join(_patterns(template, cluster, sought) | notices))


def _patterns(template: str, cluster: str, sought: Iterable[ReadFilter]) -> dict[str, None]:
    parts = list(Formatter().parse(template))
    return dict.fromkeys(_pattern(parts, cluster, each) for each in sought)


def _pattern(parts: Sequence[tuple[str, str | None, str | None, str | None]], cluster: str, sought: ReadFilter) -> str:
    values = {
        "cluster": cluster,
        "group": CORE if sought.group == "" else sought.group,
        "version": sought.version,
        "resource": sought.plural,
        "kind": sought.kind,
        "namespace": ABSENT if sought.namespace == "" else sought.namespace,
    }
    pattern = ""
    for literal, name, _, _ in parts:
        pattern += re.escape(literal)
        if name is not None:
            value = values[name]
            pattern += _ANYTHING if value is None else re.escape(topic_part(value))
    return pattern
