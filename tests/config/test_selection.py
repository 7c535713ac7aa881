"""The list ``select``: its syntax, and that the bridge's own values are made of it."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from bridge.model.change import Op
from bridge.model.policies import OnError
from bridge.views.language import Cel
from bridge.views.selection import SelectorText, WrongSelection, compile_selection
from config.schema.delivery import Select, SelectEntry, SelectSettings

ENTRY: TypeAdapter[SelectSettings] = TypeAdapter(SelectEntry)
LIST: TypeAdapter[tuple[SelectSettings, ...]] = TypeAdapter(Select)


def test_a_name_alone_selects_every_object_and_step() -> None:
    entry = ENTRY.validate_python("deployments.apps")

    assert entry == SelectSettings(resource="deployments.apps")
    assert entry.operations == tuple(Op)
    assert entry.on_error is OnError.SELECT


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"resource": "pods/log"}, "kubectl's name"),
        ({"namespaces": ["shop", "shop"]}, "named twice: shop"),
        ({"label_selector": "a in b"}, "label selector is expected"),
        ({"operations": []}, "at least 1 item"),
        ({"operations": ["added", "added"]}, "named twice: added"),
        ({"operations": ["create"]}, "added"),
        ({"where": ""}, "at least 1 character"),
        ({"when": "x" * 4097}, "at most 4096 characters"),
        ({"on_error": "drop"}, "select"),
        ({"if": "true"}, "Extra inputs"),
    ],
)
def test_what_cannot_be_meant_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        ENTRY.validate_python({"resource": "pods", **options})


def test_a_selection_has_at_least_one_entry() -> None:
    with pytest.raises(ValidationError):
        LIST.validate_python([])


def test_the_settings_are_compiled_as_they_are() -> None:
    entries = LIST.validate_python(
        [
            {
                "resource": "Deployments.apps",
                "namespaces": ["shop"],
                "label_selector": "team",
                "where": "has(object.spec)",
                "operations": ["added"],
                "when": "op == 'added'",
                "on_error": "skip",
            },
            "pods",
        ]
    )

    first, second = compile_selection([SelectorText(**dict(each)) for each in entries], "select", Cel).selectors

    assert first.resource == "deployments.apps"
    assert first.namespaces == frozenset({"shop"})
    assert first.operations == frozenset({Op.ADDED})
    assert first.where is not None
    assert first.when is not None
    assert (first.where.text, first.when.text) == ("has(object.spec)", "op == 'added'")
    assert first.on_error is OnError.SKIP
    assert second.resource == "pods"


def test_a_block_of_yaml_has_the_columns_that_the_operator_sees() -> None:
    [entry] = LIST.validate_python([{"resource": "pods", "where": "has(object.spec) &&\n  objct.a\n"}])

    with pytest.raises(WrongSelection, match=r"^select\[0\]\.where: line 2, column 3: unknown name \"objct\""):
        compile_selection([SelectorText(**dict(entry))], "select", Cel)


def test_the_examples_of_the_options_are_valid() -> None:
    for name, field in SelectSettings.model_fields.items():
        for example in field.examples or []:
            entry = ENTRY.validate_python({"resource": "pods", name: example})
            assert compile_selection([SelectorText(**dict(entry))], "select", Cel).selectors
