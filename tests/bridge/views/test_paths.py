"""Only what an expression reads is decoded."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.views.language.paths import cut, projection, union
from bridge.views.language.syntax import UnknownSyntax, read_checked_expr
from tests.bridge.views.compiled import as_bytes, when, where

POD = {
    "kind": "Pod",
    "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web", "team": "a"}},
    "spec": {
        "nodeName": "n1",
        "containers": [
            {"name": "main", "image": "main:1", "ports": [{"port": 80}]},
            {"name": "side", "image": "side:1"},
        ],
        "affinity": {"large": {"tree": [1, 2, 3]}},
    },
}


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("object.metadata.name == 'web'", {"metadata": {"name": "web"}}),
        (
            "has(object.metadata.labels) && 'team' in object.metadata.labels",
            {"metadata": {"labels": {"team": "a"}}},
        ),
        ("object.metadata['labels']['app'] == 'x'", {"metadata": {"labels": {"app": "web"}}}),
        ("object.?spec.?nodeName.orValue('') == ''", {"spec": {"nodeName": "n1"}}),
        ("has(object.spec.affinity.large)", {"spec": {"affinity": {"large": {}}}}),
        ("object.spec.affinity == null", {"spec": {"affinity": {}}}),
        (
            "object.spec.containers.exists(c, c.image.endsWith(':latest'))",
            {"spec": {"containers": [{"image": "main:1"}, {"image": "side:1"}]}},
        ),
        (
            "object.spec.containers.exists(c, c.ports.exists(p, p.port == 1))",
            {"spec": {"containers": [{"ports": [{"port": 80}]}, {}]}},
        ),
        ("object.spec.containers[0].name == 'x'", {"spec": {"containers": [{"name": "main"}, {"name": "side"}]}}),
        ("size(object.spec.containers) > 1", {"spec": {"containers": [{}, {}]}}),
        ("size(object.spec.affinity) > 1", {"spec": {"affinity": {"large": {}}}}),
        (
            "object.metadata.labels.all(k, object.metadata.labels[k] == 'a')",
            {"metadata": {"labels": {"app": "web", "team": "a"}}},
        ),
        (
            "object.metadata[object.kind == 'Pod' ? 'name' : 'namespace'] == 'x'",
            {"kind": "Pod", "metadata": {"name": "web", "namespace": "shop", "labels": {}}},
        ),
        (
            "(object.kind == 'Pod' ? object.spec : object.metadata).name == 'x'",
            {"kind": "Pod", "spec": {}, "metadata": {"name": "web"}},
        ),
        ("cel.bind(m, object.metadata, m.name == m.namespace)", {"metadata": {"name": "web", "namespace": "shop"}}),
        ("[1].exists(object, .object.kind == 'Pod')", {"kind": "Pod"}),
        (
            "object.spec.affinity == object.metadata.labels",
            {"spec": {"affinity": {"large": {"tree": [1, 2, 3]}}}, "metadata": {"labels": {"app": "web", "team": "a"}}},
        ),
    ],
)
def test_a_path_is_decoded_and_its_siblings_are_not(text: str, read: Any) -> None:
    assert projection(where(text).reads["object"])(as_bytes(POD)) == read


def test_names_that_an_expression_does_not_use_are_not_read() -> None:
    assert set(when("op == 'added' || object.a != oldObject.a").reads) == {"op", "object", "oldObject"}
    assert set(where("resource == 'pods'").reads) == {"resource"}


EXPRESSIONS = (
    "object.a == 1",
    "object.a.b == 1",
    "object['a'][0].b == 1",
    "object.a.exists(x, x.b == 1)",
    "object.exists(k, object[k] == 1)",
    "size(object.a) == 1",
    "'b' in object.a",
    "object.a == object.b",
    "has(object.a.b)",
)
OBJECTS = st.dictionaries(
    st.sampled_from("abc"),
    st.recursive(
        st.none() | st.integers(0, 2) | st.just("b"),
        lambda below: st.lists(below, max_size=3) | st.dictionaries(st.sampled_from("abc"), below, max_size=3),
    ),
)


@pytest.mark.parametrize("metadata", [1, [1, "labels", [{}]], None, "text"])
def test_an_object_of_another_shape_is_decoded_as_it_is(metadata: Any) -> None:
    decode = projection(where("object.metadata.labels.a == 'b'").reads["object"])
    expected = [None] * 3 if isinstance(metadata, list) else metadata  # items that are not read

    assert decode(as_bytes({"metadata": metadata})) == {"metadata": expected}


@given(st.lists(st.sampled_from(EXPRESSIONS), min_size=1, max_size=3), OBJECTS)
def test_a_part_that_is_cut_out_is_the_part_that_is_decoded(texts: list[str], manifest: Any) -> None:
    trees = [where(text).reads["object"] for text in texts]
    body = as_bytes(manifest)

    assert [cut(tree)(projection(union(trees))(body)) for tree in trees] == [projection(tree)(body) for tree in trees]


@pytest.mark.parametrize("serialized", [b"", b"\x12", b"\x12\x05abc", b"\x0b", b"\x12\x02\x22\x00", bytes(range(256))])
def test_bytes_that_are_no_expression_are_refused(serialized: bytes) -> None:
    with pytest.raises(UnknownSyntax):
        read_checked_expr(serialized)
