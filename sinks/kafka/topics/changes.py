"""Changes of topics that their owners made: created again, more partitions. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec

MOST_TOPICS = 200
"""Topics whose changes are noticed: they are saved with the cursor."""


class TopicState(msgspec.Struct, frozen=True, array_like=True):
    """A topic as the brokers described it."""

    id: str
    """A topic that is created again has another id. Empty where the brokers have no ids."""
    partitions: int


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


def in_words(changes: TopicChanges, known: Mapping[str, TopicState], found: Mapping[str, TopicState]) -> Iterator[str]:
    """A sentence for each topic that has grown."""
    for name in changes.grown:
        yield (
            f"topic {name} has {found[name].partitions} partitions, it had {known[name].partitions}: later records of"
            " an object may be in another partition than its earlier ones, and between the two there is no order"
        )


def key_in_words(before: str, now: str) -> str:
    """A sentence about the option ``key``."""
    return (
        f"key is {now}, it was {before}: records in the topics keep their former keys, so later records of an object"
        " may be in another partition, and compacted topics keep its last record under each key"
    )


def state_in_words(topic: str) -> str:
    """A sentence about a ``state_topic`` that a sink has got since it began."""
    late = "gets the objects that change from now on; kubedelta snapshot writes the others"
    return f"state_topic {topic} is new, and {late}"
