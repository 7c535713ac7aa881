"""Holds what a client needs to reach an API server, and reads it again from its files, because certificates and tokens
are replaced during a run.

``access`` finds a ``ClusterConnection``, with a TLS context (which authority is trusted, which client certificate is
shown) and the HTTP proxy on the way, by a URL or by the rules of Go's environment variables. ``RenewedConnection``
keeps it as its files have it now, and authenticates requests with it.
"""

from __future__ import annotations

import base64
import os
import ssl
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from pathlib import Path

import httpx

from bridge.kube.auth.credentials import Credential, CredentialsError, FileState, file_state, reason_of
from bridge.model.primitives.network import is_loopback
from bridge.telemetry.facts import Report, discard
from bridge.telemetry.facts.cluster import ConnectionInsecure, CredentialsRead

NOT_WITHIN = 1.0
"""Seconds. Files that look the same are read at most so often, however many requests are refused."""


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
    auth: Credential | None = None
    headers: tuple[tuple[str, str], ...] = ()
    proxy: httpx.Proxy | None = None
    compression: bool = True
    """The server may compress its answers."""
    files: tuple[Path, ...] = ()
    """The files that this was read from, token files left out."""
    made_of: tuple[object, ...] = field(default=(), repr=False)
    """Equal for two connections with the same settings and credentials."""


def report_insecure(connection: ClusterConnection, report: Report) -> None:
    """Reports ConnectionInsecure if the server's certificate is not verified, or if a token is sent over plain HTTP."""
    if connection.tls is not None and connection.tls.verify_mode is ssl.CERT_NONE:
        reason = "insecure-skip-tls-verify is set: anybody on the network path can pose as the API server"
        report(ConnectionInsecure(str(connection.server), f"{connection.origin}: {reason}"))
    if connection.tls is None and connection.auth is not None:
        reason = "the token is sent over plain HTTP: anybody on the network path can read it"
        report(ConnectionInsecure(str(connection.server), f"{connection.origin}: {reason}"))


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


# ── TLS ──────────────────────────────────────────────────────────────────────


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


# ── The proxy ────────────────────────────────────────────────────────────────

_DEFAULT_PORT = {"http": 80, "https": 443}


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
