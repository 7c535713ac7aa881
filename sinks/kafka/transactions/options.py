"""The options of exactly once. Without a client library, as all options."""

from __future__ import annotations

from pydantic import Field

from config.rules import Given, Is, Rule
from config.values import Flag
from sinks.kafka.option_types import TopicName
from sinks.options import EventOptions

PROGRESS_RULE = Rule(
    Given("progress_topic"), Is("exactly_once", True), "progress_topic has no effect without exactly_once"
)


class TransactionOptions(EventOptions):
    """Whether a sink delivers in transactions, and where it stores its progress."""

    exactly_once: Flag = Field(
        default=False,
        description="Deliver in transactions: readers with isolation.level read_committed see every record once,"
        " through kills of the bridge and of brokers. A transaction begins every 100 ms at most, or with"
        " 2000 waiting records, and takes some 50 ms. The transactional id is <cluster>/<sink>/0, that"
        " of a shard <cluster>/<sink>/1-of-4: allow Describe and Write on the prefix <cluster>/<sink>/.",
    )
    progress_topic: TopicName | None = Field(
        default=None,
        description="The topic with the progress of sinks with exactly_once, under their transactional ids. If none"
        " is named, it is kubedelta-progress. It must have cleanup.policy compact; all sinks may share it. Only its"
        " partition 0 is used.",
        examples=["kubedelta-progress"],
    )

    @property
    def topic_of_progress(self) -> str:
        return self.progress_topic or "kubedelta-progress"
