"""What is measured: each case is one question, asked of several contenders under the same load."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from benchmarks.contenders import KUBE_RS_ALONE, PEERS, Bridge, Contender, Floor
from benchmarks.lifecycle import imports, quiet, restart, start
from benchmarks.meter import Figures
from benchmarks.posting import post
from benchmarks.replicas import Replica
from benchmarks.runs import Around, stream
from benchmarks.servers import Load
from benchmarks.shapes import SHAPES, loads
from benchmarks.transactions import ReadBridge
from benchmarks.views import ConditionalBridge, SixViews

Measure = Callable[[Around], Figures]

BRIDGE = "kubedelta"
BRIDGE_PODS = "kubedelta with pods of that size"
BRIDGE_50_MS = "kubedelta with latency 50 ms"
FLOOR = "floor"
SIX_VIEWS = "kubedelta, six views of a tenth"
CONDITIONAL = "kubedelta with a condition on three paths"
EXACTLY_ONCE = "kubedelta, exactly once"
LEADER = "kubedelta as a leader with a follower"
FOLLOWER = "kubedelta as a follower"

_QUIET = 60.0
"""Seconds: bookmarks come once a minute."""


_PAUSES = 20
"""Single events, a second apart."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is done. Everything follows from two numbers."""

    objects: int = 10_000
    events: int = 100_000

    @property
    def many(self) -> int:
        """Objects of a large cluster."""
        return self.objects * 10

    @property
    def growth(self) -> Mapping[str, int]:
        return {f"{size} objects": size for size in (self.objects // 10, self.objects, self.many, self.objects * 30)}


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    title: str
    contenders: Mapping[str, Measure]


TO_KAFKA: Mapping[str, Contender] = {BRIDGE: Bridge("kafka"), **PEERS, FLOOR: Floor(kafka=True)}


AT_A_RATE: Mapping[str, Contender] = {
    BRIDGE: Bridge("kafka", count_fsyncs=True),
    BRIDGE_50_MS: Bridge("kafka", count_fsyncs=True, options={"latency": "50ms"}),
    **{f"{BRIDGE} to {sink}": Bridge(sink, count_fsyncs=True) for sink in ("nats", "file", "webhook")},
    **{name: PEERS[name] for name in ("client-go dynamic", "client-go typed", "kube-rs")},
    FLOOR: Floor(kafka=True),
}
BY_ONE = {name: AT_A_RATE[name] for name in (BRIDGE, "client-go typed", "kube-rs", FLOOR)}

COMMITTED: Mapping[str, Contender] = {
    BRIDGE: ReadBridge(exactly_once=False),
    EXACTLY_ONCE: ReadBridge(exactly_once=True),
}

REPLICAS: Mapping[str, Contender] = {
    BRIDGE: Bridge("kafka"),
    LEADER: Replica(leads=True),
    FOLLOWER: Replica(leads=False),
}

RATES: Mapping[int, int] = {50: 400, 500: 4_000, 2_000: 16_000}
"""Events a second, and the number of events: 8 seconds of them."""


def listing(contender: Contender, load: Load, events: int) -> Measure:
    """What the list took, and what stays in memory. Events follow only so that peers are still there meanwhile."""

    def measure(around: Around) -> Figures:
        figures = stream(around, contender, load, events)
        return {name: value for name, value in figures.items() if name.startswith(("list_", "rest_", "peak_"))}

    return measure


def whole(contender: Contender, load: Load, events: int) -> Measure:
    """The CPU of everything: start, list, events and end."""

    def measure(around: Around) -> Figures:
        figures = stream(around, contender, load, events)
        return {name: figures[name] for name in ("whole_cpu_us", "list_cpu_seconds", "list_seconds", "peak_bytes")}

    return measure


def at_rate(contender: Contender, load: Load, events: int, rate: int) -> Measure:
    """So many events a second, without the figures of the list before."""

    def measure(around: Around) -> Figures:
        figures = stream(around, contender, load, events, rate=rate)
        return {name: value for name, value in figures.items() if not name.startswith(("list_", "whole_", "peak_"))}

    return measure


def shape(name: str, scale: Scale) -> Case:
    """Objects of this shape, listed and then changed at full speed, beside pods of their size."""
    load, pods = loads(name, scale.objects)
    # As many bytes as a quarter of the pods of the first case have.
    events = max(1, min(scale.events, int(scale.events / 4 * 8 / SHAPES[name].kilobytes)))
    peers = {each: PEERS[each] for each in ("client-go dynamic", "client-go typed", "kube-rs")}
    if SHAPES[name].is_custom:
        del peers["client-go typed"]
    measures: dict[str, Measure] = {BRIDGE_PODS: lambda around: stream(around, Bridge("kafka"), pods, events)}
    for each, contender in {BRIDGE: Bridge("kafka"), **peers}.items():
        measures[each] = partial(_streamed, contender, load, events)
    title = (
        f"{SHAPES[name].title[:1].upper()}{SHAPES[name].title[1:]}: {load.pods:,} listed, {events:,} events, to Kafka"
    )
    return Case(f"shape-{name}", title, measures)


def _streamed(contender: Contender, load: Load, events: int, around: Around) -> Figures:
    return stream(around, contender, load, events)


def cases(scale: Scale) -> tuple[Case, ...]:
    """All of them, in the order of a round."""
    load, many = Load(pods=scale.objects), Load(pods=scale.many)
    few = max(scale.events // 100, 1)

    def following(contender: Contender, load: Load = load, events: int = scale.events) -> Measure:
        return lambda around: stream(around, contender, load, events)

    def everyone(load: Load, events: int) -> dict[str, Measure]:
        return {name: following(each, load, events) for name, each in TO_KAFKA.items()}

    sizes = Load(pods=scale.objects // 2, size="mixed")
    resources = Load(pods=scale.objects // 10, size="mixed", widgets=9, widget_objects=scale.objects // 10)
    quietly = Load(pods=0, widgets=200)
    return (
        Case(
            "kafka",
            f"{scale.events:,} events of {scale.objects:,} pods (7.8 KB each) to Kafka",
            {**everyone(load, scale.events), "floor without Kafka": following(Floor(kafka=False))},
        ),
        Case("file", "The same to a file", {BRIDGE: following(Bridge("file"))}),
        Case("nats", "The same to NATS JetStream", {BRIDGE: following(Bridge("nats"))}),
        Case("all", "The same to Kafka, NATS and a file at once", {BRIDGE: following(Bridge("kafka", "nats", "file"))}),
        Case(
            "views",
            "The same to six Kafka sinks with a tenth of the pods each, and to a single sink with a condition",
            {
                BRIDGE: following(Bridge("kafka")),
                SIX_VIEWS: following(SixViews()),
                CONDITIONAL: following(ConditionalBridge()),
            },
        ),
        Case(
            "exactly-once",
            "The same to Kafka, as a reader of committed records gets it, with and without transactions",
            {name: following(each) for name, each in COMMITTED.items()},
        ),
        Case(
            "exactly-once-500",
            f"500 events a second of {scale.objects:,} pods to a reader of committed records",
            {name: at_rate(each, load, RATES[500], 500) for name, each in COMMITTED.items()},
        ),
        Case(
            "election",
            "The same to Kafka, by a bridge without an election, by a leader with a follower, and by that follower",
            {name: following(each) for name, each in REPLICAS.items()},
        ),
        Case(
            "election-500",
            f"500 events a second of {scale.objects:,} pods, without an election, by a leader, and by its follower",
            {name: at_rate(each, load, RATES[500], 500) for name, each in REPLICAS.items()},
        ),
        *(shape(name, scale) for name in SHAPES),
        Case("tls", "The same to Kafka, watched over TLS", {BRIDGE: following(Bridge("kafka", tls=True))}),
        Case(
            "sizes",
            "Pods of 0.5 to 300 KB, 10 KB on average, to Kafka",
            everyone(sizes, scale.events // 4),
        ),
        Case(
            "resources",
            "The same in ten resources",
            {BRIDGE: following(Bridge("kafka"), resources, scale.events // 4)},
        ),
        Case(
            "webhook",
            "To a webhook, one event a request",
            {
                BRIDGE: following(Bridge("webhook"), events=scale.events // 2),
                "bare POST": lambda around: post(around, scale.events // 2, 8, "httpx"),
                "bare transport": lambda around: post(around, scale.events // 2, 8, "transport"),
            },
        ),
        Case(
            "webhook-100",
            "To a webhook, a hundred events a request",
            {BRIDGE: following(Bridge("webhook-100"))},
        ),
        Case(
            "first-list",
            f"The first list: {scale.many:,} pods to Kafka",
            {name: listing(each, many, few) for name, each in TO_KAFKA.items()},
        ),
        Case(
            "growth",
            f"As many events as objects, at least {scale.events // 2:,}, to Kafka, by the number of objects",
            {
                # So many that what is put off (the outbox clears away in bulk) is in the figure.
                name: following(Bridge("kafka"), Load(pods=size), max(scale.events // 2, size))
                for name, size in scale.growth.items()
            },
        ),
        Case(
            "whole",
            f"A whole process: start, list of {scale.objects:,} pods, {scale.objects * 6:,} events at full speed, end",
            {name: whole(each, load, scale.objects * 6) for name, each in {**TO_KAFKA, **KUBE_RS_ALONE}.items()},
        ),
        *(
            Case(
                f"rate-{rate}",
                f"{rate:,} events a second of {scale.objects:,} pods, to Kafka where nothing else is named",
                {name: at_rate(each, load, events, rate) for name, each in AT_A_RATE.items()},
            )
            for rate, events in RATES.items()
        ),
        Case(
            "pause",
            "A single change after a second's pause",
            {name: at_rate(each, load, _PAUSES, 1) for name, each in BY_ONE.items()},
        ),
        Case(
            "restart",
            f"A restart with {scale.many:,} pods known",
            {BRIDGE: lambda around: restart(around, many)},
        ),
        Case(
            "quiet",
            "200 resources on which nothing happens",
            {BRIDGE: lambda around: quiet(around, quietly, _QUIET)},
        ),
        Case(
            "start",
            "From the start of the process to its first request",
            {BRIDGE: start, "importing its dependencies": imports},
        ),
    )
