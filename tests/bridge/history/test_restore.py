"""Manifests out of states. That kube-apiserver takes them, ``test_restored_on_a_server`` shows."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
import yaml

from bridge.cli.manifests import as_yaml
from bridge.history.restore import CannotBeRestored, RedactedValue, Restored, restored
from bridge.model.object import bare_body
from tests.kit.records import PODS
from tests.kit.texts import TEXTS

DIGEST = "hmac-sha256:0123abcd:" + "0" * 64
SERVERS = {
    "uid": "u",
    "resourceVersion": "7",
    "generation": 3,
    "creationTimestamp": "2026-01-05T10:00:00Z",
    "managedFields": [{"manager": "kubectl"}],
    "selfLink": "/x",
}


def _state(kind: str, api_version: str = "v1", metadata: dict[str, Any] | None = None, **members: Any) -> bytes:
    head = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a", **SERVERS, **(metadata or {})}}
    return json.dumps({**head, **members, "status": {"phase": "Active"}}).encode()


def _of(*arguments: Any, **members: Any) -> Restored:
    return restored(_state(*arguments, **members))


def test_what_the_server_owns_is_left_out() -> None:
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": "{}"}
    made = _of("ConfigMap", metadata={"annotations": annotations, "labels": {"x": "1"}}, data={"k": "v"})
    metadata = {"name": "a", "labels": {"x": "1"}}
    assert made == Restored({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"k": "v"}}, ())


def test_owners_and_finalizers_are_left_out_and_told() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "u"}
    more = {"ownerReferences": [owner], "finalizers": ["example.com/x"], "deletionTimestamp": "2026-01-06T10:00:00Z"}
    made = _of("ConfigMap", metadata=more)
    assert made.manifest["metadata"] == {"name": "a"}
    assert made.notes == (
        "the object was being deleted since 2026-01-06T10:00:00Z",
        "left out: its owner ReplicaSet web-1",
        "left out: its finalizers example.com/x",
    )


def test_a_service_gets_addresses_and_ports_of_its_own() -> None:
    spec = {
        "clusterIP": "10.0.0.7",
        "clusterIPs": ["10.0.0.7"],
        "healthCheckNodePort": 30001,
        "ports": [{"port": 80, "nodePort": 30000}, {"port": 81}],
        "type": "LoadBalancer",
    }
    assert _of("Service", spec=spec).manifest["spec"] == {
        "ports": [{"port": 80}, {"port": 81}],
        "type": "LoadBalancer",
    }
    headless = {"clusterIP": "None", "clusterIPs": ["None"]}
    assert _of("Service", spec=headless).manifest["spec"] == headless


def test_a_pod_gets_a_node_and_a_token_of_its_own() -> None:
    token = {"name": "kube-api-access-x7k2p", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
    data = {"name": "data", "mountPath": "/data"}
    spec = {
        "nodeName": "a",
        "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
        "initContainers": [{"name": "i", "volumeMounts": [token]}],
        "containers": [{"name": "c", "volumeMounts": [data, token]}],
        "volumes": [{"name": "data", "emptyDir": {}}, {"name": "kube-api-access-x7k2p", "projected": {}}],
        "ephemeralContainers": [{"name": "debug"}],
    }
    assert _of("Pod", spec=spec).manifest["spec"] == {
        "initContainers": [{"name": "i"}],
        "containers": [{"name": "c", "volumeMounts": [data]}],
        "volumes": [{"name": "data", "emptyDir": {}}],
    }


def test_a_job_selects_pods_of_its_own() -> None:
    labels = {"controller-uid": "u", "batch.kubernetes.io/controller-uid": "u", "job-name": "a", "app": "web"}
    spec = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": {}}}
    made = _of("Job", "batch/v1", {"labels": labels}, spec=spec).manifest
    assert made["metadata"]["labels"] == {"app": "web"}
    assert made["spec"] == {"template": {"metadata": {"labels": {"app": "web"}}, "spec": {}}}
    manual = {"manualSelector": True, "selector": {"matchLabels": {"app": "web"}}}
    assert _of("Job", "batch/v1", spec=manual).manifest["spec"] == manual


def test_claims_and_volumes_are_bound_anew() -> None:
    bound = {"annotations": {"pv.kubernetes.io/bind-completed": "yes", "mine": "1"}}
    claim = _of("PersistentVolumeClaim", metadata=bound, spec={"volumeName": "pv", "storageClassName": "fast"})
    assert claim.manifest["spec"] == {"storageClassName": "fast"}
    assert claim.manifest["metadata"]["annotations"] == {"mine": "1"}
    reference = {"namespace": "n", "name": "c", "uid": "u", "resourceVersion": "7"}
    volume = _of("PersistentVolume", spec={"claimRef": reference})
    assert volume.manifest["spec"] == {"claimRef": {"namespace": "n", "name": "c"}}


# ── What cannot be restored ──────────────────────────────────────────────────


@pytest.mark.parametrize(
    "value",
    [DIGEST, f"--password={DIGEST} --user=x", base64.b64encode(DIGEST.encode()).decode(), "[redacted]"],
)
def test_what_was_redacted_is_refused_with_its_path(value: str) -> None:
    members = {
        "data": {"plain": "x", "a.b/c": value},
        "spec": {"containers": [{"env": [{}, {"name": "P", "value": value}]}]},
    }
    with pytest.raises(CannotBeRestored) as refused:
        _of("ConfigMap", **members)
    assert sorted(refused.value.paths) == [f"data['a.b/c']: {value}", f"spec.containers[0].env[1].value: {value}"]


def test_an_item_that_was_removed_is_refused() -> None:
    with pytest.raises(CannotBeRestored) as refused:
        _of("Pod", spec={"args": ["a", None]})
    assert refused.value.paths == ("spec.args[1]: removed",)


def test_many_redacted_values_are_counted() -> None:
    with pytest.raises(CannotBeRestored) as refused:
        _of("ConfigMap", data={f"k{number}": DIGEST for number in range(1000)})
    assert (len(refused.value.paths), refused.value.paths[-1]) == (51, "and 950 more")


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (_state("Secret", data={}), "a Secret"),
        (b"", "no states"),
        (b"{", "no readable object"),
        (b"[" * 100_000, "no readable object"),
        (bare_body(PODS, "n/a", "u", "7"), "only the object's name"),
    ],
)
def test_what_is_no_whole_object_is_refused(state: bytes, reason: str) -> None:
    with pytest.raises(CannotBeRestored, match=reason):
        restored(state, placeholders=True)


def test_members_of_another_shape_are_passed_over() -> None:
    for wrong in (None, "x", 7, ["x"], {"x": ["y"]}):
        for kind in ("Service", "Pod", "PersistentVolume"):
            members = {"spec": wrong, "metadata": wrong}
            restored(json.dumps({"apiVersion": "v1", "kind": kind, **members}).encode(), placeholders=True)


# ── YAML ─────────────────────────────────────────────────────────────────────


def test_placeholders_are_comments_in_their_places() -> None:
    env = [{"name": "P", "value": DIGEST}, {"value": "[redacted]", "name": "Q"}]
    state = _state("Pod", spec={"containers": [{"env": env, "args": ["a", "[redacted]", "b"]}]})
    made = restored(state, placeholders=True).manifest
    text = as_yaml(made)
    assert f"value: # redacted: {DIGEST}" in text
    assert "- # redacted: [redacted]" in text
    container = yaml.safe_load(text)["spec"]["containers"][0]
    assert container == {
        "env": [{"name": "P", "value": None}, {"value": None, "name": "Q"}],
        "args": ["a", None, "b"],
    }


def test_a_placeholder_cannot_end_its_comment() -> None:
    text = as_yaml({"a": RedactedValue("x\ny: 1\u2028z: 2\x1b[2J")})
    assert text == "a: # redacted: x\\ny: 1\\u2028z: 2\\u001b[2J"


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_stays_a_text(text: str) -> None:
    written = as_yaml({"value": text, text: "value"})
    assert yaml.safe_load(written) == {"value": text, text: "value"}
    if "\n" not in text and text not in ("é", "true", "null", "Yes", "on"):
        assert '"' in written  # Kubernetes' reader of YAML knows more numbers and booleans than PyYAML.


def test_what_no_terminal_should_get_is_escaped() -> None:
    value = {"a": "\x1b[2J", "b": "\u202egnp.exe", "c": "line\n\x9b31m", "d": "é"}
    written = as_yaml(value)
    assert yaml.safe_load(written) == value
    assert written.isascii()
    assert as_yaml({"d": "é"}) == 'd: "é"'


def test_a_deep_object_is_json() -> None:
    deep: Any = "x"
    for _ in range(300):
        deep = {"a": [deep]}
    written = as_yaml({"deep": deep})
    assert json.loads(written) == {"deep": deep}
    assert len(written) < 20_000
