"""The texts of a long ConfigMap are not searched, and what it is redacted to is the same as if they were."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.kube.wire.objects import read_object
from bridge.model.object import ApiObject
from bridge.model.resource import Resource
from bridge.transform.places import PLACES
from bridge.transform.redaction import Redaction
from bridge.transform.redaction_key import RedactionKey
from bridge.transform.transform import transform_for
from tests.kit import planted
from tests.kit.examples import examples

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)
REDACTION = Redaction((RedactionKey(b"k" * 32),))
METADATA = {"name": "web", "namespace": "shop", "uid": "uid-1", "resourceVersion": "7"}
LONG = "an indented\ttext with \"env\":[ and <'x'>\n" * 100
SECRET = "hunter000zzz"
TOKEN = "abcdef.0123456789abcdef"


def config_map(data: Any, metadata: dict[str, Any] | None = None, **members: Any) -> dict[str, Any]:
    head = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": METADATA | (metadata or {})}
    return head | {"data": data} | members


def read(text: str) -> ApiObject:
    thing = read_object(text.encode(), CONFIG_MAPS, managed_fields=False)
    assert isinstance(thing, ApiObject)
    return thing


def left_of(text: str) -> str:
    return transform_for(CONFIG_MAPS, REDACTION)(read(text)).body.decode()


def compact(manifest: Any) -> str:
    return planted.SPELLINGS["compact"](manifest)


@pytest.mark.parametrize("spelling", planted.SPELLINGS)
@pytest.mark.parametrize("name", planted.free(lambda: SECRET))
def test_no_planted_secret_is_left(name: str, spelling: str) -> None:
    members = planted.free(lambda: SECRET)[name]
    for manifest in (
        config_map({"text": LONG} | members),
        config_map({"text": LONG, "inner": members}),
        config_map({"text": LONG}, members),
        config_map({"text": LONG}, {"labels": members}),
        config_map({"text": LONG}, other=members),
        config_map({"text": LONG}, binaryData=members),
    ):
        left = left_of(planted.SPELLINGS[spelling](manifest))

        assert SECRET not in left
        assert json.loads(left).keys() == manifest.keys(), "not bare"


def test_of_two_members_with_a_name_both_are_searched() -> None:
    secret = json.dumps({"args": f"--password={SECRET}"})
    text = json.dumps({"text": LONG})
    metadata = json.dumps(METADATA)
    for body in (
        f'{{"kind":"ConfigMap","apiVersion":"v1","metadata":{metadata},"data":{secret},"data":{text}}}',
        f'{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"args":{secret}}},"metadata":{metadata},"data":{text}}}',
    ):
        assert SECRET not in left_of(body)


@pytest.mark.parametrize("member", ["data", "binaryData"])
def test_a_long_release_of_helm_is_a_digest(member: str) -> None:
    release = config_map({"release": SECRET, "text": LONG}, {"labels": {"owner": "helm"}})
    release |= {member: {"release": SECRET, "text": LONG}}

    assert SECRET not in left_of(compact(release))


def test_texts_alone_stay_as_they_are() -> None:
    for metadata in ({}, {"labels": {"env": "prod", "release": "stable"}}, {"annotations": {"a": "--x \\ é"}}):
        thing = read(compact(config_map({"text": LONG, "a": "", "é": "env"}, metadata, immutable=True)))

        assert transform_for(CONFIG_MAPS, REDACTION)(thing) is thing


_names = st.sampled_from(["a", "é", 'a"b', "x\\", "a\noken", "release", "joinToken", "TOKEN", "oken\n", *PLACES])
_values = st.sampled_from(
    ["", LONG, f"--password={SECRET}", TOKEN, 'a "env":[ b', "x\\", None, 7, [f"--password={SECRET}"], {"token": TOKEN}]
)


@given(
    data=st.dictionaries(_names, _values),
    labels=st.dictionaries(_names, _values),
    ascii_only=st.booleans(),
)
@examples(150)
def test_a_long_config_map_is_redacted_like_the_decoded_one(
    data: dict[str, Any], labels: dict[str, Any], ascii_only: bool
) -> None:
    manifest = config_map({"text": LONG} | data, {"labels": labels})

    fast = left_of(json.dumps(manifest, separators=(",", ":"), ensure_ascii=ascii_only))

    assert json.loads(fast) == json.loads(left_of(json.dumps(manifest, indent=1)))
