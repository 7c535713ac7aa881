"""What was set out to be reached, in ratios: machines differ and are noisy, ratios hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.cases import BRIDGE, BRIDGE_50_MS, BRIDGE_PODS, CONDITIONAL, FLOOR, FOLLOWER, LEADER, SIX_VIEWS
from benchmarks.results import Results
from benchmarks.shapes import SHAPES

Value = Callable[[Results], float | None]


@dataclass(frozen=True, slots=True)
class Goal:
    what: str
    unit: str
    """Of the value and its limit: empty for a ratio."""
    at_most: float
    value: Value


@dataclass(frozen=True, slots=True)
class Judged:
    goal: Goal
    value: float | None
    """None where something needed was not measured."""

    @property
    def met(self) -> bool | None:
        return None if self.value is None else self.value <= self.goal.at_most


def judge(results: Results) -> list[Judged]:
    return [Judged(goal, goal.value(results)) for goal in GOALS]


def _cpu(case: str, contender: str = BRIDGE) -> tuple[str, str, str]:
    return case, contender, "cpu_us"


def _against(over: tuple[str, str, str], under: tuple[str, str, str]) -> Value:
    return lambda results: results.ratio(over, under)


def _itself(case: str, figure: str, scale: float = 1) -> Value:
    def value(results: Results) -> float | None:
        found = results.median(case, BRIDGE, figure)
        return None if found is None else found * scale

    return value


def _latency(case: str, percentile: str) -> Value:
    """To the broker's append, and from there, at most, all the time between handing over and acknowledgement."""

    def value(results: Results) -> float | None:
        appended = results.median(case, BRIDGE, f"latency_{percentile}_ms")
        acknowledged = results.median(case, BRIDGE, "acknowledged_ms")
        return None if appended is None or acknowledged is None else appended + acknowledged

    return value


def _whole(contender: str, words: str, limit: float) -> Goal:
    under = ("whole", contender, "whole_cpu_us")
    return Goal(f"CPU of a whole process, {words}", "", limit, _against(("whole", BRIDGE, "whole_cpu_us"), under))


def _at_rate(rate: int, limit: float, ours: str = BRIDGE, words: str = "") -> Goal:
    case, typed = f"rate-{rate}", "client-go typed"
    subject = f"CPU per event at {rate:,} events a second{words}, against {typed}"
    return Goal(subject, "", limit, _against(_cpu(case, ours), _cpu(case, typed)))


def _first_list(figure: str, contender: str) -> Value:
    return _against(("first-list", BRIDGE, figure), ("first-list", contender, figure))


def spread(values: Sequence[float]) -> float:
    """How much the largest is above the smallest, as a share of the smallest."""
    return max(values) / min(values) - 1


def steepening(sizes: Sequence[float], values: Sequence[float]) -> float:
    """How much steeper the last piece of a curve is than the line from its first point to its last; 1 for a straight
    line. The sizes rise, and so do the values from first to last."""
    whole = (values[-1] - values[0]) / (sizes[-1] - sizes[0])
    last = (values[-1] - values[-2]) / (sizes[-1] - sizes[-2])
    return last / whole


def _cpu_growth(results: Results) -> float | None:
    found = _by_size(results, "cpu_us")
    return spread([value for _, value in found]) if len(found) > 1 else None


def _memory_growth(results: Results) -> float | None:
    found = _by_size(results, "rest_bytes")
    if len(found) < 3 or found[-1][1] <= found[0][1]:
        return None
    return steepening([size for size, _ in found], [value for _, value in found])


def _by_size(results: Results, figure: str) -> list[tuple[int, float]]:
    medians = {
        int(name.split()[0]): measured.median(figure) for name, measured in results.measured.get("growth", {}).items()
    }
    return sorted((size, value) for size, value in medians.items() if value is not None)


KAFKA = _cpu("kafka")

GOALS = (
    Goal(
        "CPU per event, against client-go's dynamic informer",
        "",
        1 / 10,
        _against(KAFKA, _cpu("kafka", "client-go dynamic")),
    ),
    Goal(
        "CPU per event, against client-go's typed informer",
        "",
        1 / 6,
        _against(KAFKA, _cpu("kafka", "client-go typed")),
    ),
    Goal("CPU per event, against kube-rs", "", 1 / 2, _against(KAFKA, _cpu("kafka", "kube-rs"))),
    Goal("CPU per event, against the floor", "", 5, _against(KAFKA, _cpu("kafka", FLOOR))),
    Goal("CPU per event to a file, against Kafka", "", 1.0, _against(_cpu("file"), KAFKA)),
    Goal("CPU per event to NATS, against Kafka", "", 1.5, _against(_cpu("nats"), KAFKA)),
    Goal("CPU per event to Kafka, NATS and a file at once, against Kafka", "", 2.5, _against(_cpu("all"), KAFKA)),
    Goal(
        "CPU per event to six views of a tenth, against a sink with all",
        "",
        1.3,
        _against(_cpu("views", SIX_VIEWS), _cpu("views")),
    ),
    Goal(
        "CPU per event with a condition on three paths, against none",
        "",
        1.2,
        _against(_cpu("views", CONDITIONAL), _cpu("views")),
    ),
    Goal(
        "CPU per event to a webhook, against a bare POST",
        "",
        1.5,
        _against(_cpu("webhook"), _cpu("webhook", "bare POST")),
    ),
    Goal("CPU per event to a webhook by hundreds, against Kafka", "", 1.5, _against(_cpu("webhook-100"), KAFKA)),
    Goal(
        "CPU per event of a leader with a follower, against no election",
        "",
        1.15,
        _against(_cpu("election", LEADER), _cpu("election")),
    ),
    Goal(
        "The same at 500 events a second",
        "",
        1.1,
        _against(_cpu("election-500", LEADER), _cpu("election-500")),
    ),
    Goal(
        "CPU per event of a follower, against its leader",
        "",
        0.4,
        _against(_cpu("election", FOLLOWER), _cpu("election", LEADER)),
    ),
    *(
        Goal(
            f"CPU per KB, {SHAPES[name].title}, {words}, against a pod of its size",
            "",
            1.5,
            _against((f"shape-{name}", BRIDGE, figure), (f"shape-{name}", BRIDGE_PODS, figure)),
        )
        for name in SHAPES
        for words, figure in (("at full speed", "cpu_us_per_kb"), ("first list", "list_cpu_us_per_kb"))
    ),
    Goal("CPU per event over TLS, against plain HTTP", "", 1.3, _against(_cpu("tls"), KAFKA)),
    Goal(
        "First list, time against client-go's dynamic informer",
        "",
        1 / 8,
        _first_list("list_seconds", "client-go dynamic"),
    ),
    Goal(
        "Memory after it, against client-go's dynamic informer",
        "",
        1 / 30,
        _first_list("rest_bytes", "client-go dynamic"),
    ),
    Goal(
        "Memory after it, against client-go's typed informer", "", 1 / 10, _first_list("rest_bytes", "client-go typed")
    ),
    Goal(
        "Peak of memory, against memory at rest",
        "",
        1.3,
        _against(("first-list", BRIDGE, "peak_bytes"), ("first-list", BRIDGE, "rest_bytes")),
    ),
    Goal("CPU per event, spread over all numbers of objects", "", 0.15, _cpu_growth),
    Goal("Memory per object, last step against all", "", 1.15, _memory_growth),
    _whole("client-go dynamic", "against client-go's dynamic informer", 0.1),
    _whole("client-go typed", "against client-go's typed informer", 0.16),
    _whole("kube-rs without Kafka", "against kube-rs without Kafka", 0.5),
    _at_rate(50, 0.8),
    _at_rate(50, 0.6, BRIDGE_50_MS, " with latency: 50ms"),
    _at_rate(500, 0.35),
    _at_rate(2_000, 0.3),
    Goal("Latency at 500 events a second to the acknowledgement, median", "ms", 20, _latency("rate-500", "p50")),
    Goal(
        "Latency at 500 events a second to the acknowledgement, 99th percentile",
        "ms",
        50,
        _latency("rate-500", "p99"),
    ),
    Goal("Latency of a single change after a pause to the acknowledgement, median", "ms", 8, _latency("pause", "p50")),
    Goal("fsyncs at 500 events a second", "a second", 100, _itself("rate-500", "fsyncs", 500)),
    Goal(
        "Restart to the watch, against the first list",
        "",
        1 / 3,
        _against(("restart", BRIDGE, "watching_seconds"), ("restart", BRIDGE, "list_seconds")),
    ),
    Goal("Lists after a restart", "lists", 0, _itself("restart", "lists_after_restart")),
    Goal("200 quiet resources, CPU", "% of a core", 0.25, _itself("quiet", "core_share", 100)),
    Goal("200 quiet resources, memory", "MB", 150, _itself("quiet", "rest_bytes", 1e-6)),
    Goal(
        "Start to the first request, against importing dependencies",
        "",
        2,
        _against(("start", BRIDGE, "start_seconds"), ("start", "importing its dependencies", "start_seconds")),
    ),
)
