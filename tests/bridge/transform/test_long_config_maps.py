"""The texts of a long ConfigMap are not searched, and what it is redacted to is the same as if they were."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.transform.places import PLACES
from bridge.transform.transform import transform_for
from tests.bridge.transform.leaving import CONFIG_MAPS, METADATA, REDACTION, TOKEN, leaves, manifest, read
from tests.kit import planted
from tests.kit.examples import examples

LONG = "an indented\ttext with \"env\":[ and <'x'>\n" * 100
SECRET = "hunter000zzz"


@pytest.mark.parametrize("spelling", planted.SPELLINGS)
@pytest.mark.parametrize("name", planted.free(lambda: SECRET))
def test_no_planted_secret_is_left(name: str, spelling: str) -> None:
    members = planted.free(lambda: SECRET)[name]
    for thing in (
        manifest(CONFIG_MAPS, data={"text": LONG} | members),
        manifest(CONFIG_MAPS, data={"text": LONG, "inner": members}),
        manifest(CONFIG_MAPS, members, data={"text": LONG}),
        manifest(CONFIG_MAPS, {"labels": members}, data={"text": LONG}),
        manifest(CONFIG_MAPS, data={"text": LONG}, other=members),
        manifest(CONFIG_MAPS, data={"text": LONG}, binaryData=members),
    ):
        left = leaves(CONFIG_MAPS, planted.SPELLINGS[spelling](thing))

        assert SECRET not in json.dumps(left)
        assert left.keys() == thing.keys(), "not bare"


def test_of_two_members_with_a_name_both_are_searched() -> None:
    secret = json.dumps({"args": f"--password={SECRET}"})
    text = json.dumps({"text": LONG})
    metadata = json.dumps(METADATA)
    for body in (
        f'{{"kind":"ConfigMap","apiVersion":"v1","metadata":{metadata},"data":{secret},"data":{text}}}',
        f'{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"args":{secret}}},"metadata":{metadata},"data":{text}}}',
    ):
        assert SECRET.encode() not in transform_for(CONFIG_MAPS, REDACTION)(read(CONFIG_MAPS, body)).body


@pytest.mark.parametrize("member", ["data", "binaryData"])
def test_a_long_release_of_helm_is_a_digest(member: str) -> None:
    release = manifest(CONFIG_MAPS, {"labels": {"owner": "helm"}}, **{member: {"release": SECRET, "text": LONG}})

    assert SECRET not in json.dumps(leaves(CONFIG_MAPS, release))


def test_texts_alone_stay_as_they_are() -> None:
    for metadata in ({}, {"labels": {"env": "prod", "release": "stable"}}, {"annotations": {"a": "--x \\ é"}}):
        data = {"text": LONG, "a": "", "é": "env"}
        thing = read(CONFIG_MAPS, manifest(CONFIG_MAPS, metadata, data=data, immutable=True))

        assert transform_for(CONFIG_MAPS, REDACTION)(thing) is thing


_names = st.sampled_from(["a", "é", 'a"b', "x\\", "a\noken", "release", "joinToken", "TOKEN", "oken\n", *PLACES])
_values = st.sampled_from(
    ["", LONG, f"--password={SECRET}", TOKEN, 'a "env":[ b', "x\\", None, 7, [f"--password={SECRET}"], {"token": TOKEN}]
)


@given(data=st.dictionaries(_names, _values), labels=st.dictionaries(_names, _values), ascii_only=st.booleans())
@examples(150)
def test_a_long_config_map_is_redacted_like_the_decoded_one(
    data: dict[str, Any], labels: dict[str, Any], ascii_only: bool
) -> None:
    thing = manifest(CONFIG_MAPS, {"labels": labels}, data={"text": LONG} | data)

    assert leaves(CONFIG_MAPS, thing, ensure_ascii=ascii_only) == leaves(CONFIG_MAPS, thing, indent=1)
