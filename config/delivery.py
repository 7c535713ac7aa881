"""What may be set for a sink of any type, beside its own options."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from bridge.model.policies import OnRejected, StartPolicy, WhenFull
from config.values import Between, Count, Duration, Positive, Section, Size


class MaxBacklogSettings(Section):
    """How far behind one sink may be."""

    records: Positive | None = Field(
        default=None,
        description="Most records that the sink has not settled; it is looked at four times a second, and at most half "
        "as many are in flight. With compact, the newest state of each object is kept, however many there are.",
        examples=[1_000_000],
    )
    # Less than one batch would never do.
    bytes: Annotated[Size, Between(1024**2)] | None = Field(
        default=Size(4 * 1024**3),
        description="Most bytes that these take in the outbox, where bodies are compressed: 4GiB hold about two "
        "million changes to pods. A number, or with a unit such as 10GiB; null for no bound. It must fit the disk.",
    )
    age: Annotated[Duration, Between(1)] | None = Field(
        default=None,
        description="Longest time that the oldest of them may have waited.",
        examples=["12h"],
    )


class DeliverySettings(Section):
    """What may be set for a sink of any type, beside its own options."""

    start: StartPolicy = Field(
        default=StartPolicy.SNAPSHOT,
        description="Where a new sink begins, one whose name the state does not remember; for any other it says "
        "nothing. snapshot: with every known object as added, between a snapshot.began and a snapshot.ended, so that "
        "its consumers know the whole state. now: with what happens from here on. earliest: with the oldest record "
        "that the outbox still has (state.retain).",
    )
    max_backlog: MaxBacklogSettings = Field(
        default=MaxBacklogSettings(),
        description="How far behind the sink may be; whichever bound is met first counts. Being behind costs disk, "
        "never memory, and no other sink anything.",
    )
    when_full: WhenFull = Field(
        default=WhenFull.COMPACT,
        description="What happens at the bound of max_backlog. compact: the backlog is reduced to the newest state of "
        "each object; who keeps state loses nothing, an audit trail loses the steps in between. block: nothing more "
        "is read from the API server, for any sink, until this one has caught up; what the API server forgets "
        "meanwhile (a watch reaches back 75 seconds, or fewer) is found by comparison, without the steps in between. "
        "drop: the backlog is given up, and a Gap record in its place says so.",
    )
    on_rejected: OnRejected = Field(
        default=OnRejected.PARK,
        description="What becomes of the later records of an object after the destination refused one for good, which "
        "is then in the dead letters. park: they wait there behind it, so that the destination never sees them "
        "without it. pass: they are delivered.",
    )
    window: Count = Field(
        default=5000,
        ge=1,
        le=1_000_000,
        description="Records held ready in memory for this sink. One that is further behind reads on from the outbox, "
        "so a larger window costs memory and saves little.",
    )
    resync_seconds: Duration = Field(
        default=Duration(0),
        description="Time between two tellings of every known object to this sink (op: sync), without asking the "
        "API server; 0 for never. For consumers that cannot keep state.",
    )
