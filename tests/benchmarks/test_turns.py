"""The harness: who takes part, in which order, and what becomes of a run that fails."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest

from benchmarks.__main__ import attempt, choose, forget, in_turns, joined
from benchmarks.cases import Case, Scale, cases
from benchmarks.meter import Figures
from benchmarks.processes import ChildFailed
from benchmarks.results import Measured, Results
from benchmarks.runs import Around, percentile
from benchmarks.servers import brokers


def measured(_: Around) -> Figures:
    return {"cpu_us": 1.0}


def failing(around: Around) -> NoReturn:
    (around.folder / "left over").write_text("")
    raise ChildFailed("it ended with 1")


TWO = [Case("kafka", "", dict.fromkeys("abc", measured)), Case("file", "", {"a": measured})]


def test_every_round_has_everything_and_another_contender_first() -> None:
    turns = [(number, case.name + "-" + name) for number, case, name, _ in in_turns(TWO, 2)]

    assert turns == [
        *((0, each) for each in ("kafka-a", "kafka-b", "kafka-c", "file-a")),
        *((1, each) for each in ("kafka-b", "kafka-c", "kafka-a", "file-a")),
    ]


def test_cases_and_contenders_are_chosen_by_name() -> None:
    assert [(each.name, list(each.contenders)) for each in choose(TWO, ["kafka"], ["b", "c"])] == [
        ("kafka", ["b", "c"])
    ]
    assert [each.name for each in choose(TWO, [], ["b"])] == ["kafka"]
    assert choose(TWO, [], []) == TWO


def test_an_unknown_name_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(LookupError, match="no case is called 'kafak'; there are: kafka, file"):
        choose(TWO, ["kafak"], [])
    with pytest.raises(LookupError, match="no contender is called 'd'; there are: a, b, c"):
        choose(TWO, [], ["d"])


def test_a_failed_run_is_kept_as_a_failure_without_its_folder(tmp_path: Path) -> None:
    kept = Measured()
    with brokers(tmp_path, print) as shared:
        attempt(kept, failing, tmp_path, shared)
        attempt(kept, measured, tmp_path, shared)

    assert kept == Measured([{"cpu_us": 1.0}], ["it ended with 1"])
    assert list(tmp_path.iterdir()) == []


def test_names_of_cases_are_unique() -> None:
    names = [each.name for each in cases(Scale())]

    assert len(set(names)) == len(names)


@pytest.mark.parametrize(("percent", "value"), [(50, 50), (99, 99), (100, 100), (0, 1), (98.5, 99)])
def test_a_percentile_is_the_smallest_value_not_exceeded(percent: float, value: float) -> None:
    assert percentile([float(each) for each in reversed(range(1, 101))], percent) == value


def test_rounds_of_chosen_contenders_go_and_others_stay() -> None:
    results = Results({}, {}, notes={"kafka": "beside other work", "file": "alone"})
    for name in "ab":
        results.of("kafka", name).rounds.append({"cpu_us": 1.0})

    forget(results, choose(TWO, ["kafka"], ["a"]))

    assert results.measured == {"kafka": {"b": Measured([{"cpu_us": 1.0}])}}
    assert results.notes == {"file": "alone"}


def test_rounds_join_those_of_an_earlier_run_of_the_same_scale(tmp_path: Path) -> None:
    earlier = Results({"objects": 10}, {"kafka": "To Kafka"})
    earlier.of("kafka", "a").rounds.append({"cpu_us": 1.0})
    earlier.write(tmp_path / "results.json")
    titles = {"kafka": "To Kafka", "file": "To a file"}

    found = joined({"objects": 10}, titles, tmp_path / "results.json")

    assert found == Results({"objects": 10}, titles, earlier.measured)
    assert joined({"objects": 10}, titles, None).measured == {}
    assert joined({"objects": 10}, titles, tmp_path / "nothing.json").measured == {}
    with pytest.raises(ValueError, match=r"'objects': 10.*'objects': 20"):
        joined({"objects": 20}, titles, tmp_path / "results.json")
