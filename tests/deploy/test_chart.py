"""What the chart renders, and what it refuses."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer

from config.load import load
from tests.deploy.component import plain as plain_manifests
from tests.deploy.helm import (
    CONFIG,
    EVERYTHING,
    KUBERNETES,
    NAMESPACE,
    REPLICAS,
    ROOT,
    TYPES,
    Helm,
    Manifest,
    Values,
    configuration_of,
    one,
    pod_of,
    without_helm,
)

EXAMPLES = sorted((ROOT / "config/examples").glob("*.yaml"))


@pytest.fixture(scope="module")
def plain(helm: Helm) -> list[Manifest]:
    """Of the default values."""
    return helm.rendered()


# ── Kubernetes takes it ──────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "values",
    [{}, {"config": CONFIG}, EVERYTHING, REPLICAS],
    ids=["default", "configured", "everything", "replicas"],
)
def test_the_linter_finds_nothing(helm: Helm, values: Values) -> None:
    linted = helm.lint(values)
    assert linted.returncode == 0, linted.stdout + linted.stderr
    assert "[WARNING]" not in linted.stdout + linted.stderr


@pytest.mark.usefixtures("schemas_once")
@pytest.mark.parametrize("version", KUBERNETES)
def test_schemas_of_kubernetes_accept_every_object(
    version: str, plain: list[Manifest], full: list[Manifest], replicas: list[Manifest]
) -> None:
    own = [each for each in (*plain, *full, *replicas) if not each["apiVersion"].startswith("monitoring.coreos.com/")]
    assert {"Deployment", "StatefulSet", "PodDisruptionBudget", "Role"} <= {each["kind"] for each in own}
    for manifest in own:
        assert kubernetes_validate.validate(manifest, version, strict=True) == version
    misspelt = one(plain, "Service") | {"spce": {}}
    with pytest.raises(kubernetes_validate.ValidationError, match="spce"):
        kubernetes_validate.validate(misspelt, version, strict=True)


# ── The plain manifests ──────────────────────────────────────────────────────


def test_the_plain_manifests_are_what_the_chart_renders(plain: list[Manifest]) -> None:
    folder = ROOT / "deploy"
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    written = [each for each in plain_manifests() if each["kind"] != "Namespace"]  # helm creates it, or finds it
    [image] = kustomization["images"]
    [container] = pod_of(written)["containers"]
    container["image"] = f"{container['image']}:{image['newTag']}"
    container["imagePullPolicy"] = "IfNotPresent"  # the API server's default for a tag

    rendered = {(each["kind"], each["metadata"]["name"]): without_helm(each) for each in plain}
    config = rendered.pop(("ConfigMap", "kubedelta"))

    assert rendered == {(each["kind"], each["metadata"]["name"]): without_helm(each) for each in written}
    assert config["data"] == {"kubedelta.yaml": (folder / "kubedelta.yaml").read_text()}


# ── The configuration ────────────────────────────────────────────────────────


def test_the_bridge_reads_the_values_as_they_were_written(helm: Helm, tmp_path: Path) -> None:
    settings = configuration_of(helm.rendered({"config": CONFIG}), tmp_path)
    written = tmp_path / "written.yaml"
    added = {
        "state": {"directory": "/var/lib/kubedelta"},
        "telemetry": {"listen": ":8080", "log_format": "json"},
    }
    written.write_text(yaml.safe_dump({**CONFIG, **added}))
    assert settings == load(written, {}, TYPES)
    assert settings.sinks["deltas"].max_backlog.records == 10_000_000


def test_the_operators_own_address_and_directory_win(helm: Helm, tmp_path: Path) -> None:
    own = {"state": {"directory": "/srv/state", "retain": {"age": "1h"}}, "telemetry": {"listen": "0.0.0.0:9000"}}
    manifests = helm.rendered({"config": {**CONFIG, **own}})
    settings = configuration_of(manifests, tmp_path)
    [container] = pod_of(manifests)["containers"]
    assert settings.state.directory == Path("/srv/state")
    assert {"name": "state", "mountPath": "/srv/state"} in container["volumeMounts"]
    assert container["ports"] == [{"name": "http", "containerPort": 9000}]
    assert one(manifests, "Service")["spec"]["ports"][0]["port"] == 9000
    assert settings.telemetry.log_format == "json"


@pytest.mark.parametrize("name", ["reference.yaml", *(f"examples/{each.name}" for each in EXAMPLES)])
def test_every_example_of_a_configuration_is_accepted(helm: Helm, tmp_path: Path, name: str) -> None:
    written = yaml.safe_load((ROOT / "config" / name).read_text())
    for_a_pod = {"state": {"directory": "/var/lib/kubedelta"}, "telemetry": {"listen": ":8080"}}
    config = {**written, **{part: {**(written.get(part) or {}), **own} for part, own in for_a_pod.items()}}
    manifests = helm.rendered({"config": config, "rbac": {"create": False}})
    path = tmp_path / "expected.yaml"
    path.write_text(yaml.safe_dump({**config, "telemetry": {"log_format": "json", **config["telemetry"]}}))
    assert configuration_of(manifests, tmp_path) == load(path, {}, TYPES)


def test_a_section_without_options_has_the_charts_own(helm: Helm, tmp_path: Path) -> None:
    empty = dict.fromkeys(("state", "telemetry", "redaction", "shutdown_grace_seconds"))
    settings = configuration_of(helm.rendered({"config": {**CONFIG, **empty}}), tmp_path)
    assert settings.state.directory == Path("/var/lib/kubedelta")
    assert settings.telemetry.listen.port == 8080


def test_a_changed_configuration_restarts_the_pod(helm: Helm) -> None:
    def checksum(**values: Any) -> str:
        deployment = one(helm.rendered({**EVERYTHING, "restartOnConfigChange": True, **values}), "Deployment")
        return str(deployment["spec"]["template"]["metadata"]["annotations"]["checksum/config"])

    changed = checksum(config={**CONFIG, "latency": 0.05})
    assert checksum(commonLabels={"team": "another"}) == checksum() != changed


def test_or_the_bridge_reloads_it(full: list[Manifest]) -> None:
    assert "checksum/config" not in one(full, "Deployment")["spec"]["template"]["metadata"]["annotations"]


@pytest.mark.parametrize(
    ("grace", "seconds"), [(0, 30), (20, 30), (45.5, 56), ("1m", 70), ("1500ms", 12), ("2e1s", 30), (None, 30)]
)
def test_the_kubelet_waits_longer_than_the_bridge(helm: Helm, grace: object, seconds: int) -> None:
    pod = pod_of(helm.rendered({"config": {**CONFIG, "shutdown_grace_seconds": grace}}))
    assert pod["terminationGracePeriodSeconds"] == seconds


def test_the_values_of_the_guide_are_accepted(helm: Helm, tmp_path: Path) -> None:
    guide = (ROOT / "docs/operation.md").read_text()
    [example] = re.findall(r"\n\n((?:    .*\n)*    config:\n(?:    .*\n)*)", guide)
    values = yaml.safe_load(example)
    manifests = helm.rendered(values)
    [sink] = configuration_of(manifests, tmp_path).sinks.values()
    [container] = pod_of(manifests)["containers"]
    assert str(sink.options.model_dump()["password_file"]).startswith(values["secrets"][0]["mountPath"])
    assert values["secrets"][0]["mountPath"] in [each["mountPath"] for each in container["volumeMounts"]]


# ── The pod ──────────────────────────────────────────────────────────────────


def test_a_secret_is_mounted_by_its_name_and_not_copied(full: list[Manifest]) -> None:
    pod = pod_of(full)
    [container] = pod["containers"]
    [volume] = [each for each in pod["volumes"] if each["name"] == "secret-0"]
    [mount] = [each for each in container["volumeMounts"] if each["name"] == volume["name"]]
    assert volume["secret"] == {"secretName": "kafka.credentials", "defaultMode": 0o440}
    assert mount == {"name": volume["name"], "mountPath": "/etc/kubedelta-secrets/kafka", "readOnly": True}
    assert [each["kind"] for each in full if each["kind"] == "Secret"] == []


ENCRYPTION = {"existingSecret": "state", "keys": ["2026-11.key", "2026-05.key"]}
KEY_FILES = [Path("/etc/kubedelta-secrets/state", each) for each in ENCRYPTION["keys"]]


@pytest.mark.parametrize("config", [{}, CONFIG, {**CONFIG, "state": None}], ids=["default", "own", "without state"])
def test_keys_of_encryption_are_mounted_and_configured(helm: Helm, tmp_path: Path, config: Values) -> None:
    without, manifests = helm.rendered({"config": config}), helm.rendered({"config": config, "encryption": ENCRYPTION})
    found, plain = configuration_of(manifests, tmp_path).model_dump(), configuration_of(without, tmp_path).model_dump()
    assert list(found["state"].pop("encryption")["key_files"]) == KEY_FILES
    assert plain["state"].pop("encryption")["key_files"] == ()
    assert found == plain
    pod = pod_of(manifests)
    assert {"name": "encryption", "secret": {"secretName": "state", "defaultMode": 0o440}} in pod["volumes"]
    mount = {"name": "encryption", "mountPath": str(KEY_FILES[0].parent), "readOnly": True}
    assert mount in pod["containers"][0]["volumeMounts"]


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"encryption": {**ENCRYPTION, "keys": []}}, "encryption.keys: name the entries of the Secret state"),
        ({"encryption": {"keys": ["a.key"]}}, "encryption.existingSecret: name the Secret"),
        (
            {"encryption": ENCRYPTION, "config": {**CONFIG, "state": {"encryption": {"key_files": ["/a.key"]}}}},
            "config.state.encryption.key_files: the files of encryption.keys would replace them",
        ),
    ],
)
def test_half_an_encryption_is_refused(helm: Helm, values: Values, problem: str) -> None:
    assert problem in helm.refusal(values)


def test_a_digest_names_the_image_in_place_of_a_tag(full: list[Manifest], helm: Helm) -> None:
    assert pod_of(full)["containers"][0]["image"] == f"registry.test/kubedelta@sha256:{'0' * 64}"
    tagged = pod_of(helm.rendered({"image": {"tag": "edge"}}))
    assert tagged["containers"][0]["image"] == "kubedelta:edge"


def test_without_a_volume_the_state_is_in_the_pod(helm: Helm) -> None:
    manifests = helm.rendered({"persistence": {"enabled": False}})
    assert {"name": "state", "emptyDir": {}} in pod_of(manifests)["volumes"]
    assert not [each for each in manifests if each["kind"] == "PersistentVolumeClaim"]
    other = helm.rendered({"persistence": {"existingClaim": "mine"}})
    assert {"name": "state", "persistentVolumeClaim": {"claimName": "mine"}} in pod_of(other)["volumes"]
    assert not [each for each in other if each["kind"] == "PersistentVolumeClaim"]


# ── What is optional ─────────────────────────────────────────────────────────


PARTS = ("NetworkPolicy", "PodDisruptionBudget", "ServiceMonitor", "PrometheusRule")


@pytest.mark.parametrize("only", PARTS)
def test_a_part_is_there_only_if_it_is_enabled(helm: Helm, only: str) -> None:
    values = {f"{kind[0].lower()}{kind[1:]}": {"enabled": kind == only} for kind in PARTS}
    assert {each["kind"] for each in helm.rendered(values)} & {*PARTS} == {only}


def test_selectors_find_the_pod_and_the_service(full: list[Manifest]) -> None:
    deployment, service = one(full, "Deployment"), one(full, "Service")
    labels = deployment["spec"]["template"]["metadata"]["labels"].items()
    selectors = [
        deployment["spec"]["selector"]["matchLabels"],
        service["spec"]["selector"],
        one(full, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
        one(full, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
    ]
    assert all(selector and selector.items() <= labels for selector in selectors)
    monitor = one(full, "ServiceMonitor")["spec"]
    assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitor["endpoints"][0]["port"] == service["spec"]["ports"][0]["name"]


def test_alerts_link_to_their_runbook_and_can_be_left_out(full: list[Manifest]) -> None:
    written = yaml.safe_load((ROOT / "deploy/chart/files/alerts.yaml").read_text())
    rules = {each["alert"]: each for group in one(full, "PrometheusRule")["spec"]["groups"] for each in group["rules"]}
    expected = {each["alert"]: each for group in written["groups"] for each in group["rules"]}
    del expected["KubedeltaAbsent"]
    assert rules["KubedeltaGap"]["annotations"].pop("runbook_url") == "https://docs.test/alerts#kubedeltagap"
    for name, rule in rules.items():
        if name != "KubedeltaGap":
            del rule["annotations"]["runbook_url"]
    assert rules == expected


def test_bounded_connections_name_both_directions(plain: list[Manifest], full: list[Manifest]) -> None:
    assert one(plain, "NetworkPolicy")["spec"]["policyTypes"] == ["Ingress"]
    policy = one(full, "NetworkPolicy")["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert policy["egress"] == EVERYTHING["networkPolicy"]["egress"]


def test_every_object_has_the_common_labels(full: list[Manifest]) -> None:
    assert all(each["metadata"]["labels"]["team"] == "platform" for each in full)
    assert {each["metadata"].get("namespace", NAMESPACE) for each in full} == {NAMESPACE, "shop"}


def test_notes_name_what_is_not_bounded_or_lost(helm: Helm) -> None:
    said = helm.notes({"persistence": {"enabled": False}, "rbac": {"create": False}})
    for warning in ("config is empty", "persistence.enabled is false", "rbac.create is false", "egress is empty"):
        assert warning in said
    quiet = helm.notes(EVERYTHING)
    assert " is false" not in quiet
    assert " is empty" not in quiet


PAGE = {"listen": "0.0.0.0:8081", "token_file": "/etc/kubedelta-secrets/page/token"}


def test_the_chart_leaves_the_page_off(full: list[Manifest], plain: list[Manifest], tmp_path: Path) -> None:
    for manifests in (plain, full):
        assert configuration_of(manifests, tmp_path).page.listen is None
        assert [each["name"] for each in pod_of(manifests)["containers"][0]["ports"]] == ["http"]


def test_a_page_on_loopback_is_reached_by_port_forward(helm: Helm) -> None:
    values = {"config": {**CONFIG, "page": {"listen": "127.0.0.1:8081"}}}
    manifests = helm.rendered(values)
    assert [each["name"] for each in pod_of(manifests)["containers"][0]["ports"]] == ["http"]
    assert [each["name"] for each in one(manifests, "Service")["spec"]["ports"]] == ["http"]
    assert "port-forward deploy/kubedelta 8081" in helm.notes(values)


def test_a_page_for_other_machines_has_a_port_and_a_policy(helm: Helm) -> None:
    peers = [{"namespaceSelector": {"matchLabels": {"team": "platform"}}}]
    values = {"config": {**CONFIG, "page": PAGE}, "networkPolicy": {"pageFrom": peers}}
    manifests = helm.rendered(values)
    assert {"name": "page", "containerPort": 8081} in pod_of(manifests)["containers"][0]["ports"]
    assert one(manifests, "Service")["spec"]["ports"][1] == {"name": "page", "port": 8081, "targetPort": "page"}
    rules = one(manifests, "NetworkPolicy")["spec"]["ingress"]
    assert rules[1] == {"from": peers, "ports": [{"protocol": "TCP", "port": "page"}]}
    assert len(one(helm.rendered({"config": values["config"]}), "NetworkPolicy")["spec"]["ingress"]) == 1
    assert "pageFrom is empty" in helm.notes({"config": values["config"]})


# ── Refusals ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"replicas": 4}, "at '/replicas': maximum: got 4, want 3"),
        ({"persistence": {"size": "1Gb"}}, "at '/persistence/size'"),
        ({"resources": {"limits": {"memory": "1Gb"}}}, "at '/resources/limits/memory'"),
        ({"config": {**CONFIG, "state": {"min_free_bytes": "1Gb"}}}, "at '/config/state/min_free_bytes'"),
        ({"persistance": {}}, "additional properties 'persistance' not allowed"),
        ({"config": {"cluster": {"name": "x"}}}, "missing properties 'resources', 'sinks'"),
        (
            {"config": {**CONFIG, "sinks": {"x": {"type": "file", "paht": "-"}}}},
            "at '/config/sinks/x': additional properties 'paht' not allowed",
        ),
        ({"config": {**CONFIG, "sinks": {"x": {"type": "kafak"}}}}, "value must be one of 'file', 'kafka'"),
        ({"config": {**CONFIG, "latency": 2}}, "at '/config/latency'"),
        ({"config": {**CONFIG, "telemetry": {"listen": "127.0.0.1:8080"}}}, "config.telemetry.listen: 127.0.0.1:8080"),
        ({"config": {**CONFIG, "telemetry": {"listen": ":0"}}}, "config.telemetry.listen: :0"),
        ({"config": {**CONFIG, "page": {"listen": "127.0.0.1:0"}}}, "config.page.listen: 127.0.0.1:0"),
        ({"config": {**CONFIG, "page": {"listen": ":8081"}}}, "at '/config/page'"),
        ({"config": {**CONFIG, "state": {"directory": "state"}}}, "config.state.directory: state: an absolute path"),
    ],
)
def test_a_value_that_cannot_work_is_refused_by_its_path(helm: Helm, values: Values, error: str) -> None:
    assert error in helm.refusal(values)


# ── helm test ────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("schemas_once")
@pytest.mark.parametrize("values", [{}, EVERYTHING], ids=["default", "everything"])
def test_kubernetes_takes_the_pod_of_the_test_and_the_policy_lets_it_in(helm: Helm, values: Values) -> None:
    pod, policy = (one(helm.tests(values), kind) for kind in ("Pod", "NetworkPolicy"))
    for manifest in (pod, policy):
        for version in (KUBERNETES[0], KUBERNETES[-1]):
            assert kubernetes_validate.validate(manifest, version, strict=True) == version
    bridge = pod_of(helm.rendered(values))
    [tested], [asking] = bridge["containers"], pod["spec"]["containers"]
    assert [asking["image"], asking["securityContext"]] == [tested["image"], tested["securityContext"]]
    assert pod["spec"]["securityContext"] == bridge["securityContext"]

    [rule] = policy["spec"]["ingress"]
    [source] = rule["from"]
    assert source["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    own = one(helm.rendered(values), "NetworkPolicy")["spec"]["podSelector"]
    assert policy["spec"]["podSelector"] == own
    assert not own["matchLabels"].items() <= pod["metadata"]["labels"].items(), "it is no endpoint of the Service"


def test_without_a_policy_the_test_brings_none(helm: Helm) -> None:
    kinds = [each["kind"] for each in helm.tests({"networkPolicy": {"enabled": False}})]
    assert kinds == ["Pod"]


@pytest.mark.parametrize(("status", "passes"), [(200, True), (503, False)])
async def test_the_test_passes_if_the_bridge_is_ready(helm: Helm, status: int, passes: bool) -> None:
    [container] = one(helm.tests(), "Pod")["spec"]["containers"]
    *command, url = container["command"]
    service = one(helm.rendered(), "Service")
    assert url == f"http://{service['metadata']['name']}:{service['spec']['ports'][0]['port']}/readyz"

    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=status if request.path == "/readyz" else 404)

    server = TestServer(web.Application())
    server.app.router.add_get("/{path:.*}", answer)
    async with server:
        words = [sys.executable, *command[1:], str(server.make_url("/readyz"))]
        ran = await asyncio.create_subprocess_exec(*words, stderr=asyncio.subprocess.DEVNULL)
        assert (await ran.wait() == 0) is passes
