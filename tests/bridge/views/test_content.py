"""The content of a sink's records: compiled with all mistakes at once, and evaluated once for all sinks."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from bridge.model.change import Op
from bridge.model.formats.content import Content, ContentRequest, Makes, OptionExpression
from bridge.model.object import bare_body
from bridge.model.policies import RedactionMode, RedactionRule
from bridge.model.primitives.field_path import FieldPath
from bridge.model.record import Delta
from bridge.plan.plan import SinkPlan
from bridge.plan.preflight import wrong_contents
from bridge.transform.redaction import Redaction, redact_for_sink
from bridge.transform.redaction_key import RedactionKey
from bridge.views import content_maker as recent_module
from bridge.views.content_maker import WrongContent, compile_content, content_makers
from bridge.views.language import Cel, Expression, MissingLibrary
from bridge.views.language import cel as cel_module
from tests.kit.records import PODS, TIME, a_delta, a_gap
from tests.kit.sinks import RecordingSink

CEL = Cel()
WEB = b'{"metadata":{"name":"web","namespace":"shop"},"spec":{"replicas":2,"password":"hunter2"}}'


def data(text: str) -> OptionExpression:
    return OptionExpression("data", text, Makes.DATA)


def text(expression: str, option: str = "url", offset: int = 0) -> OptionExpression:
    return OptionExpression(option, expression, Makes.TEXT, offset)


def asking(*expressions: OptionExpression) -> ContentRequest:
    return ContentRequest(expressions)


def made(delta: Delta, *expressions: OptionExpression) -> Content:
    record = content_makers({"chat": ContentRequest(expressions)}, "prod", lambda: CEL)["chat"](delta)
    assert isinstance(record, Delta)
    assert record.content is not None
    return record.content


@pytest.fixture
def evaluated(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts of evaluated expressions, in their order."""
    found: list[str] = []
    original = Expression.value

    def value(self: Expression, bound: Any) -> Any:
        found.append(self.text)
        return original(self, bound)

    monkeypatch.setattr(Expression, "value", value)
    return found


def test_data_and_texts_are_made_of_the_step() -> None:
    names = "[op, evidence, time, resource, cluster, oldObject.spec.replicas, object.spec.replicas]"
    delta = a_delta(body=WEB, before=b'{"spec":{"replicas":1}}')

    found = made(delta, data(names), text("object.spec.replicas > 1"), text("object.metadata.name", "headers.X"))

    assert found.data == ["updated", "watched", TIME, "pods", "prod", 1, 2]
    assert found.texts == {"object.spec.replicas > 1": "true", "object.metadata.name": "web"}
    assert not found.failure


def test_without_a_state_before_the_old_object_is_null() -> None:
    assert made(a_delta(body=WEB), data("{'old': oldObject}")).data == {"old": None}


def test_a_notice_has_no_content() -> None:
    make = content_makers({"chat": asking(data("object"))}, "prod", lambda: CEL)["chat"]

    assert make(a_gap()) == a_gap()


@pytest.mark.parametrize(
    ("expression", "failure"),
    [
        (data("{'phase': object.status.phase}"), 'data: the member "status" is missing'),
        (text("object.spec", "headers.X-Spec"), "headers.X-Spec: the value is of type map; expected: a text, a whole "),
        (data("[object.spec.password.x]"), "data: a member is read of a value that is no map"),
    ],
)
def test_a_failure_names_the_option_and_no_value(expression: OptionExpression, failure: str) -> None:
    record = content_makers({"chat": asking(expression)}, "prod", lambda: CEL)["chat"](a_delta(body=WEB))

    assert isinstance(record, Delta)
    with pytest.raises(ValueError, match="^" + failure.replace(".", r"\.")) as raised:
        _ = record.made
    assert "hunter2" not in str(raised.value)


def test_an_object_that_cannot_be_decoded_fails() -> None:
    assert made(a_delta(body=b"{"), data("{'name': object.name}")).failure == "data: the object cannot be decoded"


def test_what_one_sink_reads_fails_no_other() -> None:
    makers = content_makers(
        {"one": asking(data("{'n': object.spec.n}")), "other": asking(data("{'name': object.metadata.name}"))},
        "prod",
        lambda: CEL,
    )
    delta = a_delta(body=b'{"metadata":{"name":"web"},"spec":{"n":18446744073709552000}}')

    found = {name: make(delta).content for name, make in makers.items()}  # type: ignore[union-attr]

    assert found["one"] == Content(failure="data: a number has more than 64 bits")
    assert found["other"] == Content({"name": "web"}, {})


def test_a_bare_object_has_the_content_of_its_identity() -> None:
    bare = bare_body(PODS, "shop/web", "u-1", "7")

    assert made(a_delta(body=bare), data("[object.metadata.name, object.?spec.?x.orValue('none')]")).data == [
        "web",
        "none",
    ]


def test_all_mistakes_are_found_with_their_columns() -> None:
    expressions = [data("1 +"), text("objct.x", "url", 20), text("object.a"), text("{}", "headers.X")]

    with pytest.raises(WrongContent) as raised:
        compile_content(asking(*expressions), "sinks.chat", lambda: CEL)
    assert str(raised.value).split("\n") == [
        "sinks.chat.data: column 4: found the end; expected: a value",
        (
            'sinks.chat.url: column 21: unknown name "objct"; did you mean "object"? allowed here: object, resource,'
            " cluster, oldObject, op, evidence, time, changed"
        ),
        "sinks.chat.headers.X: column 1: the value is of type map; expected: a text, a whole number or a bool",
    ]


def test_sinks_evaluate_the_same_expression_once(evaluated: list[str]) -> None:
    name = data("{'n': object.metadata.name}")
    requests = {"one": asking(name, text("op")), "two": asking(name), "three": asking()}
    makers = content_makers(requests, "prod", cache(Cel))
    records = [a_delta(number, body=b'{"metadata":{"name":"%d"}}' % number) for number in range(3)]

    assert makers.keys() == {"one", "two"}
    found = [[maker(record).made.data["n"] for record in records] for maker in makers.values()]  # type: ignore[union-attr]

    assert found == [["0", "1", "2"]] * 2
    assert sorted(evaluated) == ["op"] * 3 + ["{'n': object.metadata.name}"] * 3


def test_a_step_of_another_sink_has_its_own_value(evaluated: list[str]) -> None:
    makers = content_makers(dict.fromkeys(("one", "two"), asking(data("[op, 'x']"))), "prod", cache(Cel))
    delta = a_delta(body=WEB)
    as_added = a_delta(op=Op.ADDED, body=WEB)

    assert makers["one"](delta).made.data == ["updated", "x"]  # type: ignore[union-attr]
    assert makers["two"](as_added).made.data == ["added", "x"]  # type: ignore[union-attr]
    assert len(evaluated) == 2


def test_a_sinks_own_redaction_is_no_others_value() -> None:
    makers = content_makers(dict.fromkeys(("one", "two"), asking(data("[object.spec.password]"))), "p", cache(Cel))
    rule = RedactionRule((FieldPath(("spec", "password")),), RedactionMode.MASK)
    redact = redact_for_sink([rule], Redaction((RedactionKey(b"k" * 32),)))
    delta = a_delta(body=WEB)

    found = [makers["one"](delta), makers["two"](redact(delta)), makers["one"](delta)]

    assert [each.made.data for each in found] == [["hunter2"], ["[redacted]"], ["hunter2"]]  # type: ignore[union-attr]


def test_remembered_records_are_bounded(monkeypatch: pytest.MonkeyPatch, evaluated: list[str]) -> None:
    monkeypatch.setattr(recent_module, "MOST_BYTES", 2 * len(WEB))
    makers = content_makers(dict.fromkeys(("one", "two"), asking(data("[op]"))), "prod", cache(Cel))
    records = [a_delta(number, body=bytes(bytearray(WEB))) for number in range(3)]

    for record in (*records, records[2], records[1], records[0]):
        makers["one"](record)

    assert len(evaluated) == 4, "the oldest of three was forgotten"


def test_a_missing_library_is_a_mistake_of_the_option(monkeypatch: pytest.MonkeyPatch) -> None:
    sinks = [
        SinkPlan(name=name, type="memory", make=RecordingSink, max_batch=1, content=each)
        for name, each in (("a", asking()), ("b", asking(data("object"))))
    ]
    assert list(wrong_contents(sinks)) == []
    monkeypatch.setitem(__import__("sys").modules, "cel_expr_python", None)
    cel_module._library.cache_clear()
    try:
        [(option, reason)] = wrong_contents(sinks)
        with pytest.raises(MissingLibrary):
            content_makers({"b": asking(data("object"))}, "prod", cache(Cel))
    finally:
        cel_module._library.cache_clear()

    assert option == "sinks.b.data"
    assert reason == "expressions need the extra kubedelta[cel]: pip install 'kubedelta[cel]'"
