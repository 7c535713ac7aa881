"""Faults: every way in which a destination can be wrong is counted, and the report is made of the counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.faults import brokers
from benchmarks.faults.arrivals import Arrivals, digested, remembered
from benchmarks.faults.catalogue import FAULTS, choose
from benchmarks.faults.counting import Arrival, Counts, Round, counted
from benchmarks.faults.destinations import KAFKA, NATS, ONCE, WEBHOOK
from benchmarks.faults.goals import percentile
from benchmarks.faults.report import markdown
from benchmarks.faults.results import Results
from tests.kit.etcd_history import Happened
from tests.kit.received import AnyReceived, Received, Version

ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT / "benchmarks/results"


def a_step(version: int, op: str = "updated", name: str = "a") -> Happened:
    metadata = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}
    thing = {"kind": "Pod", "metadata": metadata, "data": {"at": str(version)}}
    return Happened(Version(f"uid-{name}", str(version), op), f"/api/v1/namespaces/shop/pods/{name}", thing)


STEPS = remembered([a_step(1, "added"), a_step(2), a_step(3), a_step(4, "added", "b"), a_step(5)])
FAULT = Round.of(began=102.5, ended=110.0, ends=())


def an_arrival(step: Happened, at: float, term: int = 1, *, number: int = 0, again: str = "") -> Arrival:
    sequence = term * 10**13 + (number or step.number)
    parts = ("/".join(step.version) + again, step.version.op, step.subject, *step.version[:2], sequence, "watched")
    return Arrival(at, Received(*parts, step.data, term=term))


DELIVERED = [an_arrival(step, 100.0 + step.number) for step in STEPS]


def counts_of(arrivals: Sequence[Arrival], rounds: Sequence[Round] = (FAULT,)) -> Counts:
    return counted(sorted(arrivals, key=lambda each: each.at), 0, STEPS, rounds)


def test_a_destination_with_every_step_once_has_no_fault() -> None:
    assert counts_of(DELIVERED) == Counts(steps=5, silences=[5.0])


def test_a_step_that_never_arrives_is_lost() -> None:
    assert counts_of([each for each in DELIVERED if each.record.resource_version != "3"]).lost == 1


def test_a_step_that_only_a_list_showed_is_lost_too() -> None:
    listed = replace(DELIVERED[4], record=replace(DELIVERED[4].record, evidence="relisted"))
    counts = counts_of([*DELIVERED[:2], DELIVERED[3], listed])

    assert (counts.lost, counts.unseen) == (1, 0)


def test_an_object_that_came_and_went_unseen_has_a_count() -> None:
    gone = remembered([a_step(6, "added", "c"), a_step(7, "deleted", "c")])

    counts = counted(DELIVERED, 0, [*STEPS, *gone], [FAULT])
    assert (counts.lost, counts.unseen) == (0, 2)


def test_a_newer_record_in_front_of_an_older_is_disorder() -> None:
    turned = [replace(DELIVERED[1], at=103.0), replace(DELIVERED[2], at=102.0)]

    assert counts_of([DELIVERED[0], *turned, *DELIVERED[3:]]).disordered > 0


def test_a_hole_in_a_repetition_is_disorder() -> None:
    again = [an_arrival(STEPS[0], 106.0, 2, number=10), an_arrival(STEPS[2], 107.0, 2, number=12)]

    assert counts_of([*DELIVERED, *again]).disordered == 1


def test_another_content_than_what_happened_is_untrue() -> None:
    other = replace(DELIVERED[4].record, data=digested({"kind": "Pod", "metadata": {"name": "c"}}))

    assert counts_of([*DELIVERED[:4], Arrival(105.0, other)]).untrue == 1


def test_a_repetition_has_its_age_at_the_fault() -> None:
    again = [an_arrival(step, 106.0 + step.number, 2) for step in (STEPS[1], STEPS[2], STEPS[4])]
    counts = counts_of([*DELIVERED, *again])

    assert (counts.repeated, counts.renamed, counts.stale, counts.disordered) == (3, 0, 0, 0)
    assert counts.ages == [0.5]


def test_the_last_delivery_before_a_fault_counts_for_the_age() -> None:
    again = [an_arrival(STEPS[1], 106.0, 2), an_arrival(STEPS[1], 116.0, 3)]
    counts = counted([*DELIVERED, *again], 0, STEPS, [FAULT, Round.of(107.0, 120.0, ())])

    assert counts.ages == [0.5, 1.0]


def test_a_repetition_has_its_age_at_the_end_of_its_leader() -> None:
    """Two leaders end after the fault; the last one of them had settled what comes again behind it."""
    again = [an_arrival(STEPS[1], 106.0, 2), an_arrival(STEPS[1], 116.0, 3)]
    arrivals = [*DELIVERED, *again]

    assert counted(arrivals, 0, STEPS, [Round.of(100.5, 120.0, [103.0, 109.0])]).ages == [1.0, 3.0]
    assert counted(arrivals, 0, STEPS, [Round.of(100.5, 120.0, [])]).ages == []


def test_an_object_that_enters_a_selection_twice_is_disorder() -> None:
    entered = [an_arrival(a_step(1, "added", "c"), 101.0), an_arrival(a_step(1, "added", "c"), 102.0, again="/2")]
    assert counted(DELIVERED, 0, STEPS, (), others=entered).disordered == 1
    assert counted(DELIVERED, 0, STEPS, (), others=entered[:1]) == counted(DELIVERED, 0, STEPS, ())


async def test_arrivals_know_what_a_consumer_has() -> None:
    news = [
        an_arrival(step, step.number) for step in (a_step(1, "added"), a_step(2, "added", "b"), a_step(3, "deleted"))
    ]

    class News:
        async def read(self) -> list[tuple[float, AnyReceived]]:
            return [(each.at, each.record) for each in news]

    found = Arrivals(News())
    await found.read_on()
    assert found.held("pods") == {"uid-b"}
    assert found.held("secrets") == set()
    assert found.have_met({"uid-a", "uid-b"})
    assert not found.have_met({"uid-c"})


def test_a_compacted_backlog_owes_the_newest_states() -> None:
    newest = [DELIVERED[3], replace(DELIVERED[4], record=replace(DELIVERED[4].record, op="added"))]

    assert counted(newest, 0, STEPS, [FAULT]).lost == 4
    counts = counted(newest, 0, STEPS, [FAULT], reduced=True)
    assert (counts.lost, counts.untrue, counts.disordered) == (0, 0, 0)
    assert counted(newest[:1], 0, STEPS, [FAULT], reduced=True).lost == 1


def test_a_repetition_after_sigterm_misses_its_goal() -> None:
    results = Results({})
    results.of("terminate").add(1, 9.0, {KAFKA: Counts(steps=5, repeated=1)})
    results.of("kill").add(1, 9.0, {KAFKA: Counts(steps=5, repeated=9)})

    assert "| Records repeated after SIGTERM | 0 | 1 | **missed** |" in markdown(results)


def test_a_version_under_another_id_is_counted_by_itself() -> None:
    counts = counts_of([*DELIVERED, an_arrival(STEPS[4], 106.0, 2, again="/2")])

    assert (counts.repeated, counts.renamed) == (0, 1)


def test_a_former_leaders_record_behind_a_later_one_is_stale() -> None:
    taken_over = [an_arrival(STEPS[4], 105.0, 2), an_arrival(STEPS[2], 106.0, 1)]

    assert counts_of([*DELIVERED[:4], *taken_over]).stale == 1


@pytest.mark.parametrize(
    ("began", "ended", "silence"), [(102.5, 103.5, 1.0), (100.0, 102.5, 1.0), (104.5, 112.0, 7.0), (101.2, 101.4, 0.4)]
)
def test_a_silence_is_between_two_arrivals(began: float, ended: float, silence: float) -> None:
    """One that was under way when the fault came counts whole, and one that is at the end up to there."""
    assert counts_of(DELIVERED, [Round.of(began, ended, ())]).silences == [silence]


def test_a_percentile_is_a_value_that_was_measured() -> None:
    assert [percentile(range(1, 101), share) for share in (0.5, 0.99, 1)] == [50, 99, 100]
    assert percentile([], 0.5) is None


def test_counts_of_faults_are_read_as_they_were_written(tmp_path: Path) -> None:
    results = Results({"day": "2026-11-23"})
    results.of("kill").add(2, 60.0, {KAFKA: Counts(steps=5, silences=[1.5])})
    results.of("kill").add(1, 30.0, {KAFKA: Counts(steps=4, lost=1, silences=[2.5])})
    results.of("freeze").failures.append("it ended")
    results.write(tmp_path / "faults.json")

    found = Results.read(tmp_path / "faults.json")
    assert found == results
    assert found.of("kill").sinks[KAFKA] == Counts(steps=9, lost=1, silences=[1.5, 2.5])


def test_a_loss_and_a_stale_record_miss_their_goals() -> None:
    results = Results({})
    results.of("freeze").add(1, 9.0, {NATS: Counts(steps=5, lost=1, stale=1), WEBHOOK: Counts(steps=5, stale=7)})
    report = markdown(results)

    assert "| Steps lost | 0 | 1 | **missed** |" in report
    assert "| Stale records in fenced destinations | 0 | 1 | **missed** |" in report


@pytest.mark.parametrize("fault", ["kill", "empty-disk", "cut-replicas", "full-disk", "dead-sink", "brokers"])
def test_too_old_a_repetition_misses_the_goal_of_every_kill(fault: str) -> None:
    results = Results({})
    results.of(fault).add(1, 9.0, {KAFKA: Counts(steps=5, repeated=2, ages=[2.5])})

    assert "since it was settled | 1 s | 2.50 s | **missed** |" in markdown(results)


def test_each_broker_is_killed_alone_and_with_the_leader() -> None:
    roles = (brokers.coordinator, brokers.partition_leader, brokers.controller)

    assert set(brokers.TURNS) == {(role, leader) for role in roles for leader in (False, True)} | {(None, True)}
    assert [fault.rounds for fault in FAULTS if fault.three_brokers] == [len(brokers.TURNS)]


def test_a_name_that_no_fault_has_is_refused() -> None:
    with pytest.raises(LookupError, match="kill, terminate"):
        choose(["thunder"])


def test_the_published_faults_are_what_was_counted() -> None:
    results = Results.read(PUBLISHED / "faults.json")

    assert (PUBLISHED / "faults.md").read_text(encoding="utf-8") == markdown(results)
    assert results.faults.keys() == {fault.name for fault in FAULTS}
    for measured in results.faults.values():
        assert measured.sinks.keys() == {KAFKA, ONCE, NATS, WEBHOOK}
        assert all(len(counts.silences) == measured.rounds for counts in measured.sinks.values())
