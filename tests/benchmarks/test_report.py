"""Reports: what a reader sees of what was measured."""

from __future__ import annotations

from xml.etree import ElementTree

from benchmarks.cases import BRIDGE
from benchmarks.picture import Bar, cpu_picture, picture
from benchmarks.report import markdown, summary, table
from benchmarks.results import Measured, Results

SVG = "{http://www.w3.org/2000/svg}"


def test_a_table_has_medians_and_ratios_to_the_bridge() -> None:
    lines = table({BRIDGE: cpu(40.0, 50.0, 45.0), "kube-rs": cpu(135.0), "python client": Measured()})

    assert lines == [
        "|  | rounds | CPU µs per event, against kubedelta | CPU µs per event |",
        "| --- | ---: | ---: | ---: |",
        "| kubedelta | 3 | 1.00× | 45.0 |",
        "| kube-rs | 1 | 3.00× | 135.0 |",
        "| python client | 0 | – | – |",
    ]


def test_a_table_without_the_bridge_has_no_ratios() -> None:
    assert table({"1000 objects": cpu(40.0)})[2] == "| 1000 objects | 1 | 40.0 |"


def test_one_contender_alone_is_compared_with_nobody() -> None:
    assert table({BRIDGE: cpu(40.0)})[2] == "| kubedelta | 1 | 40.0 |"


def test_units_are_those_of_the_headings() -> None:
    lines = table({BRIDGE: Measured([{"rest_bytes": 123_400_000.0, "core_share": 0.0075, "whole_cpu_us": 52_000.0}])})

    assert lines[0] == "|  | rounds | whole run, CPU s per 1,000 records | RSS at rest MB | % of a core |"
    assert lines[2] == "| kubedelta | 1 | 52.000 | 123 | 0.75 |"


def test_goals_say_what_is_missed_and_what_was_not_measured() -> None:
    text = markdown(a_result())

    assert "| CPU per event, against client-go's dynamic informer | 1/10 | 1/8.0 | **missed** |" in text
    assert "| CPU per event, against kube-rs | 1/2 | 1/3.0 | met |" in text
    assert "| CPU per event, against the floor | 5 | – | not measured |" in text


def test_a_share_that_is_none_is_reported_as_a_multiple() -> None:
    results = a_result()
    results.of("kafka", BRIDGE).rounds[:] = [{"cpu_us": 600.0}]

    assert "| CPU per event, against client-go's dynamic informer | 1/10 | 1.50 | **missed** |" in markdown(results)


def test_the_summary_lists_peers_of_both_cases_cheapest_first() -> None:
    results = a_result()
    results.of("first-list", BRIDGE).rounds.append({"list_seconds": 8.0, "rest_bytes": 200e6})
    results.of("first-list", "kube-rs").rounds.append({"list_seconds": 20.0, "rest_bytes": 8000e6})

    assert summary(results).splitlines()[2:] == [
        "| kubedelta | 50.0 | 8.00 | 200 |",
        "| kube-rs | 150.0 (3.0×) | 20.00 (2.5×) | 8,000 (40.0×) |",
    ]


def test_a_failure_stands_beside_the_table_by_its_first_line() -> None:
    results = a_result()
    results.of("kafka", "python client").failures.append("it ended with 1\nTraceback …")

    assert "python client: it ended with 1\n" in markdown(results)
    assert "Traceback" not in markdown(results)


def test_circumstances_stand_below_the_table() -> None:
    results = a_result()
    results.notes["kafka"] = "Measured beside other work."

    assert markdown(results).endswith("|\n\nMeasured beside other work.\n")


def test_a_bar_is_as_long_as_its_share_of_the_longest() -> None:
    drawn = ElementTree.fromstring(picture("CPU <per> event", "µs", [Bar(BRIDGE, 50), Bar("theirs", 200)]))
    ours, theirs = (float(each.get("width", 0)) for each in drawn.iter(f"{SVG}rect"))

    assert theirs == 4 * ours
    assert [each.text for each in drawn.iter(f"{SVG}text")][3::2] == ["50 µs", "200 µs · 4.0×"]


def test_the_picture_is_cheapest_first_without_missing_figures() -> None:
    results = a_result()
    results.of("kafka", "python client").failures.append("it ended with 1")
    drawn = cpu_picture(results)

    assert drawn is not None
    labels = [each.text for each in ElementTree.fromstring(drawn).iter(f"{SVG}text")][2::2]
    assert labels == [BRIDGE, "kube-rs", "client-go dynamic"]


def test_there_is_no_picture_without_the_bridge() -> None:
    assert cpu_picture(Results({}, {})) is None


def cpu(*values: float) -> Measured:
    return Measured([{"cpu_us": value} for value in values])


def a_result() -> Results:
    results = Results({"rounds": 1}, {"kafka": "To Kafka"})
    for name, value in (("client-go dynamic", 400.0), (BRIDGE, 50.0), ("kube-rs", 150.0)):
        results.of("kafka", name).rounds.append({"cpu_us": value})
    return results
