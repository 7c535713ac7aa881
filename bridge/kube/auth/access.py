"""Turns an operator's settings into a connection: the API server's URL, the trusted authority, the proxy, our
credentials.

``resolve`` chooses a cluster and a user, from a kubeconfig or from inside a pod
(https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/), lets the operator's settings override them, and
builds the connection. ``RenewedConnection`` keeps it as its files have it now, because certificates and tokens are
replaced during a run. What cannot be used raises CredentialsError, which names the setting and holds no secret.

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
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from ipaddress import ip_address, ip_network
from pathlib import Path
from urllib.parse import quote

import httpx
from msgspec import structs

from bridge.kube.auth.credentials import ClusterAuth, FileState, FixedToken, TokenFileCredential, file_state, reason_of
from bridge.kube.auth.exec_plugin import ExecPlugin
from bridge.kube.auth.kubeconfig import ChosenContext, Cluster, Exec, User, default_paths, load
from bridge.kube.errors import CredentialsError
from bridge.kube.wire.status import shortened
from bridge.model.primitives.network import is_loopback
from bridge.telemetry.facts import Report, discard
from bridge.telemetry.facts.cluster import ConnectionInsecure, CredentialsRead

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""The folder in which the kubelet puts the token and the cluster's authority."""
ORIGIN = "the pod's service account"

NOT_WITHIN = 1.0
"""Seconds. Files that look the same are read at most so often, however many requests are refused."""

_DEFAULT_PORT = {"http": 80, "https": 443}


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConnection:
    """All that a client needs, as the files had it. Every client gets its own, because the credentials inside change
    over time (RenewedConnection)."""

    server: httpx.URL
    origin: str
    """The source of the settings, for messages."""
    tls: ssl.SSLContext | None = None
    """None for plain HTTP."""
    tls_server_name: str | None = None
    auth: ClusterAuth | None = None
    headers: tuple[tuple[str, str], ...] = ()
    proxy: httpx.Proxy | None = None
    compression: bool = True
    """The server may compress its answers."""
    files: tuple[Path, ...] = ()
    """The files that this was read from, token files left out."""
    made_of: tuple[object, ...] = field(default=(), repr=False)
    """Equal for two connections with the same settings and credentials."""


def resolve(
    access: ClusterAccess,
    *,
    environ: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
    report: Report = discard,
) -> ClusterConnection:
    """Finds the connection. Reads files, but runs no plugin and sends no request. Raises CredentialsError. ``report``
    gets facts of the plugin."""
    return _connection(_override(access, _choose(access, environ, service_account)), environ, report)


def report_insecure(connection: ClusterConnection, report: Report) -> None:
    """Reports ConnectionInsecure if the server's certificate is not verified, or if a token is sent over plain HTTP."""
    if connection.tls is not None and connection.tls.verify_mode is ssl.CERT_NONE:
        reason = "insecure-skip-tls-verify is set: anybody on the network path can pose as the API server"
        report(ConnectionInsecure(str(connection.server), f"{connection.origin}: {reason}"))
    if connection.tls is None and connection.auth is not None:
        reason = "the token is sent over plain HTTP: anybody on the network path can read it"
        report(ConnectionInsecure(str(connection.server), f"{connection.origin}: {reason}"))


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


def _auth(chosen: ChosenContext, tls: ssl.SSLContext | None, report: Report) -> ClusterAuth | None:
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
        # Read at once, so that an unreadable file ends the start, while the operator is there to mend it.
        named = whose if whose == "cluster.token_file" else f"{whose}: tokenFile"
        return ClusterAuth(TokenFileCredential(Path(user.token_file), user.token, named).read_at_once(), whose)
    if user.token:
        return ClusterAuth(FixedToken(user.token), whose)
    if user.exec and tls:
        return ClusterAuth(_plugin(chosen, user.exec, tls, report), whose)
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


# ── TLS ───────────────────────────────────────────────────────────────────────


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


def cluster_context(authority: bytes | Path | None, whose: str, *, verify: bool = True) -> ssl.SSLContext:
    """The TLS context of a cluster. ``authority`` is PEM, or a file of it; None trusts the system's authorities.

    Raises CredentialsError for an unreadable authority; ``whose`` names the setting in it.
    """
    name = authority if isinstance(authority, Path) else "the inline data"
    if isinstance(authority, Path):
        try:
            authority.open("rb").close()
        except OSError as error:
            raise CredentialsError(f"{whose}: {authority} cannot be read: {reason_of(error)}") from error
    try:
        if isinstance(authority, bytes):
            # Bundles have comments with the authorities' names, in any alphabet. An empty cadata would trust the
            # system's authorities, so a bundle without any ASCII must become text that is refused.
            context = ssl.create_default_context(cadata=authority.decode("ascii", "ignore") or "nothing")
        else:
            context = ssl.create_default_context(cafile=authority)
    except (OSError, ValueError) as error:
        raise CredentialsError(f"{whose}: {name} is no certificate authority in PEM: {reason_of(error)}") from error
    # Python 3.13 demands extensions that the authorities of EKS and of older clusters lack; Go does not demand them.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def show_certificate(context: ssl.SSLContext, certificate: bytes | Path, key: bytes | Path, whose: str) -> None:
    """Uses this client certificate in every later handshake.

    Raises CredentialsError for an unusable certificate, and then leaves ``context`` unchanged; ``whose`` names the
    setting.
    """
    for setting, pem in (("client-certificate", certificate), ("client-key", key)):
        if isinstance(pem, Path):
            try:
                pem.open("rb").close()
            except OSError as error:
                raise CredentialsError(f"{whose}: {setting}: {pem} cannot be read: {reason_of(error)}") from error
    with as_file(certificate) as certificate_file, as_file(key) as key_file:
        try:
            # load_cert_chain keeps the certificate even if the key does not fit: a spare context tries the pair first.
            for each in (ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), context):
                # An encrypted key would make OpenSSL ask at the terminal.
                each.load_cert_chain(certificate_file, key_file, password=lambda: "")
        except (OSError, ValueError) as error:
            raise CredentialsError(
                f"{whose}: the client certificate and its key cannot be used: {reason_of(error)}. "
                "Both must be PEM, belong together, and not be encrypted"
            ) from error


@contextmanager
def as_file(pem: bytes | Path) -> Iterator[Path]:
    """A file with the PEM, because OpenSSL reads certificates only from files. On Linux the file is in memory (memfd):
    a key never touches a disk, and a read-only file system suffices."""
    if isinstance(pem, Path):
        yield pem
    elif hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("certificate")
        try:
            os.write(descriptor, pem)
            yield Path(f"/proc/self/fd/{descriptor}")
        finally:
            os.close(descriptor)
    else:
        with tempfile.NamedTemporaryFile() as file:  # Readable by us alone.
            file.write(pem)
            file.flush()
            yield Path(file.name)


# ── The proxy ─────────────────────────────────────────────────────────────────


def proxy_from_url(url: str, whose: str) -> httpx.Proxy:
    """The proxy of a URL; ``whose`` names the setting. Raises CredentialsError, without the URL in its message: it may
    hold a password."""
    try:
        proxy = httpx.Proxy(url)
    except (ValueError, httpx.InvalidURL):
        proxy = None
    if proxy is None or proxy.url.scheme not in _DEFAULT_PORT:
        raise CredentialsError(f"{whose} must be an http:// or https:// URL; other proxies are not supported")
    if proxy.raw_auth is None:
        return proxy
    # The header is made here, because the transport would make it with a deprecated part of aiohttp.
    login = base64.b64encode(b":".join(proxy.raw_auth)).decode()
    return httpx.Proxy(proxy.url, headers={"Proxy-Authorization": f"Basic {login}"})


def proxy_from_environment(server: httpx.URL, environ: Mapping[str, str]) -> httpx.Proxy | None:
    """The proxy by the rules of Go's ``http.ProxyFromEnvironment``: loopback needs no proxy, and NO_PROXY accepts
    networks too. None for a direct connection. Raises CredentialsError."""
    # Capitals sort first, so that the name in small letters wins, as in other programs.
    settings = {name.lower(): value for name, value in sorted(environ.items()) if name.lower().endswith("_proxy")}
    url = settings.get(f"{server.scheme}_proxy")
    if not url or is_loopback(server.host):
        return None
    if any(_covers(entry.strip().lower(), server) for entry in settings.get("no_proxy", "").split(",")):
        return None
    return proxy_from_url(url if "://" in url else f"http://{url}", f"{server.scheme.upper()}_PROXY")


def _covers(entry: str, server: httpx.URL) -> bool:
    if entry == "*":
        return True
    try:
        return ip_address(server.host) in ip_network(entry, strict=False)
    except ValueError:
        pass  # The host or the entry is a name, not an address.
    name, _, port = entry.removeprefix("*").partition(":")
    if not name or (port and port != str(server.port or _DEFAULT_PORT[server.scheme])):
        return False
    # "example.com" and ".example.com": the second leaves out the domain itself.
    return f".{server.host}".endswith(f".{name.lstrip('.')}") and server.host != name[1:]


# ── Reading again ─────────────────────────────────────────────────────────────


class RenewedConnection(httpx.Auth):
    """One rule for every file of credentials (kubeconfig, certificate authority, client certificate and key): before a
    request they are looked at, and read again if one of them changed, or if the server has refused since: a 401 or
    403, or no answer, such as a certificate that one side does not accept. A 401 is repeated once with what was found.
    A token file has this rule for itself (``TokenFileCredential``).

    Files that cannot be used (half of a pair is written) leave the last credentials in use, and so does a kubeconfig
    that names another server: that may be another cluster, which only a restart may go to. Reports CredentialsRead and
    ConnectionInsecure. Requests under way, and watches that are open, go on as they began."""

    def __init__(
        self,
        find: Callable[[], ClusterConnection],
        *,
        report: Report = discard,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``find`` reads the files. Raises its CredentialsError."""
        self._find = find
        self._report = report
        self._clock = clock
        self.connection = find()
        report_insecure(self.connection, report)
        self._states = _look(self.connection.files)
        self._read_at = clock()
        self._refused = False
        self._problem = ""

    def refused(self) -> None:
        """The server has refused a request, or not answered it."""
        self._refused = True

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        used = self._newest()
        token = await used.auth.sign(request) if used.auth else None
        response = yield request
        if response.status_code not in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
            return
        self.refused()
        if response.status_code == httpx.codes.FORBIDDEN:
            return
        again = self._newest()
        if again is not used or (used.auth and await used.auth.renew(token)):
            if again.auth:
                await again.auth.sign(request)
            else:
                request.headers.pop("Authorization", None)
            yield request

    def _newest(self) -> ClusterConnection:
        # Before the files are read: a write in between then shows as another state at the next request.
        states = _look(self.connection.files)
        if states == self._states and not (self._refused and self._clock() - self._read_at >= NOT_WITHIN):
            return self.connection
        self._states, self._read_at, self._refused = states, self._clock(), False
        try:
            found = self._find()
        except CredentialsError as error:
            self._keep(str(error))
            return self.connection
        if found.server != self.connection.server:
            self._keep(f"{found.origin} names another server, {found.server}, which a restart of the bridge goes to")
        elif found.made_of != self.connection.made_of:
            self.connection, self._problem = found, ""
            self._report(CredentialsRead(found.origin))
            report_insecure(found, self._report)
        return self.connection

    def _keep(self, problem: str) -> None:
        if problem != self._problem:
            self._problem = problem
            self._report(CredentialsRead(self.connection.origin, problem))


def _look(files: Sequence[Path]) -> list[FileState | None]:
    return [file_state(each) for each in files]
