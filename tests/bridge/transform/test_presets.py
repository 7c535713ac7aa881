"""Credentials in objects that are no Secrets: found in the bytes as in the decoded object."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bridge.kube.wire.objects import read_object
from bridge.model.object import LAST_APPLIED, ApiObject, is_digest_in
from bridge.model.policies import RedactionPreset as Preset
from bridge.model.resource import Resource
from bridge.transform.places import PLACES, Reading
from bridge.transform.redaction import Redaction
from bridge.transform.redaction_key import RedactionKey
from bridge.transform.transform import transform_for
from tests.kit.examples import examples

PODS = Resource("", "v1", "pods", "Pod", namespaced=True)
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)
WIDGETS = Resource("example.com", "v1", "widgets", "Widget", namespaced=True)
SECRET = "hunter2-hunter2"
TOKEN = "abcdef.0123456789abcdef"
REDACTION = Redaction((RedactionKey(b"k" * 32),))
METADATA = {"name": "web", "namespace": "shop", "uid": "uid-1", "resourceVersion": "7"}


def a_pod(**container: Any) -> dict[str, Any]:
    return {"kind": "Pod", "apiVersion": "v1", "metadata": METADATA, "spec": {"containers": [container]}}


def read(resource: Resource, manifest: Any, **form: Any) -> ApiObject:
    text = json.dumps(manifest, **({"separators": (",", ":")} | form))
    thing = read_object(text.encode(), resource, managed_fields=False)
    assert isinstance(thing, ApiObject)
    return thing


def leaves(resource: Resource, manifest: Any, redaction: Redaction = REDACTION, **form: Any) -> Any:
    return json.loads(transform_for(resource, redaction)(read(resource, manifest, **form)).body)


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
    places = {name: IN_A_PLACE[reading] for name, (_, reading) in PLACES.items()}
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


def test_variables_are_found_at_any_depth_and_in_any_shape() -> None:
    inner = {"env": [{"name": "TOKEN", "value": SECRET}]}
    widget = {"kind": "Widget", "apiVersion": "example.com/v1", "metadata": METADATA}
    shapes: list[Any] = [
        {"spec": {"template": {"spec": {"initContainers": [inner, inner]}}}},
        {"spec": {"env": {"TOKEN": SECRET, "PORT": "1"}}},
        {"spec": {"env": {"TOKEN": {"value": {"env": [f"PASSWORD={SECRET}"]}}}}},
        {"spec": {"env": [f"TOKEN={SECRET}", 5]}},
        {"spec": {"env": [{"value": SECRET, "name": "TOKEN"}]}},
        {"spec": {"env": [{"name": "TOKEN", "value": SECRET, "more": [1, {"args": [f"--token={SECRET}"]}]}]}},
        {"spec": {"env": [{"name": "PIN", "value": 271828182845}]}},
    ]
    for shape in shapes:
        left = transform_for(WIDGETS, REDACTION)(read(WIDGETS, widget | shape)).body
        assert SECRET.encode() not in left, shape
        assert b"271828182845" not in left, shape
        assert json.loads(left)["metadata"] == METADATA


@pytest.mark.parametrize("form", [{"indent": 1}, {"separators": (" ,", " : ")}], ids=["indented", "spaced"])
def test_another_spelling_of_the_json_hides_no_credential(form: dict[str, Any]) -> None:
    pod = a_pod(env=[{"name": "TOKEN", "value": SECRET}], args=["--password", SECRET])

    assert leaves(PODS, pod, **form) == leaves(PODS, pod)


@pytest.mark.parametrize("name", ["env", "TOKEN", "args"])
def test_an_escaped_name_hides_no_credential(name: str) -> None:
    pod = a_pod(env=[{"name": "TOKEN", "value": SECRET}], args=[f"--token={SECRET}"])
    text = json.dumps(pod, separators=(",", ":")).replace(name, f"\\u{ord(name[0]):04x}{name[1:]}")
    thing = read_object(text.encode(), PODS, managed_fields=False)
    assert isinstance(thing, ApiObject)

    assert json.loads(transform_for(PODS, REDACTION)(thing).body) == leaves(PODS, pod)


@pytest.mark.parametrize("name", [']"', "]\\", "]\n"])
def test_a_name_like_the_end_of_its_list_hides_no_credential(name: str) -> None:
    left = leaves(PODS, a_pod(env=[{"name": name, "value": "a"}, {"name": "TOKEN", "value": SECRET}]))

    assert SECRET not in json.dumps(left)


def test_equal_values_of_two_objects_have_two_digests() -> None:
    def digest(name: str) -> str:
        pod = a_pod(env=[{"name": "TOKEN", "value": SECRET}]) | {"metadata": METADATA | {"name": name}}
        return str(container(leaves(PODS, pod))["env"][0]["value"])

    assert digest("a") != digest("b")
    assert digest("a") == digest("a")


# ── Arguments ────────────────────────────────────────────────────────────────


def test_arguments_lose_their_credentials_and_no_others() -> None:
    left = container(
        leaves(PODS, a_pod(command=["sh", "-c", f"run --password {SECRET} -v"], args=["--token", SECRET, "--port=80"]))
    )

    assert SECRET not in json.dumps(left)
    assert left["command"][2].startswith("run --password hmac-sha256:")
    assert left["command"][2].endswith(" -v")
    assert [left["args"][0], left["args"][2]] == ["--token", "--port=80"]


def test_probes_and_mixed_lists_are_judged_too() -> None:
    probe = {"exec": {"command": ["check", f"--password={SECRET}"]}}
    mixed = {"args": [1, f"--password={SECRET}", {"env": {"TOKEN": SECRET}}]}

    assert SECRET not in json.dumps(leaves(PODS, a_pod(livenessProbe=probe)))
    assert SECRET not in json.dumps(leaves(PODS, a_pod(mixed=mixed)))


# ── Annotations, bootstrap tokens, Helm ──────────────────────────────────────


def test_copies_of_the_object_in_annotations_leave_with_nobody() -> None:
    copies = [
        LAST_APPLIED,
        "banzaicloud.com/last-applied",
        "app.oam.dev/last-applied-configuration",
        "objectset.rio.cattle.io/applied",
        "kapp.k14s.io/original",
        "kopf.zalando.org/last-handled-configuration",
    ]
    for copy in copies:
        annotations = {copy: SECRET, "team": "a", "kapp.k14s.io/identity": "v1;x"}
        left = leaves(PODS, a_pod() | {"metadata": METADATA | {"annotations": annotations}})
        assert left["metadata"]["annotations"] == {"team": "a", "kapp.k14s.io/identity": "v1;x"}


def test_annotations_that_are_known_to_hold_tokens_are_digests() -> None:
    known = {"openshift.io/token-secret.value": SECRET, "example.com/auth-token": SECRET}
    others = {"example.com/token-ttl": "5m", "team": "a", "example.com/token": ""}

    left = leaves(PODS, a_pod() | {"metadata": METADATA | {"annotations": known | others}})["metadata"]["annotations"]

    assert {name: left[name] for name in others} == others
    assert all(is_digest_in(left[name]) for name in known)


@pytest.mark.parametrize("annotations", [{LAST_APPLIED: SECRET}, {"a/token": SECRET}, [SECRET, "token"], "token"])
def test_annotations_of_another_shape_leave_the_object_bare(annotations: Any) -> None:
    pod = a_pod() | {"metadata": METADATA | {"annotations": annotations}}

    left = json.dumps(leaves(PODS, pod))

    assert SECRET not in left
    if not isinstance(annotations, dict):
        assert "spec" not in left


def test_bootstrap_tokens_are_redacted_where_members_hold_them() -> None:
    spec = {"joinConfiguration": {"discovery": {"bootstrapToken": {"token": TOKEN, "apiServerEndpoint": "h:6443"}}}}
    config = {"kind": "Widget", "apiVersion": "example.com/v1", "metadata": METADATA, "spec": spec}

    left = leaves(WIDGETS, config)["spec"]["joinConfiguration"]["discovery"]["bootstrapToken"]

    assert is_digest_in(left["token"])
    assert left["apiServerEndpoint"] == "h:6443"


@pytest.mark.parametrize(
    "metadata",
    [
        {"labels": {"owner": "helm"}},
        {"labels": {"OWNER": "TILLER"}},
        {"name": "sh.helm.release.v1.web.v1"},
    ],
)
def test_the_data_of_a_helm_release_is_a_digest(metadata: dict[str, Any]) -> None:
    release = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": METADATA | metadata, "data": {"release": SECRET}}

    left = leaves(CONFIG_MAPS, release)

    assert is_digest_in(left["data"]["release"])
    assert left["metadata"] == METADATA | metadata


def test_a_config_map_with_a_release_of_its_own_stays() -> None:
    mine = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": METADATA, "data": {"release": "stable"}}

    assert leaves(CONFIG_MAPS, mine) == mine


@pytest.mark.parametrize("preset", Preset)
def test_a_preset_that_is_off_changes_nothing(preset: Preset) -> None:
    annotations = {"a/token": "t-annotations"}
    pod = a_pod(env=[{"name": "TOKEN", "value": "t-env"}], args=["--token=t-arguments"], token=TOKEN)
    widget = pod | {"kind": "Widget", "apiVersion": "example.com/v1"}
    widget["metadata"] = METADATA | {"annotations": annotations}
    release = {"kind": "ConfigMap", "apiVersion": "v1", "data": {"release": "t-helm_releases"}}
    release["metadata"] = METADATA | {"labels": {"owner": "helm"}}
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
    manifest = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": METADATA, "spec": spec}

    compact = leaves(resource, manifest, ensure_ascii=ascii_only)

    if resource is WIDGETS:
        assert compact == leaves(resource, manifest, indent=1)


def _flagged(value: Any, name: str = "") -> bool:
    """An oracle of its own: whether a credential stands in a variable, a flag or a URL."""
    if isinstance(value, dict):
        named = isinstance(value.get("name"), str) and "value" in value and name == "env-item"
        if named and value["name"] in ("TOKEN", "DB_PASSWORD") and value["value"] == SECRET:
            return True
        if name == "env" and value.get("TOKEN") == SECRET:
            return True
        return any(_flagged(inner, each) for each, inner in value.items())
    if isinstance(value, list):
        inside = "env-item" if name == "env" else "argument" if name in ("args", "command") else ""
        return any(_flagged(each, inside) for each in value)
    return name == "argument" and isinstance(value, str) and f"--password={SECRET}" in value


@given(spec=_values)
@examples(75)
def test_no_credential_of_the_presets_gets_through(spec: Any) -> None:
    manifest = {"kind": "Widget", "apiVersion": "example.com/v1", "metadata": METADATA, "spec": spec}

    assert not _flagged(leaves(WIDGETS, manifest))


@given(specs=st.lists(_values, min_size=2, max_size=6))
@example(specs=[{"args": ["--name", "token=]", "]"]}, {"env": ["--name", "token=]", "]"]}])
@example(specs=[{"args": ["a]"]}, {"args": ["a]", f"--password={SECRET}"]}])
def test_memory_of_earlier_bodies_changes_no_redaction(specs: list[Any]) -> None:
    transform = transform_for(WIDGETS, REDACTION)
    for spec in specs:
        widget = read(WIDGETS, {"kind": "Widget", "apiVersion": "example.com/v1", "metadata": METADATA, "spec": spec})

        assert transform(widget).body == transform_for(WIDGETS, REDACTION)(widget).body
