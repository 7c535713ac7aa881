"""Expressions that make data or a text: which values they may have, and how large these may be."""

from __future__ import annotations

from typing import Any

import pytest

from bridge.views.language import EvaluationFailed, Purpose
from tests.bridge.views.compiled import CEL, failure, mistake

POD = {
    "metadata": {"name": "web", "labels": {"team": "shop", "on-off": "1"}},
    "spec": {"containers": [{"name": "a", "image": "x:1"}, {"name": "b"}], "replicas": 2, "ratio": 0.5, "none": None},
}


def made(text: str, manifest: Any = POD, purpose: Purpose = Purpose.DATA) -> Any:
    expression = CEL.compile(text, purpose)
    return expression.value(expression.bind({"object": manifest, "op": "updated", "oldObject": None}))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{'text': object.metadata.name + ' has ' + string(object.spec.replicas)}", {"text": "web has 2"}),
        ("object", POD),
        ("[{'delete': {'_id': 1}}]", [{"delete": {"_id": 1}}]),
        ("object.metadata.name + '\\n'", "web\n"),
        ("{'o': object.spec, 'n': [object.spec.ratio, null, true]}", {"o": POD["spec"], "n": [0.5, None, True]}),
        ("object.spec.containers.map(c, {'image': c.?image.orValue('')})", [{"image": "x:1"}, {"image": ""}]),
        ("{?'image': object.spec.containers[1].?image, 'name': 'b'}", {"name": "b"}),
        ("{2: 'a', true: 'b'}", {"2": "a", "true": "b"}),
        ("{'b': b'ab', 'u': 3u}", {"b": "YWI=", "u": 3}),
        ("{'t': timestamp('2026-11-21T09:00:00.5+01:00')}", {"t": "2026-11-21T08:00:00.500000Z"}),
        ("[duration('90m1.5s'), duration('0s')]", ["5401.5s", "0s"]),
        ("op == 'deleted' ? dyn({}) : dyn([1])", [1]),
    ],
)
def test_data_is_a_map_a_list_or_a_text(text: str, value: Any) -> None:
    assert made(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [("object.metadata.name", "web"), ("object.spec.replicas", 2), ("op == 'updated'", True), ("'é'", "é")],
)
def test_a_part_of_a_text_is_a_text_a_number_or_a_bool(text: str, value: Any) -> None:
    assert made(text, purpose=Purpose.TEXT) == value


@pytest.mark.parametrize(
    ("text", "purpose", "problem"),
    [
        ("1", Purpose.DATA, "column 1: the value is of type int; expected: a map, a list or a text"),
        ("optional.of('a')", Purpose.DATA, "column 1: the value is of type optional_type; expected: a map, a list or"),
        ("{'a': 1}", Purpose.TEXT, "column 1: the value is of type map; expected: a text, a whole number or a bool"),
        (
            "{'a': objct.x}",
            Purpose.DATA,
            'column 7: unknown name "objct"; did you mean "object"? allowed here: object,',
        ),
        ("op == 'gone' ? 'x' : 'y'", Purpose.TEXT, 'column 7: "gone" is no value of op; allowed: added, updated,'),
    ],
)
def test_another_type_is_found_at_the_start(text: str, purpose: Purpose, problem: str) -> None:
    assert mistake(text, purpose).startswith(problem)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("object.spec.replicas", "the value is of type int; expected: a map, a list or a text"),
        ("object.spec.none", "the value is of type null; expected: a map, a list or a text"),
        ("{'a': object.status.phase}", 'the member "status" is missing'),
        ("{'a': object.?status}", "the value has a part that is no JSON, such as an optional or a type"),
        ("{'a': type(object)}", "the value has a part that is no JSON, such as an optional or a type"),
        ("[0.0 / 0.0]", "the value has a part that is no JSON, such as an optional or a type"),
        ("[1 / (object.spec.replicas - 2)]", "a division by zero"),
    ],
)
def test_a_value_of_another_type_fails(text: str, reason: str) -> None:
    assert failure(text, {"object": POD}, Purpose.DATA) == reason


@pytest.mark.parametrize(
    "text", ["object.items.map(i, object)", "object.items.map(i, object.text)", "{'a': object.items.map(i, [object])}"]
)
def test_a_loop_cannot_multiply_an_object(text: str) -> None:
    manifest = {"items": list(range(100)), "text": "x" * 100_000}
    assert "too many or too long" in failure(text, {"object": manifest}, Purpose.DATA)


def test_a_value_is_at_most_4_mib() -> None:
    values = {"object": {"a": "x" * 3_000_000, "b": "x" * 3_000_000}}
    assert failure("object.a + object.b", values, Purpose.DATA).startswith("the value is larger than 4 MiB")


@pytest.mark.parametrize(("copies", "is_made"), [(10, True), (100, False)])
def test_a_value_is_not_many_times_what_it_is_made_of(copies: int, is_made: bool) -> None:
    manifest = {"l": list(range(copies)), "s": "x" * 2000}
    expression = CEL.compile("object.l.map(i, object.s)", Purpose.DATA)

    try:
        made = expression.value(expression.bind({"object": manifest}))
    except EvaluationFailed as error:
        made = expression.why_failed(error)
    assert (made == ["x" * 2000] * copies) is is_made
    assert is_made or "16 times what it is made of" in made


def test_an_object_as_deep_as_objects_may_be_is_made_whole() -> None:
    deep: Any = "end"
    for _ in range(499):
        deep = {"a": deep}

    assert made("{'whole': object}", deep) == {"whole": deep}
