"""Copies of the leader's state among replicas, as the chart and the plain manifests set them up."""

from __future__ import annotations

import re
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from bridge.plan.plan_from_settings import plan_of
from config.schema import CopySettings
from tests.deploy.component import COPIES as COMPONENT
from tests.deploy.helm import (
    CONFIG,
    COPIES,
    REPLICAS,
    ROOT,
    Helm,
    Manifest,
    Values,
    all_of,
    configuration_of,
    environ_of,
    one,
)
from tests.kit.deadlines import BUSY

URL = "https://kubedelta-0.kubedelta-replicas.kubedelta.svc:8082"
OWN_FILES: Values = {
    **REPLICAS,
    "config": {
        **CONFIG,
        "election": {
            "enabled": True,
            "base_copy": {"listen": ":9000", "token_file": "/vault/token", "allow_http": True},
        },
    },
}
GUIDE = (ROOT / "docs/replicas.md").read_text()


@pytest.fixture(scope="module")
def copies(helm: Helm) -> list[Manifest]:
    return helm.rendered(COPIES)


def _container(manifests: list[Manifest]) -> dict[str, Any]:
    [found] = one(manifests, "StatefulSet")["spec"]["template"]["spec"]["containers"]
    return dict(found)


def _copy(manifests: list[Manifest], folder: Path) -> CopySettings:
    return configuration_of(manifests, folder).election.base_copy


def test_two_secrets_turn_copies_on(copies: list[Manifest], tmp_path: Path) -> None:
    plan = plan_of(configuration_of(copies, tmp_path), tmp_path / "kubedelta.yaml").election
    assert plan is not None
    assert plan.copy is not None
    assert (plan.copy.listen, plan.copy.url) == (("", 8082), URL)
    volumes = {each["name"]: each for each in one(copies, "StatefulSet")["spec"]["template"]["spec"]["volumes"]}
    mounts = {
        each["mountPath"]: volumes[each["name"]] for each in _container(copies)["volumeMounts"] if each.get("readOnly")
    }
    for file, secret in (
        (plan.copy.token_file, "kubedelta-copy-token"),
        (plan.copy.cert_file, "kubedelta-copy-tls"),
        (plan.copy.key_file, "kubedelta-copy-tls"),
        (plan.copy.ca_file, "kubedelta-copy-tls"),
    ):
        assert file is not None
        volume = mounts[str(file.parent)]
        assert volume is not None
        assert volume["secret"] == {"secretName": secret, "defaultMode": 0o440}
    assert all_of(copies, "Secret") == [], "a template would make another one at each upgrade"


def test_replicas_reach_one_another_by_name(copies: list[Manifest]) -> None:
    headless = one(copies, "Service", one(copies, "StatefulSet")["spec"]["serviceName"])["spec"]
    assert headless["ports"] == [{"name": "copies", "port": 8082, "targetPort": "copies"}]
    assert {"name": "copies", "containerPort": 8082} in _container(copies)["ports"]
    assert "copies" not in [each["name"] for each in one(copies, "Service", "kubedelta")["spec"]["ports"]]


def test_no_other_pod_may_ask_for_a_copy(copies: list[Manifest]) -> None:
    policy = one(copies, "NetworkPolicy")["spec"]
    replicas = [{"podSelector": policy["podSelector"]}]
    rules = [each for each in policy["ingress"] if {"protocol": "TCP", "port": "copies"} in each["ports"]]
    assert rules == [{"from": replicas, "ports": [{"protocol": "TCP", "port": "copies"}]}]
    assert policy["egress"][:-1] == COPIES["networkPolicy"]["egress"]
    assert policy["egress"][-1] == {"to": replicas, "ports": [{"protocol": "TCP", "port": 8082}]}


def test_an_unbounded_egress_stays_so(helm: Helm) -> None:
    policy = one(helm.rendered({**COPIES, "networkPolicy": {"from": []}}), "NetworkPolicy")["spec"]
    assert policy["policyTypes"] == ["Ingress"]
    assert "egress" not in policy
    assert [each["ports"][0]["port"] for each in policy["ingress"]] == ["copies"]


def test_another_port_and_another_name_go_everywhere(helm: Helm, tmp_path: Path) -> None:
    values = {**COPIES, "baseCopy": {**COPIES["baseCopy"], "port": 9001, "tokenKey": "t"}, "fullnameOverride": "other"}
    manifests = helm.rendered(values)
    found = _copy(manifests, tmp_path)
    assert str(found.url) == "https://other-0.other-replicas.kubedelta.svc:9001"
    assert str(found.token_file).endswith("/t")
    assert one(manifests, "Service", "other-replicas")["spec"]["ports"][0]["port"] == 9001


def test_a_pod_of_a_shard_has_its_own_address(helm: Helm) -> None:
    manifests = helm.rendered({**COPIES, "shards": 2})
    found = [environ_of(each)["KUBEDELTA__ELECTION__BASE_COPY__URL"] for each in all_of(manifests, "StatefulSet")]
    assert found == [f"https://kubedelta-{index}-of-2-0.kubedelta-replicas.kubedelta.svc:8082" for index in range(2)]


def test_files_from_elsewhere_have_the_same_way(helm: Helm, tmp_path: Path) -> None:
    manifests = helm.rendered(OWN_FILES)
    found = _copy(manifests, tmp_path)
    assert (str(found.url), found.cert_file) == ("http://kubedelta-0.kubedelta-replicas.kubedelta.svc:9000", None)
    assert one(manifests, "Service", "kubedelta-replicas")["spec"]["ports"][0]["port"] == 9000
    assert one(manifests, "NetworkPolicy")["spec"]["ingress"][-1]["ports"][0]["port"] == "copies"


@pytest.mark.parametrize("listen", [None, "127.0.0.1:8082"])
def test_without_copies_no_port_is_open(helm: Helm, listen: str | None) -> None:
    copy = {} if listen is None else {"listen": listen, "token_file": "/vault/token"}
    config = {**CONFIG, "election": {"enabled": True, "base_copy": copy}}
    manifests = helm.rendered({**REPLICAS, "config": config})
    assert [each["name"] for each in _container(manifests)["ports"]] == ["http"]
    assert "KUBEDELTA__ELECTION__BASE_COPY__URL" not in environ_of(one(manifests, "StatefulSet"))
    assert len(one(manifests, "NetworkPolicy")["spec"]["ingress"]) == 1


def _with_copy(**options: str) -> Values:
    copy = {**OWN_FILES["config"]["election"]["base_copy"], **options}
    return {**REPLICAS, "config": {**CONFIG, "election": {"enabled": True, "base_copy": copy}}}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({**REPLICAS, "baseCopy": {"tlsSecret": "a"}}, "baseCopy.tokenSecret: name a Secret with a token"),
        ({**REPLICAS, "baseCopy": {"tokenSecret": "a"}}, "baseCopy.tlsSecret: name a Secret with tls.crt"),
        ({"baseCopy": COPIES["baseCopy"]}, "baseCopy: set config.election.enabled, too"),
        ({**COPIES, "baseCopy": {**COPIES["baseCopy"], "port": 0}}, "/baseCopy/port"),
        ({**OWN_FILES, "baseCopy": COPIES["baseCopy"]}, "config.election.base_copy: baseCopy would replace it"),
        (_with_copy(url="https://me:9000"), "config.election.base_copy.url: leave it out"),
        (_with_copy(listen=":0"), "config.election.base_copy.listen: :0: a fixed port is needed"),
    ],
)
def test_half_a_way_for_copies_is_refused(helm: Helm, values: Values, words: str) -> None:
    assert words in helm.refusal(values)


# ── The guide ────────────────────────────────────────────────────────────────


def test_the_values_of_the_guide_are_these(helm: Helm, copies: list[Manifest]) -> None:
    [example] = re.findall(r"```yaml\n(baseCopy:.*?)```", GUIDE, re.DOTALL)
    assert helm.rendered({**REPLICAS, **yaml.safe_load(example)}) == copies


def test_certificates_of_cert_manager_are_for_all_pods(copies: list[Manifest]) -> None:
    found = list(yaml.safe_load_all((COMPONENT / "certificates.yaml").read_text()))
    issuers = {each["metadata"]["name"]: each["spec"] for each in all_of(found, "Issuer")}
    authority, leaf = (each["spec"] for each in all_of(found, "Certificate"))
    assert leaf["secretName"] == COPIES["baseCopy"]["tlsSecret"]
    assert {"secretName": authority["secretName"]} == issuers[leaf["issuerRef"]["name"]]["ca"]
    assert authority["isCA"]
    assert "selfSigned" in issuers[authority["issuerRef"]["name"]]
    for stateful in all_of(copies, "StatefulSet"):
        url = environ_of(stateful)["KUBEDELTA__ELECTION__BASE_COPY__URL"]
        assert re.sub(r"^https://[^.]+\.(.*):\d+$", r"*.\1", url) in leaf["dnsNames"]
    assert {each["metadata"]["namespace"] for each in found} == {"kubedelta"}


def test_the_certificate_of_the_guide_proves_a_pod(tmp_path: Path) -> None:
    [command] = re.findall(r"    (openssl req (?:.*\\\n)*.*)\n", GUIDE)
    [secret] = re.findall(r"create secret generic kubedelta-copy-tls \\\n +(.*) && rm tls.key\n", GUIDE)
    subprocess.run(["sh", "-c", command], cwd=tmp_path, check=True, capture_output=True, timeout=60 * BUSY)
    entries = dict(each.rpartition("=")[::2] for each in secret.split() if "=" in each)
    files = [each for each in secret.split()[1::2] if "=" not in each]
    assert (entries, files) == ({"ca.crt": "tls.crt"}, ["tls.crt", "tls.key"])

    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    client = ssl.create_default_context(cafile=tmp_path / entries["ca.crt"])
    _shake_hands(server, client, "kubedelta-1.kubedelta-replicas.kubedelta.svc")
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        _shake_hands(server, client, "kubedelta-1.other.kubedelta.svc")


def _shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> None:
    """In memory."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname=name),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    while ends:
        for end in list(ends):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            ends.remove(end)
