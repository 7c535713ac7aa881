"""The connection to the API server as its files have it now."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path

import httpx

from bridge.facts import CredentialsRead, Report, discard
from bridge.kube.auth.access import ClusterConnection, report_insecure
from bridge.kube.auth.credentials import FileState, file_state
from bridge.kube.errors import CredentialsError

NOT_WITHIN = 1.0
"""Seconds. Files that look the same are read at most so often, however many requests are refused."""


class RenewedConnection(httpx.Auth):
    """One rule for every file of credentials (kubeconfig, certificate authority, client certificate and key): before a
    request they are looked at, and read again if one of them changed, or if the server has refused since: a 401 or
    403, or no answer, such as a certificate that one side does not accept. A 401 is repeated once with what was found.
    A token file has this rule for itself (``TokenFileCredential``).

    Files that cannot be used (half of a pair is written) leave the last credentials in use, and so does a kubeconfig
    that names another server: that may be another cluster, which only a restart may go to. Reports CredentialsRead and
    ConnectionInsecure.
    Requests under way, and watches that are open, go on as they began."""

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
