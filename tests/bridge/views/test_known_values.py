"""Values of expressions on parts of objects that came before."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.model.resource import Resource
from bridge.views.evaluation import Evaluator, Failures, KnownValues
from bridge.views.language import Expression
from bridge.views.language.cel import Bound
from tests.bridge.views.compiled import DEPLOYMENTS, PODS, as_bytes, where

RUNNING = "object.status.phase == 'Running'"
LARGE = "object.spec.n > 5"


class Counted(Expression):
    """An expression that counts its evaluations."""

    def __init__(self, text: str) -> None:
        vars(self).update(vars(where(text)))
        self.evaluations = 0

    def evaluate(self, bound: Bound) -> bool:
        self.evaluations += 1
        return super().evaluate(bound)


def evaluator(*expressions: Expression, known: KnownValues | None = None, of: Resource = PODS) -> Evaluator:
    return Evaluator(of, "prod", expressions, Failures(), known=known)


def pod(phase: str, **others: Any) -> bytes:
    return as_bytes({"status": {"phase": phase}, **others})


def test_a_value_holds_while_the_members_that_are_read_do() -> None:
    running = Counted(RUNNING)
    by = evaluator(running, known=KnownValues())

    values = [by.evaluation("shop/web", pod(phase, spec=each)).of_object(running) for phase, each in (
        ("Running", 1), ("Running", 2), ("Failed", 2), ("Running", 3), ("Failed", 4)
    )]  # fmt: skip

    assert values == [True, True, False, True, False]
    assert running.evaluations == 2


def test_a_failure_counts_for_every_object() -> None:
    running = Counted(RUNNING)
    by = evaluator(running, known=KnownValues())

    assert [by.evaluation("shop/web", as_bytes({"spec": n})).of_object(running) for n in range(3)] == [None] * 3
    assert by.failures.take()[0] == {RUNNING: 3}


def test_resources_share_no_values() -> None:
    known, by_resource = KnownValues(), where("resource == 'pods' && object.spec.n == 1")
    body = as_bytes({"spec": {"n": 1}})

    values = [
        evaluator(by_resource, known=known, of=each).evaluation("shop/web", body).of_object(by_resource)
        for each in (PODS, DEPLOYMENTS)
    ]

    assert values == [True, False]


def test_a_value_is_remembered_by_its_own_paths() -> None:
    running, other = Counted(RUNNING), Counted("object.metadata.resourceVersion != ''")
    by = evaluator(running, other, known=KnownValues())

    for version in ("1", "2", "3"):
        evaluation = by.evaluation("shop/web", pod("Running", metadata={"resourceVersion": version}))
        assert (evaluation.of_object(running), evaluation.of_object(other)) == (True, True)

    assert (running.evaluations, other.evaluations) == (1, 3)


@pytest.mark.parametrize("other", [2**64, "a\0b"])
def test_what_another_expression_reads_fails_that_alone(other: Any) -> None:
    running, reading = where(RUNNING), where("object.spec == 1")
    by = evaluator(running, reading, known=KnownValues())

    evaluation = by.evaluation("shop/web", pod("Running", spec=other))

    assert evaluation.of_object(reading) is None
    assert evaluation.of_object(running) is True
    assert by.failures.take()[0] == {"object.spec == 1": 1}


def test_an_undecodable_number_fails_only_who_reads_it() -> None:
    running, reading, labelled = where(RUNNING), where("object.spec == 1"), where("size(object.metadata.labels) == 1")
    by = Evaluator(PODS, "prod", [running, reading, labelled], Failures(), known=KnownValues(), with_labels=True)
    body = b'{"metadata":{"labels":{"a":"b"}},"status":{"phase":"Running"},"spec":1e999}'

    evaluation = by.evaluation("shop/web", body)

    assert [evaluation.of_object(each) for each in (reading, running, labelled)] == [None, True, True]
    assert evaluation.labels == {"a": "b"}


@pytest.mark.parametrize(("parts", "evaluations"), [(2, 2), (3, 4)])
def test_too_many_parts_clear_the_memory(parts: int, evaluations: int) -> None:
    running = Counted(RUNNING)
    by = evaluator(running, known=KnownValues(most=2))

    for phase in [*(f"phase {n}" for n in range(parts)), "phase 0"]:
        by.evaluation("shop/web", pod(phase)).of_object(running)

    assert running.evaluations == evaluations


def test_a_long_part_is_not_kept() -> None:
    running = Counted(RUNNING)
    by = evaluator(running, known=KnownValues())

    for _ in range(2):
        by.evaluation("shop/web", pod("x" * 2000)).of_object(running)

    assert running.evaluations == 2


VALUES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
OBJECTS = st.fixed_dictionaries(
    {}, optional={"spec": st.dictionaries(st.sampled_from(["n", "m"]), VALUES), "status": VALUES}
)


@given(st.lists(OBJECTS, max_size=12))
def test_values_equal_those_of_separate_evaluations(objects: list[Any]) -> None:
    expressions = where(RUNNING), where(LARGE), where("has(object.spec.m) && object.spec.m == 1")
    remembering, forgetting = evaluator(*expressions, known=KnownValues(most=3)), evaluator(*expressions)

    for manifest in objects:
        body = as_bytes(manifest)
        with_memory, without = (by.evaluation("shop/web", body) for by in (remembering, forgetting))
        assert [with_memory.of_object(each) for each in expressions] == [
            without.of_object(each) for each in expressions
        ]
    assert remembering.failures.take()[0] == forgetting.failures.take()[0]
