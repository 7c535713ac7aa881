"""Mistakes in expressions are found when the bridge starts, and said where they are."""

from __future__ import annotations

import pytest

from bridge.views.language import Purpose
from tests.bridge.views.compiled import CEL, failure, mistake, when, where

FUNCTIONS = "CEL's own, and its extensions strings, math, optional and bindings"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("objct.x", 'column 1: unknown name "objct"; did you mean "object"? allowed here: object, resource, cluster'),
        (
            "op == 'added'",
            'column 1: "op" belongs to a step, and not to an object; allowed here: object, resource, cluster',
        ),
        ("object.x.sortBy(e, e)", f'column 10: unknown function "sortBy"; allowed functions: {FUNCTIONS}'),
        ("cluster == 1", 'column 9: "==" cannot be applied to (string, int)'),
        ("1 in cluster", 'column 3: "in" cannot be applied to (int, string)'),
        ("resource.kind == 'Pod'", "column 9: expression of type 'string' cannot be the operand of a select operation"),
        ("object.x +", "column 11: found the end; expected: a value"),
        ("object.x object", 'column 10: found "object"; expected: an operator or the end'),
        ("object.x & true", "column 10: found &, which is no part of CEL"),
        ("has(object.x) &&\n  objekt.y", 'line 2, column 3: unknown name "objekt"; did you mean "object"? '),
        ("size(object.x)\n", "column 1: the value is of type int; expected: a bool"),
        ("object.x.matches('(a')", 'column 18: matches() cannot read "(a": invalid regular expression: missing ): (a'),
        ("timestamp(object.a) > timestamp('now')", 'column 33: timestamp() cannot read "now": String to Timestamp'),
        ("x" * 5000, "found 5000 characters; at most 4096 are allowed"),
        ("(" * 40 + "true" + ")" * 40, "column 1: more than 32 levels are nested"),
    ],
)
def test_a_mistake_is_found_with_its_column(text: str, problem: str) -> None:
    assert mistake(text).startswith(problem)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("op == 'update'", 'column 7: "update" is no value of op; did you mean "updated"? allowed: added, updated,'),
        ("op in ['added', 'x']", 'column 17: "x" is no value of op; allowed: added, updated, deleted, sync'),
        (
            "'seen' != evidence",
            'column 1: "seen" is no value of evidence; allowed: watched, listed, relisted, recovered, unwatched,',
        ),
    ],
)
def test_a_value_that_op_never_has_is_a_mistake(text: str, problem: str) -> None:
    assert mistake(text, Purpose.WHEN).startswith(problem)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "object.s.matches(object.t)",
            "column 24: matches() compiles this text at each call, so it must be a constant",
        ),
        (
            "object.l.exists(x, timestamp(x).getHours(object.zone) == 1)",
            "column 48: getHours() reads a file of this name, so it must be a constant",
        ),
        (
            "object.l.all(a, a.all(b, b.all(c, c.all(d, d.all(e, e == 1)))))",
            "column 49: more than 4 loops are inside of one another",
        ),
        (
            r"object.s.matches('\\pL{200}')",
            "column 1: its evaluation takes too much time or memory, whatever the object is",
        ),
    ],
)
def test_what_no_size_bounds_is_refused(text: str, problem: str) -> None:
    assert mistake(text) == problem


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("object.?status.?replicas.orValue(0) == 0", True),
        ("object.metadata.name.lowerAscii() == 'web'", True),
        ("math.greatest(object.spec.ports) == 443", True),
        ("cel.bind(m, object.metadata, m.name == 'Web' && !has(m.labels))", True),
        ("object.spec.ports.exists(p, p == 80) && resource == 'pods' && cluster == 'prod'", True),
        ("object.spec.`on-off` == 1.0", True),
        ("object.spec.affinity == null", True),
    ],
)
def test_kubernetes_way_of_writing_cel_is_understood(text: str, holds: bool) -> None:
    values = {
        "object": {"metadata": {"name": "Web"}, "spec": {"ports": [80, 443], "on-off": 1, "affinity": None}},
        "resource": "pods",
        "cluster": "prod",
    }
    expression = where(text)

    assert expression.evaluate(expression.bind(values)) is holds


def test_the_old_object_of_a_new_object_is_null() -> None:
    expression = when("oldObject == null || object.spec.replicas != oldObject.spec.replicas")

    assert expression.evaluate(expression.bind({"object": {}, "oldObject": None})) is True


SECRET = "hunter2"  # the value of an object


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("object.absent == 1", 'the member "absent" is missing'),
        ("object[object.text] == 1", "a member is missing"),
        ("object.text.x == 1", "a member is read of a value that is no map"),
        ("object.text > 1", "an operation does not take values of this type: _>_(string, int64)"),
        ("object.text", "the value is of type string; expected: a bool"),
        ("int(object.text) == 1", "a text of the object cannot be converted"),
        ("object.list[7] == 1", "a list is shorter than an index needs it"),
        ("object.long.exists(n, n == -1)", "more than 10000 items were visited"),
    ],
)
def test_the_reason_of_a_failure_has_no_value_of_the_object(text: str, reason: str) -> None:
    assert failure(text, {"object": {"text": SECRET, "list": [1], "long": list(range(10_500))}}) == reason
    assert SECRET not in reason


def test_the_same_text_is_compiled_once() -> None:
    assert CEL.compile("object.a == 1", Purpose.WHERE) is CEL.compile("object.a == 1", Purpose.WHERE)
