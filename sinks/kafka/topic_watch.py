"""Notices that a topic was deleted and created again, or got more partitions; and changes of options that concern
readers.

The producer uses new partitions by itself, and writes into a topic that was created again as if the topic were the old
one. So the sink asks the brokers about its topics: when it opens, before a record of a topic that was missing, and as
often as the producer asks for metadata. Only the last of these does not wait for the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from time import monotonic

from sinks.kafka.memory import KafkaMemory, TopicState
from sinks.kafka.options import KafkaOptions
from sinks.kafka.topics import Topics

# ── Changes ──────────────────────────────────────────────────────────────────

MAX_WATCHED_TOPICS = 200
"""Topics whose changes are noticed: they are saved with the cursor."""


@dataclass(frozen=True, slots=True)
class TopicChanges:
    """What happened to topics since they were last seen. Names of topics."""

    created_again: tuple[str, ...] = ()
    grown: tuple[str, ...] = ()


def changes_between(known: Mapping[str, TopicState], found: Mapping[str, TopicState]) -> TopicChanges:
    """A topic that is missing in ``found`` has not changed: it may be created again later."""
    both = [(name, known[name], found[name]) for name in sorted(known.keys() & found.keys())]
    created_again = [name for name, before, now in both if before.id and now.id and before.id != now.id]
    grown = [name for name, before, now in both if name not in created_again and now.partitions > before.partitions]
    return TopicChanges(tuple(created_again), tuple(grown))


# ── The watch ────────────────────────────────────────────────────────────────

_INTERVAL = "topic.metadata.refresh.interval.ms"
_DEFAULT_INTERVAL = 300.0
"""Seconds; the default of librdkafka."""
_NEVER = float("inf")


class TopicWatch:
    """Compares the topics with those in the sink's memory."""

    def __init__(self, options: KafkaOptions, topics: Topics, threads: Executor) -> None:
        configured = float(options.properties.get(_INTERVAL, 0)) / 1000
        self._interval = configured if configured > 0 else _DEFAULT_INTERVAL
        self._key = options.key.value
        self._state = options.state_topic or ""
        self._new_options: list[str] = []
        """In words, if ``key`` or ``state_topic`` was changed and that was not reported."""
        self._topics = topics
        self._threads = threads
        self._memory = KafkaMemory()
        self._looking: asyncio.Future[Mapping[str, TopicState]] | None = None
        self._found: Mapping[str, TopicState] = {}
        self.changes = TopicChanges()
        """Noticed and not settled."""
        self.has_changes = False
        """Looked at before every batch."""
        self.at = _NEVER
        """When ``turn`` is to be called next, on the monotonic clock."""

    async def open(self, memory: KafkaMemory) -> None:
        """Looks at the topics in the memory."""
        self._memory = memory
        self.at = monotonic()
        self._new_options = [*self._changed_options(memory)]
        if self._new_options:
            self.has_changes = True
        else:
            memory.key, memory.state = self._key, self._state
        await self.look(memory.topics)
        self._topics.forgotten |= memory.topics.keys() - self._found.keys()

    async def look(self, topics: Iterable[str]) -> None:
        """Asks about these topics, and waits for the answer."""
        if wanted := sorted(topics):
            self._compare(await self._ask(wanted))

    def turn(self) -> None:
        """Begins to ask, or takes the answer."""
        if self._looking is None:
            self.at = _NEVER
            known = dict.fromkeys((*self._memory.topics, *sorted(self._topics.usable)))
            self._looking = self._ask([*known][:MAX_WATCHED_TOPICS])
            self._looking.add_done_callback(lambda _: self._answered())
        elif self._looking.done():
            looking, self._looking = self._looking, None
            self.at = monotonic() + self._interval
            self._compare(looking.result())

    def settle(self) -> str:
        """The changes are known from now on. Returns them in words, apart from topics that were created again."""
        known, found = self._memory.topics, self._found
        sentences = [
            f"topic {name} has {found[name].partitions} partitions, it had {known[name].partitions}: later records of"
            " an object may be in another partition than its earlier ones, and between the two there is no order"
            for name in self.changes.grown
        ]
        sentences += self._new_options
        self._memory.topics |= self._found
        self._memory.key, self._memory.state = self._key, self._state
        self.changes, self.has_changes, self._new_options = TopicChanges(), False, []
        return "; ".join(sentences)

    def _changed_options(self, memory: KafkaMemory) -> Iterator[str]:
        # Every sink that has begun has saved its key.
        if memory.key and memory.key != self._key:
            yield (
                f"key is {self._key}, it was {memory.key}: records in the topics keep their former keys, so later"
                " records of an object may be in another partition, and compacted topics keep its last record under"
                " each key"
            )
        if memory.key and self._state and memory.state != self._state:
            yield (
                f"state_topic {self._state} is new, and gets the objects that change from now on; kubedelta snapshot"
                " writes the others"
            )

    def _ask(self, topics: list[str]) -> asyncio.Future[Mapping[str, TopicState]]:
        return asyncio.get_running_loop().run_in_executor(self._threads, self._topics.describe, topics)

    def _answered(self) -> None:
        self.at = 0.0

    def _compare(self, found: Mapping[str, TopicState]) -> None:
        self._found = {**self._found, **found}
        self.changes = changes = changes_between(self._memory.topics, self._found)
        self.has_changes = bool(changes.created_again or changes.grown or self._new_options)
        if not self.has_changes:
            self._memory.topics |= self._found
