"""One state of one object."""

from __future__ import annotations

import pytest

from bridge.model.object import ApiObject, object_key
from tests.kit.objects import a_node, a_pod


@pytest.mark.parametrize(
    ("namespace", "name", "key"),
    [("shop", "web", "shop/web"), ("", "node-1", "node-1"), ("", "system:node.v1:reader", "system:node.v1:reader")],
)
def test_a_key_is_namespace_and_name_or_the_name_alone(namespace: str, name: str, key: str) -> None:
    assert object_key(namespace, name) == key
    thing = ApiObject(key, "u", "7", b"{}")
    assert (thing.namespace, thing.name) == (namespace, name)


def test_labels_and_the_manifest_are_read_from_the_body() -> None:
    pod = a_pod("web").labelled(tier="front", app="shop").at(7, image="a")

    assert pod.labels() == {"tier": "front", "app": "shop"}
    assert pod.manifest()["spec"] == {"image": "a"}
    assert a_node("node-1").at(3).labels() == {}


def test_each_decoding_of_a_manifest_is_a_new_value() -> None:
    pod = a_pod("web").at(7, image="a")
    pod.manifest()["spec"]["image"] = "b"

    assert pod.manifest()["spec"] == {"image": "a"}


@pytest.mark.parametrize(
    "body",
    [
        b'{"metadata":{"labels":null}}',
        b'{"metadata":{"labels":{}}}',
        b'{"metadata":{}}',
        b'{"metadata":{"labels":{"tier":null,"ok":7}}}',
        b'{"metadata":{"labels":["tier"]}}',
        b'{"metadata":null}',
        b"{}",
    ],
)
def test_missing_or_malformed_labels_are_no_labels(body: bytes) -> None:
    """An aggregated API may serve anything; an index over labels must not end the informer of it."""
    assert ApiObject("shop/web", "u", "7", body).labels() == {}
