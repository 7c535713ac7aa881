"""Facts: events of the bridge as frozen records, named in the past tense. A fact is about a request, a batch or a
state, and never about a single change, so that reporting stays cheap.

cluster    the connection to the API server, discovery, the cluster's identity
delivery   commits and selections, backlogs, deliveries, their failures, the circuit
election   the Lease: who holds it, and its renewals
informer   lists, watches, the server's history
outbox     the state directory, backfills
process    the process, its signals and its clients

A room reports a fact, and the class of the fact says all that observers do with it:

- Its log line is a ``level`` and a ``sentence``, and all fields stand beside the sentence. Where the line depends on
  the fields or on earlier facts, the class has a method ``log`` instead, which writes to a FactLog.
- A ``counter`` counts the facts of a class. A fact that moves other metrics, or by more, has a method ``counts``
  instead, which yields the series and by how much; these metrics are constants in front of their first fact.

So a new fact or metric is an edit of one file here, beside its row in the documents.

Invariant, with its test:

- Rooms report facts, and neither count nor log. ``tests/bridge/telemetry/test_logs.py``
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from typing import ClassVar, Literal, TypeAlias

import msgspec

from bridge.model.resource import Resource, Scope
from bridge.telemetry.fact_log import FactLog, Level


class Metric:
    """A metric that facts move: its name (``kubedelta_`` is put in front), its help text, and its labels. A Metric has
    no value; the observer ``Metrics`` keeps the series."""

    def __init__(
        self,
        name: str,
        text: str,
        per: Literal["", "resource", "sink"] = "",
        *,
        kind: Literal["counter", "summary", "histogram"] = "counter",
        buckets: tuple[float, ...] = (),
        **labels: Iterable[str],
    ) -> None:
        """``per``: the owner of the series, whose name is the first label; they begin and end with it. ``labels``: the
        further labels, each with the values that have a series at zero from the start, since a rate needs the zero
        before the first failure. ``buckets``: of a histogram."""
        self.name = f"kubedelta_{name}"
        self.text = text
        self.per = per
        self.kind = kind
        self.buckets = buckets
        self.labels = ((per,) if per else ()) + tuple(labels)
        self.expected = tuple(product(*labels.values()))
        """Values of ``labels`` that have a series from the start."""


Series: TypeAlias = tuple[Metric, *tuple[str, ...]]
"""A metric, and a value for each of its labels."""
Counts: TypeAlias = Iterable[tuple[Series, float]]
"""Each series, and how much it grows by; for a summary or histogram, what it observes."""


class Fact(msgspec.Struct, frozen=True):
    """An event of the bridge."""

    level: ClassVar[Level] = "info"
    sentence: ClassVar[str] = ""
    counter: ClassVar[Metric | None] = None
    """Counts facts of this class. Its labels are fields."""

    def log(self, log: FactLog) -> None:
        """Writes the lines of this fact."""
        log.write(self.level, self.sentence, **msgspec.structs.asdict(self))

    def counts(self) -> Counts:
        """The series that this fact moves, and by how much."""
        if self.counter is not None:
            yield (self.counter, *(str(getattr(self, label)) for label in self.counter.labels)), 1


class ResourceFact(Fact, frozen=True):
    """An event of the informer of a resource in a scope."""

    resource: Resource
    scope: Scope

    @property
    def named(self) -> dict[str, str]:
        """The fields of a log line that name the informer."""
        named = {"resource": self.resource.name}
        return named if self.scope == Scope() else named | {"scope": str(self.scope)}

    def log(self, log: FactLog) -> None:
        fields = msgspec.structs.asdict(self)
        del fields["resource"], fields["scope"]
        log.write(self.level, self.sentence, **self.named, **fields)


Report: TypeAlias = Callable[[Fact], None]


def discard(_fact: Fact) -> None:
    """A Report that drops facts, for rooms used as a library (as logr.Discard does with log lines)."""
