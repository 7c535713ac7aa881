"""Knows the topics of a sink: which of them hold the records of a resource, by the ``topic`` template (``TopicNames``),
and what brokers say of them: whether a topic can be written to, its partitions, its cleanup policy (``Topics``).

The sink asks before the first record of each topic: the producer itself would keep records for an unknown topic for
half a minute and then fail them without a reason.

Brokers with ``auto.create.topics.enable``, which is Kafka's default, create a topic that a request for metadata names,
with their own number of partitions and without compaction. So no client of the sink permits that, ``mistakes`` asks for
all topics and for none by its name, and a missing topic is created in one place: as ``create_topics`` says, or else by
the brokers, unless it must be compacted.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from concurrent.futures import TimeoutError as FuturesTimeout
from contextlib import suppress
from string import Formatter
from typing import Any, NamedTuple

import msgspec
from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic, Uuid

from bridge.model.formats.object_paths import ABSENT, CORE
from bridge.model.record import Concern, Gap
from bridge.model.resource import Resource
from sinks.kafka.config import ClientConfig
from sinks.kafka.encode import topic_part
from sinks.kafka.memory import MAX_MARKED_PARTITIONS, TopicState
from sinks.kafka.options import KafkaOptions, RecordKey
from sinks.kafka.producer import KafkaProducer
from sinks.kafka.verdicts import MISSING
from sinks.reader import ReadFilter
from sinks.receipt import SinkUnavailable
from sinks.template import NOTICE, Template

# ── Names ────────────────────────────────────────────────────────────────────

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


# ── Topics as brokers know them ──────────────────────────────────────────────

_PAUSES = (0.0, 0.1, 0.2, 0.4, 0.8)
"""Seconds before each check: a topic that was just created, by the sink or by a broker, appears after a moment."""

_FIRST_HOLD = 1.0
_LONGEST_HOLD = 30.0
"""Seconds for which a topic that refused a record is held."""
_LOOK = 2.0
"""Seconds that brokers have to describe a topic which is held."""

_NO_ID = str(Uuid(0, 0))
"""Brokers before Kafka 2.8 have no ids of topics."""
_NOT_PERMITTED = {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED}
_COMPACT = "compact"
_MISSING = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.LEADER_NOT_AVAILABLE}


class HeldTopic(NamedTuple):
    reason: str
    pause: float
    """Seconds between the last refusal and the next attempt."""
    until: float
    """On the monotonic clock."""


class Topics:
    """Caches the answers of the brokers; every blocking request runs in ``threads``."""

    def __init__(self, options: KafkaOptions, config: ClientConfig, threads: Executor) -> None:
        self._options = options
        self._config = config
        self._threads = threads
        self.usable: set[str] = set()
        """Topics that records were sent to, or that were looked at."""
        self.forgotten: set[str] = set()
        """Topics that were used once, and were missing or refused later."""
        self.held: dict[str, HeldTopic] = {}
        """Topics that refused their last record, although they can be described."""
        self.compact_only = {options.topic_of_progress} if options.exactly_once else set[str]()
        """Topics that must keep the newest record of each key for ever. Names stay here."""
        self.single = options.topic_of_progress if options.exactly_once else ""
        """The topic that is made with a single partition."""
        self.unmarkable: set[str] | None = set() if options.exactly_once else None
        """Topics that refused markers; None for a sink that tries again at the next notice."""
        self._policies: dict[str, str | None] = {}
        """``cleanup.policy``; None where asking is not permitted."""

    def refused(self, topic: str, error: KafkaError) -> None:
        """A record of this topic got an error about the topic. If metadata do not show it, the topic's records wait for
        a while before one of them is sent again: a refusal makes the producer stop."""
        if error.code() in MISSING:
            self.forget(topic)
        else:
            self._hold(topic, f"topic {topic}: {error.str()}")

    def release(self, topics: Iterable[str]) -> None:
        """They have taken records."""
        for topic in topics:
            self.held.pop(topic, None)

    async def short_of_replicas(self, producer: KafkaProducer, topics: Collection[str]) -> dict[str, str]:
        """Topic → reason, of the given topics that have fewer replicas in sync than they need: librdkafka keeps their
        records until they have enough, and says nothing. Such a topic is held, as one that refuses."""
        if not topics:
            return {}
        run = asyncio.get_running_loop().run_in_executor
        found = await run(self._threads, self._short_of_replicas, producer, [*topics])
        for topic, reason in found.items():
            self._hold(topic, reason)
        return found

    def _hold(self, topic: str, reason: str) -> None:
        self.usable.discard(topic)
        before = self.held.get(topic)
        pause = _FIRST_HOLD if before is None else min(2 * before.pause, _LONGEST_HOLD)
        self.held[topic] = HeldTopic(reason, pause, time.monotonic() + pause)

    def forget(self, topic: str) -> None:
        """Ask again before the next record of this topic."""
        self.usable.discard(topic)
        self.forgotten.add(topic)
        self._policies.pop(topic, None)

    async def unusable(self, producer: KafkaProducer, topics: Iterable[str]) -> dict[str, str]:
        """Topic → reason, of the given topics that cannot be written to now. Creates missing topics if the options say
        so."""
        unknown, now = set(topics) - self.usable, time.monotonic()
        held = {topic: self.held[topic].reason for topic in self.held.keys() & unknown if now < self.held[topic].until}
        unknown -= held.keys()
        if not unknown:
            return held
        unusable = await asyncio.get_running_loop().run_in_executor(self._threads, self._check, producer, unknown)
        for topic in self.held.keys() & unusable.keys():
            self._hold(topic, unusable[topic])
        self.usable |= unknown - unusable.keys()
        self.forgotten -= self.usable
        return held | unusable

    async def partition_counts(self, producer: KafkaProducer) -> dict[str, int]:
        """Topic → number of partitions, of every topic that the brokers show. Raises SinkUnavailable."""
        timeout = self._options.connect_timeout
        try:
            found = await asyncio.get_running_loop().run_in_executor(self._threads, producer.metadata, None, timeout)
        except KafkaException as error:
            raise SinkUnavailable(producer.last_error or error.args[0].str()) from error
        return {name: len(topic.partitions) for name, topic in found.topics.items() if topic.error is None}

    def describe(self, topics: Sequence[str]) -> dict[str, TopicState]:
        """Topics without an answer are left out. Blocks."""
        if not topics:
            return {}
        try:
            admin = self._admin()
            timeout = self._options.connect_timeout
            asked = admin.describe_topics(TopicCollection([*topics]), request_timeout=timeout)
        except (KafkaException, SinkUnavailable):
            return {}
        found = {}
        for topic, answer in asked.items():
            with suppress(KafkaException, FuturesTimeout):
                described = answer.result(timeout)
                found[topic] = TopicState(
                    "" if str(described.topic_id) == _NO_ID else str(described.topic_id), len(described.partitions)
                )
        return found

    async def compacted(self, topics: Iterable[str]) -> dict[str, bool | None]:
        """Whether each topic keeps only the newest record of a key, and so refuses records without a key; None where
        asking is not permitted, or no broker answered."""
        wanted = set(topics)
        if unknown := sorted(wanted - self._policies.keys()):
            found = await asyncio.get_running_loop().run_in_executor(self._threads, self._cleanup_policies, unknown)
            self._policies |= found
        policies = {topic: self._policies.get(topic) for topic in wanted}
        return {topic: None if policy is None else _COMPACT in policy for topic, policy in policies.items()}

    async def mistakes(self, wanted: Sequence[str]) -> list[str]:
        """Sentences about topics that records cannot go to, or should not. Raises SinkUnavailable."""
        run = asyncio.get_running_loop().run_in_executor
        missing = await run(self._threads, self._missing, wanted)
        found = []
        if missing:
            found = [f"no topic {', '.join(missing)}, and brokers create none: create them, or set create_topics"]
        if self._options.key is RecordKey.NAMESPACE:
            compacted = await self.compacted(set(wanted) - set(missing))
            found += [
                f"topic {topic} is compacted, and with key: namespace keeps a single record of each namespace"
                for topic in sorted(compacted)
                if compacted[topic]
            ]
        if states := sorted(self.compact_only & set(wanted) - set(missing)):
            found += (await run(self._threads, self._not_compacted, states)).values()
        return found

    def set_compacted(self, topic: str, compacted: bool) -> None:
        """A broker has shown by its answer to a record whether the topic is compacted."""
        self._policies[topic] = _COMPACT if compacted else "delete"

    def _cleanup_policies(self, topics: list[str]) -> dict[str, str | None]:
        return self._settings(topics, "cleanup.policy")

    def _settings(self, topics: list[str], name: str) -> dict[str, str | None]:
        """Topic → its setting of this name; None where asking is not permitted. Topics without an answer are left
        out. Blocks."""
        try:
            admin = self._admin()
        except (KafkaException, SinkUnavailable):
            return {}
        timeout = self._options.connect_timeout
        asked = admin.describe_configs(
            [ConfigResource(ResourceType.TOPIC, topic) for topic in topics], request_timeout=timeout
        )
        found: dict[str, str | None] = {}
        for resource, answer in asked.items():
            try:
                found[resource.name] = str(answer.result(timeout)[name].value)
            except KafkaException as error:
                if error.args[0].code() in _NOT_PERMITTED:
                    found[resource.name] = None
            except (TimeoutError, KeyError):
                continue
        return found

    def _check(self, producer: KafkaProducer, topics: set[str]) -> dict[str, str]:
        unusable = dict.fromkeys(topics, "")
        created = False
        try:
            for pause in _PAUSES:
                # Blocks: runs in a thread of the sink.
                time.sleep(pause)
                errors = {topic: _error_of(producer, topic, self._options.connect_timeout) for topic in unusable}
                unusable = {topic: self._reason(topic, error) for topic, error in errors.items() if error is not None}
                missing = [topic for topic, error in errors.items() if error and error.code() in _MISSING]
                if not missing:
                    break
                if not created:
                    unusable |= self._create(missing)
                    created = True
        except KafkaException as error:
            return dict.fromkeys(unusable, producer.last_error or error.args[0].str())
        except SinkUnavailable as error:
            return dict.fromkeys(unusable, str(error))
        if states := sorted(self.compact_only & topics - unusable.keys()):
            unusable |= self._not_compacted(states)
        if again := sorted(self.held.keys() & topics - unusable.keys()):
            unusable |= self._short_of_replicas(producer, again)
        return unusable

    def _short_of_replicas(self, producer: KafkaProducer, topics: list[str]) -> dict[str, str]:
        """Topics without an answer are left out. Blocks."""
        found = {}
        try:
            partitions = {topic: producer.metadata(topic, _LOOK).topics[topic].partitions for topic in topics}
        except KafkaException:  # Brokers are away.
            return {}
        for topic, setting in self._settings(topics, "min.insync.replicas").items():
            for partition in partitions[topic].values():
                in_sync, needed = len(partition.isrs), min(int(setting or 0), len(partition.replicas))
                if in_sync < needed:
                    why = f"a partition has {in_sync} replicas in sync, min.insync.replicas is {needed}"
                    found[topic] = f"topic {topic}: {why}"
        return found

    def _not_compacted(self, states: list[str]) -> dict[str, str]:
        """Topic → reason, of the topics of states or progress that brokers would empty. Where asking is not permitted,
        the operator is trusted. Blocks."""
        return {
            topic: f"topic {topic}: cleanup.policy is {policy}, which removes the newest records; set it to {_COMPACT}"
            for topic, policy in self._cleanup_policies(states).items()
            if policy is not None and policy != _COMPACT
        }

    def _create(self, topics: list[str]) -> dict[str, str]:
        """Topic → reason, of the topics that could not be created."""
        admin, how = self._admin(), self._options.create_topics
        if how is None:
            for topic in set(topics) - self.compact_only:
                admin.list_topics(topic, timeout=self._options.connect_timeout)  # Brokers may create what is named.
            return {}
        wanted = [
            NewTopic(
                topic,
                1 if topic == self.single else how.partitions,
                how.replication_factor,
                config={"cleanup.policy": _COMPACT} if topic in self.compact_only else {},
            )
            for topic in topics
        ]
        failed = {}
        for topic, created in admin.create_topics(wanted, operation_timeout=self._options.connect_timeout).items():
            try:
                created.result(self._options.connect_timeout)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    failed[topic] = f"topic {topic} cannot be created: {error.args[0].str()}"
        return failed

    def _missing(self, wanted: Sequence[str]) -> list[str]:
        """The wanted topics that do not exist and that neither the sink nor the brokers create. Brokers create none
        that is compacted. Blocks. Raises SinkUnavailable."""
        if self._options.create_topics is not None:
            return []
        servers, timeout = self._options.bootstrap_servers, self._options.connect_timeout
        try:
            admin = self._admin()
            # Asks for all topics: a broker may create a topic that is asked for by name.
            found = admin.list_topics(timeout=timeout)
            missing = [topic for topic in dict.fromkeys(wanted) if topic not in found.topics]
            if missing and _brokers_create_topics(admin, found, timeout):
                return [topic for topic in missing if topic in self.compact_only]
            return missing
        except KafkaException as error:
            raise SinkUnavailable(f"cannot look at topics of {servers}: {error.args[0].str()}") from error

    def _admin(self) -> AdminClient:
        """Hold it until its answers are there: a client that is collected gives none. Blocks. Raises KafkaException and
        WrongOption."""
        # log_level 0: librdkafka would write lines of its own to standard error.
        return AdminClient(self._config.connection() | {"log_level": 0})

    def _reason(self, topic: str, error: KafkaError) -> str:
        if error.code() in _MISSING:
            how = f" with cleanup.policy {_COMPACT}" if topic in self.compact_only else ""
            return f"topic {topic} does not exist; create it{how}, or set create_topics"
        if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            return f"topic {topic}: not authorized to describe and write it"
        return f"topic {topic}: {error.str()}"


def _error_of(producer: KafkaProducer, topic: str, timeout: float) -> KafkaError | None:
    """None when the topic can be written to."""
    found = producer.metadata(topic, timeout).topics[topic]
    if found.error is not None:
        error: KafkaError = found.error
        return error
    return None if found.partitions else KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)


def _brokers_create_topics(admin: AdminClient, found: Any, timeout: float) -> bool:
    """False also where asking is not permitted: the operator should know of topics that may be missing."""
    broker = ConfigResource(ConfigResource.Type.BROKER, str(next(iter(found.brokers))))
    (answer,) = admin.describe_configs([broker], request_timeout=timeout).values()
    try:
        return str(answer.result(timeout)["auto.create.topics.enable"].value).lower() == "true"
    except (KafkaException, KeyError, FuturesTimeout):
        return False
