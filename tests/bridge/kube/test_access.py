"""From what an operator sets to a connection that works: against real HTTP and TLS."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bridge.kube import (
    ApiError,
    ClusterAccess,
    ClusterConnection,
    CredentialsError,
    KubeClient,
    connect,
    find_connection,
)
from bridge.kube.auth.connection import NOT_WITHIN, RenewedConnection
from bridge.kube.transport import Api, http_client
from bridge.model.answers import Busy, Failed, Refused
from bridge.telemetry.facts import Fact
from bridge.telemetry.facts.cluster import ConnectionInsecure, CredentialsRead
from tests.kit.certificates import Authority, Certificate
from tests.kit.scripted_server import Exchange, Request, ScriptedServer, answering
from tests.kit.virtual_time import StandingClock

VERSION = answering({"gitVersion": "v1.36.3"})
UNAUTHORIZED = answering({"kind": "Status", "code": 401, "reason": "Unauthorized"}, 401)
V1 = "client.authentication.k8s.io/v1"


class Kubeconfig:
    """A kubeconfig with one context, written anew at every change."""

    def __init__(self, path: Path, server: ScriptedServer, authority: Authority) -> None:
        self.path = path
        self.cluster: dict[str, Any] = {"server": server.url, "certificate-authority": str(authority.certificate)}
        self.user: dict[str, Any] = {}

    def access(self, **more: Any) -> ClusterAccess:
        config = {
            "clusters": [{"name": "c", "cluster": self.cluster}],
            "users": [{"name": "u", "user": self.user}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        self.path.write_text(json.dumps(config))
        return ClusterAccess(kubeconfig=self.path, **more)


@pytest.fixture
def kubeconfig(tmp_path: Path, tls_server: ScriptedServer, authority: Authority) -> Kubeconfig:
    tls_server.on("/version", VERSION)
    return Kubeconfig(tmp_path / "config", tls_server, authority)


@pytest.fixture(scope="session")
def alice(authority: Authority) -> Certificate:
    return authority.issue("alice")


@pytest.fixture(scope="session")
def bob(authority: Authority) -> Certificate:
    return authority.issue("bob")


async def version(access: ClusterAccess, **more: Any) -> str:
    async with connect(access, environ={}, **more) as client:
        return await client.version()


async def complaint(access: ClusterAccess, **more: Any) -> str:
    with pytest.raises(ApiError) as raised:
        await version(access, **more)
    return str(raised.value)


def refusal(access: ClusterAccess) -> str:
    with pytest.raises(CredentialsError) as raised:
        find_connection(access)
    return str(raised.value)


def inline(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def write(path: Path, content: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


def copy(source: Certificate, target: Certificate) -> None:
    shutil.copy(source.certificate, target.certificate)
    shutil.copy(source.key, target.key)


def presented(server: ScriptedServer) -> list[str | None]:
    return [request.headers.get("authorization") for request in server.requests]


def shown_name(request: Request) -> str | None:
    """The common name in the certificate that the client showed."""
    assert request.tls is not None
    shown: Any = request.tls.getpeercert()
    return dict(part[0] for part in shown["subject"])["commonName"] if shown else None


# ── Where to look ────────────────────────────────────────────────────────────


@pytest.fixture
def service_account(tmp_path: Path, authority: Authority) -> Path:
    folder = tmp_path / "serviceaccount"
    write(folder / "token", "pod-token")
    shutil.copy(authority.certificate, folder / "ca.crt")
    return folder


POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


def a_kubeconfig(path: Path, server: str) -> Path:
    lines = f"""
clusters: [{{name: c, cluster: {{server: "{server}"}}}}]
contexts: [{{name: x, context: {{cluster: c}}}}, {{name: y, context: {{cluster: c}}}}]
current-context: x
"""
    return write(path, lines)


@pytest.fixture
def everything(tmp_path: Path) -> dict[str, str]:
    """An environment in which every way to a server is open."""
    a_kubeconfig(tmp_path / ".kube" / "config", "http://home")
    named = a_kubeconfig(tmp_path / "named", "http://named")
    return {"HOME": str(tmp_path), "KUBECONFIG": str(named), **POD}


def test_a_server_is_looked_for_in_one_place_after_the_other(
    tmp_path: Path, everything: dict[str, str], service_account: Path
) -> None:
    def found(access: ClusterAccess, environ: dict[str, str], folder: Path = service_account) -> tuple[str, str]:
        connection = find_connection(access, environ=environ, service_account=folder)
        return str(connection.server), connection.origin

    explicit, named = a_kubeconfig(tmp_path / "explicit", "http://explicit"), everything["KUBECONFIG"]
    assert found(ClusterAccess(kubeconfig=explicit), everything) == ("http://explicit", f"{explicit}: context x")
    assert found(ClusterAccess(context="y"), everything) == ("http://named", f"{named}: context y")
    assert found(ClusterAccess(server="http://127.0.0.1:8001/"), everything) == (
        "http://127.0.0.1:8001",
        "cluster.server",
    )
    assert found(ClusterAccess(), everything) == ("https://10.0.0.1", "the pod's service account")
    ipv6 = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}
    assert found(ClusterAccess(), ipv6)[0] == "https://[fd00::1]:6443"
    without_token = tmp_path / "nothing"
    assert found(ClusterAccess(), everything, without_token)[0] == "http://named"
    outside = {name: value for name, value in everything.items() if name not in POD}
    assert found(ClusterAccess(), outside)[0] == "http://named"
    outside.pop("KUBECONFIG")
    assert found(ClusterAccess(), outside)[0] == "http://home"


def test_without_any_access_the_error_names_the_places_searched(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError) as raised:
        find_connection(ClusterAccess(), environ={"HOME": str(tmp_path)}, service_account=tmp_path)
    for place in ("pod", "automountServiceAccountToken", f"{tmp_path}/.kube/config", "cluster.kubeconfig"):
        assert place in str(raised.value)


def test_a_kubeconfig_that_is_named_must_be_there(tmp_path: Path) -> None:
    assert (
        refusal(ClusterAccess(kubeconfig=tmp_path / "gone"))
        == f"cluster.kubeconfig: {tmp_path / 'gone'} does not exist"
    )


@pytest.mark.parametrize(
    "server", ["127.0.0.1:8001", "example.test", "ftp://example.test", "https://", "https://me:pw@x"]
)
def test_a_server_that_is_not_a_url_is_refused(server: str) -> None:
    said = refusal(ClusterAccess(server=server))
    assert said.startswith("cluster.server: the server must be a URL like https://host:6443")
    assert "pw" not in said


# ── A server alone ───────────────────────────────────────────────────────────


async def test_a_server_alone_is_spoken_to_without_credentials(server: ScriptedServer) -> None:
    server.on("/version", VERSION)
    assert await version(ClusterAccess(server=server.url)) == "v1.36.3"
    assert "authorization" not in server.requests[0].headers


async def test_a_server_may_have_a_token_file_and_an_authority(
    tls_server: ScriptedServer, authority: Authority, tmp_path: Path
) -> None:
    tls_server.on("/version", VERSION)
    token_file = write(tmp_path / "token", "mine\n")
    access = ClusterAccess(server=tls_server.url, token_file=token_file, ca_file=authority.certificate)
    assert await version(access) == "v1.36.3"
    assert tls_server.requests[0].headers["authorization"] == "Bearer mine"


async def test_a_token_over_plain_http_is_sent_with_a_warning(server: ScriptedServer, tmp_path: Path) -> None:
    facts: list[Fact] = []
    server.on("/version", VERSION)
    access = ClusterAccess(server=server.url, token_file=write(tmp_path / "token", "mine"))
    await version(access, report=facts.append)
    assert server.requests[0].headers["authorization"] == "Bearer mine"
    reason = "cluster.server: the token is sent over plain HTTP: anybody on the network path can read it"
    assert facts == [ConnectionInsecure(server.url, reason)]


@pytest.mark.parametrize("scheme", ["http", "HTTP"])
async def test_a_contexts_credentials_are_not_sent_over_plain_http(
    server: ScriptedServer, tmp_path: Path, scheme: str
) -> None:
    """As kubectl does it."""
    content = a_kubeconfig(tmp_path / "config", server.url.replace("http", scheme)).read_text()
    content = content.replace("cluster: c}", "cluster: c, user: u}") + "\nusers: [{name: u, user: {token: t}}]"
    path = write(tmp_path / "config", content)
    server.on("/version", VERSION)
    await version(ClusterAccess(kubeconfig=path))
    assert "authorization" not in server.requests[0].headers


# ── TLS ──────────────────────────────────────────────────────────────────────


async def test_the_authority_may_be_a_file_or_inline(kubeconfig: Kubeconfig, authority: Authority) -> None:
    assert await version(kubeconfig.access()) == "v1.36.3"
    # What is inline counts before a file.
    bundle = "# Autorité de certification racine\n".encode() + authority.certificate.read_bytes()
    kubeconfig.cluster["certificate-authority-data"] = base64.b64encode(bundle).decode()
    kubeconfig.cluster["certificate-authority"] = "/nowhere"
    assert await version(kubeconfig.access()) == "v1.36.3"


def test_certificates_of_older_clusters_are_accepted(kubeconfig: Kubeconfig) -> None:
    """Python 3.13 would refuse an authority without key identifiers, which EKS has."""
    found = find_connection(kubeconfig.access())
    assert found.tls is not None
    assert not found.tls.verify_flags & ssl.VERIFY_X509_STRICT
    assert found.tls.verify_mode is ssl.CERT_REQUIRED
    assert found.tls.check_hostname


async def test_a_certificate_of_another_authority_is_not_accepted(kubeconfig: Kubeconfig, tmp_path: Path) -> None:
    other = Authority.make(tmp_path / "other", "another authority")
    kubeconfig.cluster["certificate-authority"] = str(other.certificate)
    message = await complaint(kubeconfig.access())
    assert message.startswith(f"GET /version: the certificate of {kubeconfig.cluster['server']} is not accepted: ")
    assert message.endswith("; cluster.ca_file must name the authority that signed it")


async def test_a_certificate_for_another_name_is_not_accepted(kubeconfig: Kubeconfig) -> None:
    kubeconfig.cluster["server"] = kubeconfig.cluster["server"].replace("127.0.0.1", "localhost")
    message = await complaint(kubeconfig.access())
    assert "Hostname mismatch" in message
    assert message.endswith("; give the server the name that its certificate has")


async def test_the_tls_server_name_is_what_the_certificate_must_be_for(
    kubeconfig: Kubeconfig, tls_server: ScriptedServer
) -> None:
    names: list[str | None] = []
    assert tls_server.tls is not None
    tls_server.tls.sni_callback = lambda _socket, name, _context: names.append(name)
    kubeconfig.cluster["tls-server-name"] = "api.example.test"
    assert await version(kubeconfig.access()) == "v1.36.3"
    assert names == ["api.example.test"]
    kubeconfig.cluster["tls-server-name"] = "other.example.test"
    assert "other.example.test" in await complaint(kubeconfig.access())


async def test_verification_can_be_left_out_and_is_warned_of(kubeconfig: Kubeconfig) -> None:
    facts: list[Fact] = []
    kubeconfig.cluster = {"server": kubeconfig.cluster["server"], "insecure-skip-tls-verify": True}
    assert await version(kubeconfig.access(), report=facts.append) == "v1.36.3"
    reason = "insecure-skip-tls-verify is set: anybody on the network path can pose as the API server"
    assert facts == [ConnectionInsecure(kubeconfig.cluster["server"], f"{kubeconfig.path}: context x: {reason}")]


# ── Client certificates ──────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["files", "inline"])
async def test_a_client_certificate_may_be_files_or_inline(
    kubeconfig: Kubeconfig, tls_server: ScriptedServer, alice: Certificate, kind: str
) -> None:
    kubeconfig.user = (
        {"client-certificate": str(alice.certificate), "client-key": str(alice.key)}
        if kind == "files"
        else {"client-certificate-data": inline(alice.certificate), "client-key-data": inline(alice.key)}
    )
    await version(kubeconfig.access())
    assert shown_name(tls_server.requests[0]) == "alice"


async def test_a_renewed_client_certificate_is_used_from_then_on(
    kubeconfig: Kubeconfig, tls_server: ScriptedServer, alice: Certificate, bob: Certificate, tmp_path: Path
) -> None:
    files = Certificate(tmp_path / "client.crt", tmp_path / "client.key")
    copy(alice, files)
    kubeconfig.user = {"client-certificate": str(files.certificate), "client-key": str(files.key)}
    async with connect(kubeconfig.access()) as client:
        await client.version()
        shutil.copy(bob.certificate, files.certificate)
        await client.version()  # Half of the pair is written: the old one goes on.
        copy(bob, files)
        await client.version()
    assert [shown_name(request) for request in tls_server.requests] == ["alice", "alice", "bob"]


async def test_an_unchanged_certificate_keeps_the_connection(
    kubeconfig: Kubeconfig, tls_server: ScriptedServer, alice: Certificate
) -> None:
    kubeconfig.user = {"client-certificate-data": inline(alice.certificate), "client-key-data": inline(alice.key)}
    async with connect(kubeconfig.access()) as client:
        for _ in range(3):
            await client.version()
    assert len({id(request.tls) for request in tls_server.requests}) == 1


# ── What cannot be used ──────────────────────────────────────────────────────


NO_AUTHORITY = "cluster c: certificate-authority: the inline data is no certificate authority in PEM"
HALF = "user u: a client certificate and a client key need each other"
NO_PASSWORDS = "user u: Kubernetes 1.19 removed username and password"


@pytest.mark.parametrize(
    ("cluster", "user", "reason"),
    [
        (
            {"certificate-authority": "gone"},
            {},
            "cluster c: certificate-authority: {folder}/gone cannot be read: No such",
        ),
        ({"certificate-authority-data": "bm9uc2Vuc2U="}, {}, NO_AUTHORITY),
        ({"certificate-authority-data": "4pi6"}, {}, NO_AUTHORITY),
        ({"certificate-authority-data": "%%%"}, {}, "cluster c: certificate-authority-data is not base64"),
        (
            {"insecure-skip-tls-verify": True},
            {},
            "cluster c: insecure-skip-tls-verify and a certificate authority",
        ),
        ({"tls-server-name": "a b\x00"}, {}, "cluster c: tls-server-name must be printable ASCII"),
        ({"proxy-url": "socks5h://a:hunter2@b"}, {}, "cluster c: proxy-url must be an http:// or https:// URL"),
        ({}, {"client-key": "alice.key"}, HALF),
        ({}, {"client-certificate": "alice.crt"}, HALF),
        (
            {},
            {"client-certificate": "alice.crt", "client-key": "bob.key"},
            "user u: the client certificate and its key cannot be used",
        ),
        (
            {},
            {"client-certificate": "gone", "client-key": "alice.key"},
            "user u: client-certificate: {folder}/gone cannot be read: No such file or directory",
        ),
        ({}, {"username": "alice", "password": "hunter2"}, NO_PASSWORDS),
        ({}, {"password": "hunter2", "token": "x"}, NO_PASSWORDS),
        (
            {},
            {"auth-provider": {"name": "oidc", "config": {"id-token": "hunter2"}}},
            "user u: Kubernetes removed auth-provider: use a credential plugin",
        ),
        ({}, {"token": "hunter2", "as-groups": ["a\nb"]}, "user u: as must be printable ASCII"),
        (
            {},
            {"exec": {"command": "no-such-login", "apiVersion": V1, "installHint": "brew install it\n"}},
            "user u: the credential plugin no-such-login does not exist, or is not executable. brew install it",
        ),
    ],
)
def test_a_setting_that_cannot_be_used_is_named_before_any_request(
    kubeconfig: Kubeconfig,
    alice: Certificate,
    bob: Certificate,
    cluster: dict[str, Any],
    user: dict[str, Any],
    reason: str,
) -> None:
    folder = kubeconfig.path.parent
    for each in (alice, bob):
        copy(each, Certificate(folder / each.certificate.name, folder / each.key.name))
    kubeconfig.cluster |= cluster
    kubeconfig.user = user
    said = refusal(kubeconfig.access())
    assert said.startswith(f"{kubeconfig.path}: {reason.format(folder=folder)}")
    assert "hunter2" not in said


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "cannot be read: No such file or directory"), (" \n", "is empty, and a token is expected in it")],
)
def test_an_empty_token_file_is_named_before_any_request(
    kubeconfig: Kubeconfig, tmp_path: Path, content: str | None, message: str
) -> None:
    token = tmp_path / "token"
    if content is not None:
        token.write_text(content)
    kubeconfig.user = {"tokenFile": str(token)}
    assert refusal(kubeconfig.access()) == f"{kubeconfig.path}: user u: tokenFile: {token} {message}"
    assert (
        refusal(ClusterAccess(server="https://127.0.0.1:1", token_file=token))
        == f"cluster.token_file: {token} {message}"
    )


@pytest.mark.parametrize(
    ("content", "message"), [(None, "cannot be read: No such file"), ("no PEM", "is no certificate authority in PEM")]
)
def test_a_wrong_authority_is_named_by_its_option(tmp_path: Path, content: str | None, message: str) -> None:
    authority = tmp_path / "ca.crt"
    if content is not None:
        authority.write_text(content)
    assert refusal(ClusterAccess(server="https://127.0.0.1:1", ca_file=authority)).startswith(
        f"cluster.ca_file: {authority} {message}"
    )


# ── Users ────────────────────────────────────────────────────────────────────


async def test_http_to_https_ports_and_the_reverse_are_recognised() -> None:
    complaint = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"

    async def as_go_does(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(complaint if (await reader.read(1)) == b"G" else b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(as_go_does, "127.0.0.1") as server:
        port = server.sockets[0].getsockname()[1]
        for scheme, message in (
            ("http", "HTTPS on this port: write https://"),
            ("https", "HTTP on this port: write http://"),
        ):
            async with connect(ClusterAccess(server=f"{scheme}://127.0.0.1:{port}")) as client:
                with pytest.raises(ApiError, match=message):
                    await client.version()


async def test_a_users_token_or_token_file_is_sent(
    kubeconfig: Kubeconfig, tls_server: ScriptedServer, tmp_path: Path
) -> None:
    file = str(write(tmp_path / "token", "from the file\n"))
    for user in ({"token": "from the config"}, {"token": "from the config", "tokenFile": file}, {}):
        kubeconfig.user = user
        await version(kubeconfig.access())
    assert presented(tls_server) == ["Bearer from the config", "Bearer from the file", None]


def log_in(kubeconfig: Kubeconfig, folder: Path, *statuses: dict[str, str]) -> None:
    """The user's plugin prints one credential after the other."""
    for number, status in enumerate(statuses, 1):
        credential = {"kind": "ExecCredential", "apiVersion": V1, "status": status}
        write(folder / f"credential-{number}", json.dumps(credential))
    script = f"#!/bin/sh\ncd {folder}; echo run >> runs; cat credential-$(wc -l < runs | tr -d ' ')\n"
    write(folder / "login", script).chmod(0o755)
    kubeconfig.user = {"exec": {"command": "./login", "apiVersion": V1}}


async def test_a_plugin_speaks_for_a_user_and_is_asked_again_on_a_401(
    kubeconfig: Kubeconfig, tls_server: ScriptedServer, tmp_path: Path
) -> None:
    log_in(kubeconfig, tmp_path, {"token": "first"}, {"token": "second"})
    tls_server.on("/version", UNAUTHORIZED, VERSION)
    async with connect(kubeconfig.access()) as client:
        assert await client.version() == "v1.36.3"
        assert await client.version() == "v1.36.3"
    assert presented(tls_server) == ["Bearer first", "Bearer second", "Bearer second"]


async def test_a_plugins_certificate_is_shown_and_replaced_on_a_401(
    kubeconfig: Kubeconfig, tls_server: ScriptedServer, alice: Certificate, bob: Certificate, tmp_path: Path
) -> None:
    printed = [
        {"clientCertificateData": each.certificate.read_text(), "clientKeyData": each.key.read_text()}
        for each in (alice, bob)
    ]
    log_in(kubeconfig, tmp_path, *printed)
    tls_server.on("/version", UNAUTHORIZED, VERSION)
    assert await version(kubeconfig.access()) == "v1.36.3"
    assert [shown_name(request) for request in tls_server.requests] == ["alice", "bob"]


async def test_a_plugin_that_fails_under_way_is_the_reason(kubeconfig: Kubeconfig) -> None:
    kubeconfig.user = {"exec": {"command": "false", "apiVersion": V1}}
    message = await complaint(kubeconfig.access())
    assert message == f"GET /version: {kubeconfig.path}: user u: the credential plugin false ended with 1"


async def test_impersonation_is_kept_with_every_group(kubeconfig: Kubeconfig, tls_server: ScriptedServer) -> None:
    kubeconfig.user = {
        "token": "t",
        "as": "carol",
        "as-uid": "u-1",
        "as-groups": ["readers", "a, b"],
        "as-user-extra": {"example.test/scope": ["x", "y"]},
    }
    await version(kubeconfig.access())
    sent = [each for each in tls_server.requests[0].raw_headers if each[0].lower().startswith("impersonate")]
    assert sent == [
        ("Impersonate-User", "carol"),
        ("Impersonate-Uid", "u-1"),
        ("Impersonate-Group", "readers"),
        ("Impersonate-Group", "a, b"),
        ("Impersonate-Extra-example.test%2Fscope", "x"),
        ("Impersonate-Extra-example.test%2Fscope", "y"),
    ]


@pytest.mark.parametrize("token", ["über", "one\r\nHost: two"])
async def test_a_token_that_no_header_can_carry_is_reported_not_sent(
    kubeconfig: Kubeconfig, tls_server: ScriptedServer, token: str
) -> None:
    kubeconfig.user = {"token": token}
    reason = "user u: the token has characters that no header can carry"
    assert await complaint(kubeconfig.access()) == f"GET /version: {kubeconfig.path}: {reason}"
    assert tls_server.requests == []


async def test_what_is_set_beside_a_context_counts_before_it(
    kubeconfig: Kubeconfig, tls_server: ScriptedServer, authority: Authority, tmp_path: Path
) -> None:
    server = kubeconfig.cluster["server"]
    kubeconfig.cluster = {"server": "https://elsewhere.example.test", "certificate-authority": "/nowhere"}
    kubeconfig.user = {"token": "from the config"}
    token_file = write(tmp_path / "token", "set beside")
    access = kubeconfig.access(server=server, ca_file=authority.certificate, token_file=token_file)
    assert await version(access) == "v1.36.3"
    assert tls_server.requests[0].headers["authorization"] == "Bearer set beside"


# ── A pod's token ────────────────────────────────────────────────────────────


@asynccontextmanager
async def in_a_pod(server: ScriptedServer, folder: Path) -> AsyncIterator[KubeClient]:
    environ = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(server.port)}
    async with connect(ClusterAccess(), environ=environ, service_account=folder) as client:
        yield client


async def test_a_pods_token_is_read_again_when_the_kubelet_renewed_it(
    tls_server: ScriptedServer, service_account: Path
) -> None:
    tls_server.on("/version", VERSION)
    async with in_a_pod(tls_server, service_account) as client:
        await client.version()
        write(service_account / "token", "renewed")
        await client.version()
    assert presented(tls_server) == ["Bearer pod-token", "Bearer renewed"]


async def test_a_401_is_answered_once_with_the_fresh_token(tls_server: ScriptedServer, service_account: Path) -> None:
    async def revoked_under_way(exchange: Exchange) -> None:
        write(service_account / "token", "renewed")
        await UNAUTHORIZED(exchange)

    tls_server.on("/version", revoked_under_way, VERSION)
    async with in_a_pod(tls_server, service_account) as client:
        assert await client.version() == "v1.36.3"
    assert presented(tls_server) == ["Bearer pod-token", "Bearer renewed"]


async def test_a_401_to_a_token_that_is_still_the_newest_is_final(
    tls_server: ScriptedServer, service_account: Path
) -> None:
    tls_server.on("/version", UNAUTHORIZED)
    async with in_a_pod(tls_server, service_account) as client:
        with pytest.raises(ApiError) as raised:
            await client.version()
    assert raised.value.answer == Refused(401, "401 Unauthorized")
    assert len(tls_server.requests) == 1


# ── Files that change while the bridge runs ──────────────────────────────────


async def test_a_rotated_authority_is_trusted_without_a_restart(
    kubeconfig: Kubeconfig, tls_server: ScriptedServer, authority: Authority, tmp_path: Path
) -> None:
    """As the kubelet and cert-manager write it: another file under the same name."""
    file, other = tmp_path / "ca.crt", Authority.make(tmp_path / "other")
    shutil.copy(other.certificate, file)
    async with connect(ClusterAccess(server=tls_server.url, ca_file=file)) as client:
        with pytest.raises(ApiError, match="is not accepted"):
            await client.version()
        shutil.copy(authority.certificate, file)
        assert await client.version() == "v1.36.3"
        shutil.copy(other.certificate, file)
        with pytest.raises(ApiError, match="is not accepted"):  # Nothing is trusted that the file has lost.
            await client.version()


@pytest.mark.parametrize("kind", ["data", "file"])
async def test_a_rewritten_kubeconfig_is_read_again(
    kubeconfig: Kubeconfig,
    tls_server: ScriptedServer,
    authority: Authority,
    alice: Certificate,
    bob: Certificate,
    tmp_path: Path,
    kind: str,
) -> None:
    """Its authority, its token and its client certificate, within it or in files that it names."""

    def named(name: str, file: Path) -> dict[str, str]:
        return {f"{name}-data": inline(file)} if kind == "data" else {name: str(file)}

    def write_one(trusted: Path, user: Certificate, token: str) -> None:
        kubeconfig.cluster = {"server": tls_server.url, **named("certificate-authority", trusted)}
        pair = named("client-certificate", user.certificate) | named("client-key", user.key)
        kubeconfig.user = {"token": token, **pair}
        kubeconfig.access()

    facts: list[Fact] = []
    write_one(Authority.make(tmp_path / "other").certificate, alice, "first")
    async with connect(ClusterAccess(kubeconfig=kubeconfig.path), report=facts.append) as client:
        with pytest.raises(ApiError, match="is not accepted"):
            await client.version()
        write_one(authority.certificate, alice, "first")
        await client.version()
        write_one(authority.certificate, bob, "second")
        await client.version()
        await client.version()
    assert presented(tls_server) == ["Bearer first", "Bearer second", "Bearer second"]
    assert [shown_name(request) for request in tls_server.requests] == ["alice", "bob", "bob"]
    assert [type(fact) for fact in facts] == [CredentialsRead, CredentialsRead]


async def test_a_401_is_answered_with_the_rewritten_kubeconfig(
    kubeconfig: Kubeconfig, tls_server: ScriptedServer
) -> None:
    """The file looks the same: a refusal alone shows that it has another token."""

    async def revoked_under_way(exchange: Exchange) -> None:
        kubeconfig.user = {"token": "other"}
        before = kubeconfig.path.stat()
        kubeconfig.access()
        os.utime(kubeconfig.path, ns=(before.st_atime_ns, before.st_mtime_ns))
        await UNAUTHORIZED(exchange)

    tls_server.on("/version", VERSION, revoked_under_way, VERSION)
    kubeconfig.user = {"token": "first"}
    clock = StandingClock()
    access = kubeconfig.access()
    async with http_client(RenewedConnection(lambda: find_connection(access), clock=clock)) as http:
        for _ in range(2):
            clock.now += NOT_WITHIN
            await Api(http).ask("GET", "/version")
    assert presented(tls_server) == ["Bearer first", "Bearer first", "Bearer other"]


async def test_files_that_cannot_be_used_leave_the_last_credentials(
    kubeconfig: Kubeconfig, tls_server: ScriptedServer
) -> None:
    facts: list[Fact] = []
    kubeconfig.user = {"token": "first"}
    async with connect(kubeconfig.access(), report=facts.append) as client:
        for content in ("clusters: [", ""):
            kubeconfig.path.write_text(content)
            await client.version()
            await client.version()
        kubeconfig.path.unlink()
        await client.version()
        kubeconfig.user = {"token": "second"}
        kubeconfig.access()
        await client.version()
    assert presented(tls_server) == ["Bearer first"] * 5 + ["Bearer second"]
    reasons = [fact.problem for fact in facts if isinstance(fact, CredentialsRead)]
    assert [bool(each) for each in reasons] == [True, True, True, False], "each of them once"
    assert "is not YAML" in reasons[0]


async def test_another_server_in_a_kubeconfig_waits_for_a_restart(
    kubeconfig: Kubeconfig, tls_server: ScriptedServer, server: ScriptedServer
) -> None:
    """It may be another cluster, whose credentials this one must not see."""
    facts: list[Fact] = []
    kubeconfig.user = {"token": "first"}
    async with connect(kubeconfig.access(), report=facts.append) as client:
        kubeconfig.cluster, kubeconfig.user = {"server": server.url}, {"token": "of-another-cluster"}
        kubeconfig.access()
        await client.version()
        await client.version()
    assert presented(tls_server) == ["Bearer first"] * 2
    assert not server.requests
    (fact,) = facts
    assert isinstance(fact, CredentialsRead)
    assert f"names another server, {server.url}, which a restart of the bridge goes to" in fact.problem


async def test_an_authority_that_looks_same_is_read_after_a_refusal(
    tls_server: ScriptedServer, authority: Authority, tmp_path: Path
) -> None:
    """Some file systems show no other time, size and inode: that the certificate is not accepted is enough."""
    tls_server.on("/version", VERSION)
    file, clock = tmp_path / "ca.crt", StandingClock()
    size = len(authority.certificate.read_bytes()) + 1000
    file.write_bytes(Authority.make(tmp_path / "other").certificate.read_bytes().ljust(size, b"\n"))
    before = file.stat()
    access = ClusterAccess(server=tls_server.url, ca_file=file)
    async with http_client(RenewedConnection(lambda: find_connection(access), clock=clock)) as http:
        with pytest.raises(ApiError, match="is not accepted"):
            await Api(http).ask("GET", "/version")
        file.write_bytes(authority.certificate.read_bytes().ljust(size, b"\n"))
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
        clock.now += NOT_WITHIN
        await Api(http).ask("GET", "/version")


async def test_refusals_read_the_files_once_a_second(kubeconfig: Kubeconfig, tls_server: ScriptedServer) -> None:
    reads, clock = 0, StandingClock()
    access = kubeconfig.access()

    def find() -> ClusterConnection:
        nonlocal reads
        reads += 1
        return find_connection(access)

    tls_server.on("/version", answering({"kind": "Status", "code": 403, "reason": "Forbidden"}, 403))
    async with http_client(RenewedConnection(find, clock=clock)) as http:
        for _ in range(5):
            with pytest.raises(ApiError):
                await Api(http).ask("GET", "/version")
        assert reads == 1
        clock.now += NOT_WITHIN
        with pytest.raises(ApiError):
            await Api(http).ask("GET", "/version")
    assert reads == 2


# ── Proxies ──────────────────────────────────────────────────────────────────


async def test_the_proxy_url_of_a_kubeconfig_is_used(
    kubeconfig: Kubeconfig, server: ScriptedServer, tls_server: ScriptedServer
) -> None:
    target = kubeconfig.cluster["server"].removeprefix("https://")
    server.on(target, Exchange.tunnel)
    kubeconfig.cluster |= {"proxy-url": f"http://me:pw@127.0.0.1:{server.port}", "tls-server-name": "api.example.test"}
    assert await version(kubeconfig.access()) == "v1.36.3"
    [connected] = server.requests
    assert (connected.method, connected.path) == ("CONNECT", target)
    assert connected.headers["proxy-authorization"] == "Basic bWU6cHc="
    assert "proxy-authorization" not in tls_server.requests[0].headers


async def test_a_failing_proxy_is_distinguished_from_the_server(kubeconfig: Kubeconfig, server: ScriptedServer) -> None:
    kubeconfig.cluster["proxy-url"] = server.url
    server.on(kubeconfig.cluster["server"].removeprefix("https://"), answering(b"", 407))
    with pytest.raises(ApiError) as raised:
        await version(kubeconfig.access())
    assert raised.value.answer == Failed("the proxy answered 407 Status 407")
    kubeconfig.cluster["proxy-url"] = "http://127.0.0.1:1"
    with pytest.raises(ApiError) as raised:
        await version(kubeconfig.access())
    assert raised.value.answer == Busy("cannot connect to the proxy: Connection refused")


def test_the_environments_proxy_counts_only_outside_a_pod(tmp_path: Path, service_account: Path) -> None:
    environ = {**POD, "HTTPS_PROXY": "http://proxy.example.test:3128", "HTTP_PROXY": "http://proxy.example.test:3128"}
    explicit = ClusterAccess(kubeconfig=a_kubeconfig(tmp_path / "config", "https://api.example.test"))
    found = find_connection(explicit, environ=environ)
    assert found.proxy is not None
    assert found.proxy.url == "http://proxy.example.test:3128"
    assert find_connection(ClusterAccess(), environ=environ, service_account=service_account).proxy is None
    assert find_connection(ClusterAccess(server="http://api.example.test"), environ=environ).proxy is None
