"""Turns an operator's settings into a connection: the API server's URL, the trusted authority, the proxy, our
credentials.

``find_connection`` chooses a cluster and a user, from a kubeconfig or from inside a pod
(https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/), lets the operator's settings override them, and
builds the connection. What cannot be used raises CredentialsError, which names the setting and holds no secret.

A kubeconfig's proxy-url decides about the proxy. Without proxy-url, HTTPS_PROXY, HTTP_PROXY and NO_PROXY count for
servers named by a kubeconfig, as they do for kubectl. They do not count for the in-cluster address and for
``cluster.server``: in a pod they serve traffic that leaves the cluster, and a forgotten NO_PROXY would send the
cluster's own traffic there too.
"""

from __future__ import annotations

import base64
import binascii
import os
import shutil
import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from urllib.parse import quote

import httpx
from msgspec import structs

from bridge.kube.auth.connection import (
    ClusterConnection,
    cluster_context,
    proxy_from_environment,
    proxy_from_url,
    show_certificate,
)
from bridge.kube.auth.credentials import Credential, CredentialsError, FixedToken, TokenFileCredential
from bridge.kube.auth.exec_plugin import ExecPlugin
from bridge.kube.auth.kubeconfig import ChosenContext, Cluster, Exec, User, default_paths, load
from bridge.kube.wire.status import shortened
from bridge.telemetry.facts import Report, discard

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""The folder in which the kubelet puts the token and the cluster's authority."""
ORIGIN = "the pod's service account"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAccess:
    """An operator's settings, all optional.

    The server is looked for in this order: ``kubeconfig`` or ``context``; ``server``; a pod's service account; the
    files that KUBECONFIG names; ~/.kube/config. ``server``, ``token_file`` and ``ca_file`` then override the values
    found there.
    """

    kubeconfig: Path | None = None
    context: str | None = None
    server: str | None = None
    """A URL. It suffices alone: ``kubectl proxy`` asks for no credentials."""
    token_file: Path | None = None
    ca_file: Path | None = None


def find_connection(
    access: ClusterAccess,
    *,
    environ: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
    report: Report = discard,
) -> ClusterConnection:
    """Finds the connection. Reads files, but runs no plugin and sends no request. Raises CredentialsError. ``report``
    gets facts of the plugin."""
    return _connection(_override(access, _choose(access, environ, service_account)), environ, report)


# ── Choosing ──────────────────────────────────────────────────────────────────


def _choose(access: ClusterAccess, environ: Mapping[str, str], service_account: Path) -> ChosenContext:
    if access.kubeconfig:
        path = access.kubeconfig.expanduser()
        if not path.exists():
            raise CredentialsError(f"cluster.kubeconfig: {path} does not exist")
        return replace(load([path]).choose(access.context), files=(path,))
    if not access.context:
        if access.server:
            return ChosenContext("cluster.server", Cluster(access.server), whose_cluster="cluster.server")
        if pod := in_cluster(environ, service_account):
            return pod
    paths = default_paths(environ)
    kubeconfig = load(paths)
    if not kubeconfig.files:
        raise CredentialsError(
            "no API server is configured: this process runs outside of a pod (or the pod has no token: see "
            f"automountServiceAccountToken), and {' or '.join(map(str, paths))} does not exist. "
            "Set cluster.kubeconfig or cluster.server"
        )
    return replace(kubeconfig.choose(access.context), files=tuple(paths))


def _override(access: ClusterAccess, chosen: ChosenContext) -> ChosenContext:
    cluster, user = chosen.cluster, chosen.user
    if access.server:
        cluster = structs.replace(cluster, server=access.server)
        chosen = replace(chosen, whose_cluster="cluster.server")
    if access.ca_file:
        ca_file = str(access.ca_file.expanduser())
        cluster = structs.replace(cluster, certificate_authority=ca_file, certificate_authority_data=None)
        chosen = replace(chosen, whose_authority="cluster.ca_file")
    if access.token_file:
        # A token file replaces all credentials of the context, a client certificate included.
        user = User(token_file=str(access.token_file.expanduser()))
        chosen = replace(chosen, whose_user="cluster.token_file", in_the_clear=True)
    return replace(chosen, cluster=cluster, user=user)


def in_cluster(environ: Mapping[str, str], folder: Path = SERVICE_ACCOUNT) -> ChosenContext | None:
    """The cluster and the pod's service account; None outside of a pod, and in a pod without a token."""
    # An address, as client-go uses it: the name kubernetes.default.svc would need the cluster's DNS.
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT")
    token_file = folder / "token"
    if not (host and port and token_file.exists()):
        return None
    host = f"[{host}]" if ":" in host else host
    cluster = Cluster(server=f"https://{host}:{port}", certificate_authority=str(folder / "ca.crt"))
    return ChosenContext(ORIGIN, cluster, User(token_file=str(token_file)), ORIGIN, ORIGIN)


def pod_namespace(folder: Path = SERVICE_ACCOUNT) -> str:
    """The namespace of the pod; empty outside of a pod, and in a pod without a service account."""
    try:
        return (folder / "namespace").read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


# ── Connecting ────────────────────────────────────────────────────────────────


def _connection(chosen: ChosenContext, environ: Mapping[str, str], report: Report) -> ClusterConnection:
    cluster = chosen.cluster
    server = _url(cluster.server, chosen.whose_cluster)
    # As kubectl does: the credentials of a context are not sent over plain HTTP.
    if server.scheme == "http" and not chosen.in_the_clear:
        chosen = replace(chosen, user=User())
    tls = _tls(chosen) if server.scheme == "https" else None
    proxy: httpx.Proxy | None = None
    if cluster.proxy_url:
        proxy = proxy_from_url(cluster.proxy_url, f"{chosen.whose_cluster}: proxy-url")
    elif chosen.kubeconfig:
        proxy = proxy_from_environment(server, environ)
    files, contents = _read_beside(chosen)
    return ClusterConnection(
        server=server,
        origin=chosen.origin,
        tls=tls,
        tls_server_name=_sendable(cluster.tls_server_name, f"{chosen.whose_cluster}: tls-server-name"),
        auth=_auth(chosen, tls, report),
        headers=_impersonation(chosen.user, chosen.whose_user),
        proxy=proxy,
        compression=not cluster.disable_compression,
        files=(*chosen.files, *files),
        made_of=(cluster, chosen.user, *contents),
    )


def _read_beside(chosen: ChosenContext) -> tuple[list[Path], list[bytes]]:
    """The files that the context names beside its token, and their contents. They were readable a moment ago; one that
    is not any more shows at the next look."""
    named = (chosen.cluster.certificate_authority, chosen.user.client_certificate, chosen.user.client_key)
    files = [Path(each) for each in named if each]
    contents = []
    for each in files:
        with suppress(OSError):
            contents.append(each.read_bytes())
    return files, contents


def _url(server: str, whose: str) -> httpx.URL:
    try:
        url = httpx.URL(server.rstrip("/"))
    except httpx.InvalidURL:
        url = httpx.URL("")
    if url.scheme not in {"http", "https"} or not url.host or url.userinfo:
        raise CredentialsError(f"{whose}: the server must be a URL like https://host:6443, without a user in it")
    return url


def _auth(chosen: ChosenContext, tls: ssl.SSLContext | None, report: Report) -> Credential | None:
    user, whose = chosen.user, chosen.whose_user
    if user.username or user.password:
        raise CredentialsError(
            f"{whose}: Kubernetes 1.19 removed username and password: use a token, a client certificate or "
            "a credential plugin (exec)"
        )
    if user.auth_provider:
        raise CredentialsError(f"{whose}: Kubernetes removed auth-provider: use a credential plugin (exec)")
    certificate = _pem_or_file(
        user.client_certificate_data, user.client_certificate, f"{whose}: client-certificate-data"
    )
    key = _pem_or_file(user.client_key_data, user.client_key, f"{whose}: client-key-data")
    if bool(certificate) != bool(key):
        raise CredentialsError(f"{whose}: a client certificate and a client key need each other")
    if tls and certificate and key:
        show_certificate(tls, certificate, key, whose)
    if user.token_file:
        named = whose if whose == "cluster.token_file" else f"{whose}: tokenFile"
        return TokenFileCredential(Path(user.token_file), whose, user.token, named)
    if user.token:
        return FixedToken(user.token, whose)
    if user.exec and tls:
        return _plugin(chosen, user.exec, tls, report)
    return None


def _plugin(chosen: ChosenContext, spec: Exec, tls: ssl.SSLContext, report: Report) -> ExecPlugin:
    authority = _authority(chosen.cluster, chosen.whose_cluster)
    pem = authority.read_bytes() if isinstance(authority, Path) else authority
    # The plugin's own environment may set PATH.
    path = {**os.environ, **{each.name: each.value for each in spec.env or ()}}.get("PATH")
    if shutil.which(spec.command, path=path) is None:
        advice = f". {spec.install_hint.strip()}" if spec.install_hint else ""
        reason = f"the credential plugin {spec.command} does not exist, or is not executable{advice}"
        raise CredentialsError(shortened(f"{chosen.whose_user}: {reason}"))
    install = partial(show_certificate, tls, whose=chosen.whose_user)
    return ExecPlugin(spec, chosen.cluster, pem, chosen.whose_user, install, report=report)


def _pem_or_file(data: str | None, file: str | None, whose: str) -> bytes | Path | None:
    """Inline data counts before a file, as for kubectl."""
    if not data:
        return Path(file) if file else None
    try:
        return base64.b64decode(data, validate=True)
    except binascii.Error:
        raise CredentialsError(f"{whose} is not base64") from None


def _impersonation(user: User, whose: str) -> tuple[tuple[str, str], ...]:
    """https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation"""
    headers = [("Impersonate-User", user.impersonate), ("Impersonate-Uid", user.as_uid)]
    headers += [("Impersonate-Group", group) for group in user.as_groups or ()]
    for name, values in (user.as_user_extra or {}).items():
        headers += [(f"Impersonate-Extra-{quote(name, safe='')}", value) for value in values]
    return tuple((name, text) for name, value in headers if (text := _sendable(value, f"{whose}: as")))


def _sendable(text: str | None, whose: str) -> str | None:
    """The text, or None if it is empty. Raises CredentialsError for text that no header or TLS handshake can carry,
    because every request would fail with it."""
    if text and not (text.isascii() and text.isprintable()):
        raise CredentialsError(f"{whose} must be printable ASCII")
    return text or None


def _tls(chosen: ChosenContext) -> ssl.SSLContext:
    cluster = chosen.cluster
    authority = _authority(cluster, chosen.whose_cluster)
    if cluster.insecure_skip_tls_verify and authority:
        raise CredentialsError(
            f"{chosen.whose_cluster}: insecure-skip-tls-verify and a certificate authority exclude each other"
        )
    whose = chosen.whose_authority or f"{chosen.whose_cluster}: certificate-authority"
    return cluster_context(authority, whose, verify=not cluster.insecure_skip_tls_verify)


def _authority(cluster: Cluster, whose: str) -> bytes | Path | None:
    return _pem_or_file(
        cluster.certificate_authority_data, cluster.certificate_authority, f"{whose}: certificate-authority-data"
    )
