"""Holds what a client needs to reach an API server, and reads it again from its files, because certificates and tokens
are replaced during a run.

``access`` finds a ``ClusterConnection``; ``RenewedConnection`` keeps it as its files have it now, and authenticates
requests with it.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from bridge.kube.auth.credentials import ClusterAuth, CredentialsError, FileState, file_state
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
    auth: ClusterAuth | None = None
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
