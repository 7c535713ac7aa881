"""What whoever writes an object can make an evaluation cost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.views.language import EvaluationFailed, Expression, Purpose
from bridge.views.language.cost import MOST_WORK, budget, measured, most
from bridge.views.language.paths import projection
from tests.bridge.views.compiled import CEL, failure, where
from tests.bridge.views.hostile import EXPRESSIONS

OBJECTS = Path("benchmarks/load/objects")
BUSY = 8
"""Times that a busy or slow machine takes for the same work."""
MIB = 1024 * 1024


def test_an_admitted_evaluation_is_bounded_in_time_and_memory() -> None:
    ran = subprocess.run([sys.executable, "-m", "tests.bridge.views.hostile"], capture_output=True, check=True)
    rows = [json.loads(line) for line in ran.stdout.splitlines()]

    assert {expression for expression, *_ in rows} >= set(EXPRESSIONS)  # each on some object at least
    assert [row for row in rows if row[1] > BUSY * row[2]] == []
    assert [row for row in rows if row[4] > 2 * row[2] + 16 * MIB] == []


@pytest.mark.parametrize(
    ("text", "manifest"),
    [
        ("object.words.exists(w, object.text.indexOf(w) > 0)", {"words": ["b"] * 2000, "text": "a" * 100_000}),
        ("object.l.exists(x, size(object.text) < 0)", {"l": [1] * 5000, "text": "a" * 100_000}),
        ("object.l.exists(x, object.text.split('').size() < 0)", {"l": [1] * 100, "text": "a" * 100_000}),
        ("object.l.exists(x, object.text.trim() == '')", {"l": [1] * 5000, "text": "a" * 100_000}),
        ("object.l.map(x, string(x)).join(',') == ''", {"l": list(range(8000))}),
        ("object.l.exists(x, object.text.split(',').size() < 0)", {"l": [1] * 400, "text": "," * 20_000}),
    ],
)
def test_a_hostile_object_fails_before_it_is_evaluated(text: str, manifest: Any) -> None:
    reason = "the values that it reads are too many or too long for it: it could take too much time or memory"
    assert failure(text, {"object": manifest}) == reason


def pods() -> list[Any]:
    return [json.loads((OBJECTS / f"{name}.json").read_text()) for name in ("pod", "small", "medium")]


def large(items: int) -> dict[str, Any]:
    """An object with many entries everywhere: a Node with its images, Endpoints, a ConfigMap, a CustomResource."""
    return {
        "metadata": {
            "name": "ip-10-0-1-2",
            "labels": {f"example.com/label-{n}": f"value-{n}" for n in range(40)},
            "annotations": {f"example.com/note-{n}": "a sentence about it " * 20 for n in range(20)},
        },
        "spec": {
            "containers": [
                {
                    "name": f"c-{n}",
                    "image": f"registry.example.com/team/image-{n}@sha256:" + "0123456789abcdef" * 4,
                    "env": [{"name": f"VARIABLE_{i}", "value": "value" * 5} for i in range(30)],
                    "ports": [{"containerPort": i, "protocol": "TCP"} for i in range(5)],
                }
                for n in range(20)
            ]
        },
        "status": {
            "phase": "Running",
            "conditions": [{"type": f"Ready{n}", "status": "True", "message": "is ready"} for n in range(10)],
            "images": [
                {"names": [f"example.com/i-{n}@sha256:" + "0" * 64, f"example.com/i-{n}:1"]} for n in range(100)
            ],
        },
        "subsets": [{"addresses": [{"ip": f"10.0.{n // 256}.{n % 256}", "nodeName": "n"} for n in range(items)]}],
        "data": {"values.yaml": "key: value, other: [1, 2]\n" * items, "index.html": "<p>" * items},
    }


ORDINARY = (
    "object.metadata.name.endsWith('3') && object.status.phase == 'Running'",
    "has(object.metadata.labels) && 'team' in object.metadata.labels",
    "object.spec.containers.exists(c, c.image.endsWith(':latest'))",
    "object.spec.containers.all(c, c.image.matches('^registry[.]example[.]com/[a-z0-9/-]+@sha256:[a-f0-9]{64}$'))",
    "object.spec.containers.exists(c, c.env.exists(e, e.name == 'DEBUG' && e.value != ''))",
    "object.spec.containers.exists(c, c.ports.exists(p, p.containerPort == 443))",
    "object.spec.containers.all(c, object.spec.containers.exists_one(d, d.name == c.name))",
    "object.spec.containers.map(c, c.image).filter(i, i.contains('/team/')).size() > 2",
    "object.spec.containers.map(c, c.image.split('/')[0]).join(',').contains(object.metadata.name)",
    "object.metadata.annotations.exists(k, k.startsWith('x.io/') && object.metadata.annotations[k].contains('x'))",
    "object.metadata.labels.all(k, k.matches('^[a-z./0-9-]+$') && size(object.metadata.labels[k]) < 64)",
    "object.status.images.exists(i, i.names.exists(n, n.contains(object.metadata.name)))",
    "!object.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')",
    "object.subsets.exists(s, s.addresses.exists(a, a.ip == '10.1.2.3'))",
    "object.subsets.map(s, s.addresses.size()).exists(n, n > 100)",
    "object.data.exists(k, object.data[k].contains('password'))",
    "size(object.data['values.yaml']) > 10 && object.data['values.yaml'].lowerAscii().contains('KEY')",
)


def outcome(expression: Expression, values: dict[str, Any]) -> str:
    """The value, or the reason why there is none."""
    try:
        return str(expression.evaluate(expression.bind(values)))
    except EvaluationFailed as error:
        return expression.why_failed(error)


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_expressions_are_evaluated_on_large_objects(text: str) -> None:
    expression = where(text)

    for manifest in (*pods(), large(10), large(1000), large(4000)):
        part = projection(expression.reads["object"])(json.dumps(manifest).encode())
        assert "too many" not in outcome(expression, {"object": part})


@pytest.mark.parametrize("text", ["object", "{'name': object.metadata.name, 'spec': object.spec, 'all': object}"])
def test_a_large_object_can_be_the_data(text: str) -> None:
    expression = CEL.compile(text, Purpose.DATA)

    for manifest in (*pods(), large(1000)):
        assert expression.value(expression.bind({"object": manifest}))


def test_the_documents_name_these_limits() -> None:
    text = Path("docs/sinks/select.md").read_text()

    assert f"{MOST_WORK // MIB} ms" in text
    assert f"{budget(0) // MIB} ms" in text


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(),
    lambda below: st.lists(below) | st.dictionaries(st.text(), below),
)


@given(JSON)
def test_a_value_is_never_larger_than_its_json_allows(value: Any) -> None:
    found, allowed = measured(value), most(len(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()))

    assert found.items <= found.values <= allowed.values
    assert found.bytes <= allowed.bytes


@given(JSON)
def test_a_part_is_never_larger_than_the_whole(value: Any) -> None:
    whole = measured(value).part
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        found = measured(part)
        assert (found.items, found.values, found.bytes) <= (whole.items, whole.values, whole.bytes)
