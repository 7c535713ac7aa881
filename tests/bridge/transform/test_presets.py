"""Credentials in objects that are no Secrets: found in the bytes as in the decoded object."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bridge.model.object import LAST_APPLIED, is_digest_in
from bridge.model.policies import RedactionPreset as Preset
from bridge.model.resource import Resource
from bridge.transform.places import PLACES, Reading
from bridge.transform.redaction import Redaction
from bridge.transform.transform import transform_for
from tests.bridge.transform.leaving import (
    CONFIG_MAPS,
    METADATA,
    REDACTION,
    SECRET,
    TOKEN,
    WIDGETS,
    leaves,
    manifest,
    read,
)
from tests.kit.examples import examples
from tests.kit.records import PODS


def a_pod(metadata: dict[str, Any] | None = None, **container: Any) -> dict[str, Any]:
    return manifest(PODS, metadata, spec={"containers": [container]})


def container(manifest: Any) -> Any:
    return manifest["spec"]["containers"][0]


# ── Places ───────────────────────────────────────────────────────────────────

IN_A_PLACE = {
    Reading.VARIABLES: [{"name": "DB_PASSWORD", "value": SECRET}],
    Reading.ARGUMENTS: ["--password", SECRET],
}


@pytest.mark.parametrize("on", Preset)
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_a_place_is_redacted_by_its_own_preset_alone(on: Preset, separators: tuple[str, str]) -> None:
    places: dict[str, Any] = {name: IN_A_PLACE[reading] for name, (_, reading) in PLACES.items()}
    redaction = Redaction(REDACTION.keys, frozenset({on}))
    left = container(leaves(PODS, a_pod(name="web", **places), redaction, separators=separators))
    kept = [name for name in places if SECRET in json.dumps(left[name])]
    assert kept == [name for name, (preset, _) in PLACES.items() if preset is not on]


# ── Environment variables ────────────────────────────────────────────────────


def test_a_variables_value_leaves_as_a_digest_by_its_name() -> None:
    env = [
        {"name": "PORT", "value": "8080"},
        {"name": "DB_PASSWORD", "value": SECRET},
        {"name": "URL", "value": f"postgres://shop:{SECRET}@db/shop"},
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "web", "key": "token"}}},
        {"name": "API_KEY", "value": "$(TOKEN)"},
    ]

    left = container(leaves(PODS, a_pod(env=env)))["env"]

    assert [left[0], *left[3:]] == [env[0], *env[3:]]
    assert left[1]["name"] == "DB_PASSWORD"
    assert is_digest_in(left[1]["value"])
    assert left[2]["value"].startswith("postgres://shop:hmac-sha256:")
    assert left[2]["value"].endswith("@db/shop")


def test_an_object_without_credentials_is_the_same_object() -> None:
    pod = read(PODS, a_pod(env=[{"name": "PORT", "value": "8080"}], args=["--port=8080"], command=["run"]))
    transform = transform_for(PODS, REDACTION)

    assert transform(pod) is pod
    assert transform(pod) is pod  # the second time by memory


def test_a_number_in_a_variable_of_a_secret_name_is_redacted() -> None:
    assert "271828" not in json.dumps(leaves(WIDGETS, manifest(WIDGETS, env=[{"name": "PIN", "value": 271828182845}])))


def test_equal_values_of_two_objects_have_two_digests() -> None:
    def digest(name: str) -> str:
        pod = a_pod({"name": name}, env=[{"name": "TOKEN", "value": SECRET}])
        return str(container(leaves(PODS, pod))["env"][0]["value"])

    assert digest("a") != digest("b")
    assert digest("a") == digest("a")


# ── Annotations, bootstrap tokens, Helm ──────────────────────────────────────


@pytest.mark.parametrize("annotations", [{LAST_APPLIED: SECRET}, {"a/token": SECRET}, [SECRET, "token"], "token"])
def test_annotations_of_another_shape_leave_the_object_bare(annotations: Any) -> None:
    left = json.dumps(leaves(PODS, a_pod({"annotations": annotations})))

    assert SECRET not in left
    if not isinstance(annotations, dict):
        assert "spec" not in left


@pytest.mark.parametrize(
    "metadata",
    [{"labels": {"owner": "helm"}}, {"labels": {"OWNER": "TILLER"}}, {"name": "sh.helm.release.v1.web.v1"}],
)
def test_the_data_of_a_helm_release_is_a_digest(metadata: dict[str, Any]) -> None:
    left = leaves(CONFIG_MAPS, manifest(CONFIG_MAPS, metadata, data={"release": SECRET}))

    assert is_digest_in(left["data"]["release"])
    assert left["metadata"] == METADATA | metadata


def test_a_config_map_with_a_release_of_its_own_stays() -> None:
    mine = manifest(CONFIG_MAPS, data={"release": "stable"})

    assert leaves(CONFIG_MAPS, mine) == mine


@pytest.mark.parametrize("preset", Preset)
def test_a_preset_that_is_off_changes_nothing(preset: Preset) -> None:
    spec = {"env": [{"name": "TOKEN", "value": "t-env"}], "args": ["--token=t-arguments"], "token": TOKEN}
    widget = manifest(WIDGETS, {"annotations": {"a/token": "t-annotations"}}, spec=spec)
    release = manifest(CONFIG_MAPS, {"labels": {"owner": "helm"}}, data={"release": "t-helm_releases"})
    texts = {each: TOKEN if each is Preset.BOOTSTRAP_TOKENS else f"t-{each}" for each in Preset}

    redaction = Redaction(REDACTION.keys, frozenset(Preset) - {preset})
    left = json.dumps([leaves(WIDGETS, widget, redaction), leaves(CONFIG_MAPS, release, redaction)])

    assert [each for each, text in texts.items() if text in left] == [preset]


# ── Properties ───────────────────────────────────────────────────────────────

_names = st.sampled_from(
    ["env", "args", "command", "name", "value", "token", "TOKEN", "valueFrom", "a", "x\\", 'a"b', "é"]
)
_texts = st.one_of(
    st.text(max_size=8),
    st.sampled_from([SECRET, TOKEN, "--token", f"--password={SECRET}", "</>", '"env":[', f"redis://a:{SECRET}@h"]),
)
_variables = st.builds(
    lambda name, rest: {"name": name} | rest,
    st.sampled_from(["TOKEN", "PORT", "DB_PASSWORD"]),
    st.one_of(
        st.just({}),
        _texts.map(lambda value: {"value": value}),
        st.just({"valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}),
    ),
)
_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**53), 2**53), _texts),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(_names, inner, max_size=4),
        st.builds(lambda env: {"env": env}, st.lists(_variables, max_size=4)),
        st.builds(lambda args: {"args": args}, st.lists(_texts, max_size=4)),
    ),
    max_leaves=12,
)


@given(spec=_values, resource=st.sampled_from([PODS, WIDGETS]), ascii_only=st.booleans())
@example(
    spec={"env": {"TOKEN": SECRET, "a": [{"env": [{"name": "TOKEN", "value": SECRET}]}]}},
    resource=WIDGETS,
    ascii_only=True,
)
@examples(75)
def test_bytes_and_decoded_objects_are_redacted_alike(spec: Any, resource: Resource, ascii_only: bool) -> None:
    thing = manifest(resource, spec=spec)

    compact = leaves(resource, thing, ensure_ascii=ascii_only)

    if resource is WIDGETS:
        assert compact == leaves(resource, thing, indent=1)


@given(specs=st.lists(_values, min_size=2, max_size=6))
@example(specs=[{"args": ["--name", "token=]", "]"]}, {"env": ["--name", "token=]", "]"]}])
@example(specs=[{"args": ["a]"]}, {"args": ["a]", f"--password={SECRET}"]}])
def test_memory_of_earlier_bodies_changes_no_redaction(specs: list[Any]) -> None:
    transform = transform_for(WIDGETS, REDACTION)
    for spec in specs:
        widget = read(WIDGETS, manifest(WIDGETS, spec=spec))

        assert transform(widget).body == transform_for(WIDGETS, REDACTION)(widget).body
