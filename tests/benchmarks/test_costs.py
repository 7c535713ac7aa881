"""The table of what clusters cost, by their changes a second."""

from __future__ import annotations

from benchmarks.cases import BRIDGE, FLOOR
from benchmarks.costs import table
from benchmarks.results import Results


def test_costs_of_a_second_are_those_of_an_event_times_the_rate() -> None:
    lines = table(a_result()).splitlines()

    assert lines[0] == "| changes a second | 50 | 500 | 2,000 |"
    assert "| cores, to Kafka | – | 0.40 | – |" in lines
    assert "| written to disk, KB a second | – | 6,000 | – |" in lines
    assert "| fsyncs a second | – | 50 | – |" in lines


def test_latency_stands_beside_the_floor_of_the_same_rate() -> None:
    results = a_result()
    assert "| latency, median, ms (against the floor) | – | – | – |" in table(results)

    results.of("rate-500", FLOOR).rounds.append({"latency_p50_ms": 4.0})
    assert "| latency, median, ms (against the floor) | – | 12.0 (3.0×) | – |" in table(results)


def a_result() -> Results:
    results = Results({}, {})
    figures = {"cpu_us": 800.0, "written_bytes": 12_000.0, "fsyncs": 0.1, "latency_p50_ms": 12.0}
    results.of("rate-500", BRIDGE).rounds.append(figures)
    return results
