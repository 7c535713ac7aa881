"""Gets credentials from plugins: a cloud provider's command that prints a short-lived token or certificate.

The plugin's process runs without a terminal, with bounds on its time and its output, once for all requests that wait
for its credential. If it fails, all of them fail with the same error, and the next request runs it again.

https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from bridge.kube.auth.credentials import Credential, CredentialsError, reason_of
from bridge.kube.auth.kubeconfig import Cluster, Exec
from bridge.kube.wire.objects import UNREADABLE
from bridge.kube.wire.status import shortened
from bridge.telemetry.facts import Report, discard
from bridge.telemetry.facts.cluster import PluginComplained

API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
CLUSTER_EXTENSION = "client.authentication.k8s.io/exec"
"""The cluster's extension in the kubeconfig whose content is passed to plugins."""
TIMEOUT = 60.0
"""Seconds until a plugin is killed. client-go waits without a limit."""
MARGIN = 60.0
"""Seconds before its expiration at which a credential is renewed; a tenth of its lifetime if that is shorter."""

MOST_PRINTED = 1 << 20
"""Bytes that a plugin may print. A token has some thousand, a certificate with its key ten thousand."""
MOST_COMPLAINED = 4096
"""Bytes kept from the end of the plugin's standard error."""

_PIECE = 64 * 1024

Install = Callable[[bytes, bytes], None]


class _CredentialStatus(msgspec.Struct, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: datetime | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    kind: str = ""
    api_version: str = ""
    status: _CredentialStatus | None = None


class ExecPlugin(Credential):
    """The credential that a plugin printed last. The plugin runs for the first request, MARGIN before the credential
    expires, and after a 401.

    Concurrent requests share a run. ``install`` receives a printed certificate (PEM: certificate, key).
    """

    def __init__(
        self,
        spec: Exec,
        cluster: Cluster,
        authority: bytes | None,
        whose: str,
        install: Install,
        *,
        clock: Callable[[], float] = time.time,
        timeout: float = TIMEOUT,
        report: Report = discard,
    ) -> None:
        """``whose`` names the user and file in errors; ``authority`` is the cluster's certificate authority (PEM);
        ``clock`` gives Unix time in seconds; ``timeout`` is in seconds.

        Reports PluginComplained with the plugin's standard error, which stays out of errors because it may hold a
        password. Raises CredentialsError for an unsupported ``apiVersion`` and for plugins that need a terminal."""
        super().__init__(whose)
        _check(spec, whose)
        self._spec = spec
        self._install = install
        self._clock = clock
        self._timeout = timeout
        self._report = report
        self._info = exec_info(spec, cluster, authority)
        self._running = asyncio.Lock()
        self._token: str | None = None
        self._fresh_until = float("-inf")
        self._runs = 0
        self._failure = ""

    async def token(self) -> str | None:
        if self._clock() >= self._fresh_until:
            await self._run_once(self._runs)
        return self._token

    async def renew(self, refused: str | None) -> bool:
        # Another request may have been refused with the same token, and have run the plugin already.
        if self._token == refused:
            await self._run_once(self._runs)
        return True

    async def _run_once(self, seen: int) -> None:
        """Runs the plugin, unless another request ran it since ``seen`` runs. Both share the outcome, failures too."""
        async with self._running:
            if self._runs == seen:
                self._failure = ""
                try:
                    self._take(self._read(await self._run()))
                except CredentialsError as error:
                    # Kept for the requests that waited for this run: all of them fail with it, and the plugin runs
                    # once.
                    self._failure = str(error)
                self._runs += 1
            if self._failure:
                raise CredentialsError(self._failure)

    def _take(self, status: _CredentialStatus) -> None:
        if status.client_certificate_data and status.client_key_data:
            self._install(status.client_certificate_data.encode(), status.client_key_data.encode())
            self.certificate_changes = True
        self._token = status.token
        self._fresh_until = self._end_of(status)

    def _end_of(self, status: _CredentialStatus) -> float:
        if status.expiration_timestamp is None:
            return float("inf")
        end, now = status.expiration_timestamp.timestamp(), self._clock()
        return end - min(MARGIN, max(0.0, end - now) / 10)

    async def _run(self) -> bytes:
        spec = self._spec
        environment = {**os.environ, **{each.name: each.value for each in spec.env or ()}}
        environment["KUBERNETES_EXEC_INFO"] = msgspec.json.encode(self._info).decode()
        try:
            ended = await run_process(
                (spec.command, *(spec.args or ())), environment, timeout=self._timeout, complain=self._complained
            )
        except TimeoutError:
            raise self._failed(f"did not end within {self._timeout:g} seconds") from None
        except OSError as error:
            raise self._failed(f"cannot be run: {reason_of(error)}", hint=True) from error
        if ended.printed is None:
            raise self._failed(f"printed more than {MOST_PRINTED >> 20} MiB")
        if ended.code:
            said = "; its standard error is logged at level debug" if ended.complained else ""
            raise self._failed(f"ended with {ended.code}{said}")
        return ended.printed

    def _complained(self, text: str) -> None:
        self._report(PluginComplained(self._spec.command, text))

    def _read(self, printed: bytes) -> _CredentialStatus:
        try:
            credential = msgspec.json.decode(printed, type=_ExecCredential)
        except UNREADABLE as error:
            raise self._failed(f"did not print an ExecCredential: {error}") from None
        if credential.kind != "ExecCredential" or credential.api_version != self._spec.api_version:
            found = f"{credential.kind or 'no kind'} in {credential.api_version or 'no apiVersion'}"
            raise self._failed(f"printed {found}, not an ExecCredential in {self._spec.api_version}")
        status = credential.status
        if status is None or not (status.token or (status.client_certificate_data and status.client_key_data)):
            raise self._failed("printed neither a token nor a certificate with its key")
        return status

    def _failed(self, why: str, *, hint: bool = False) -> CredentialsError:
        advice = f". {self._spec.install_hint.strip()}" if hint and self._spec.install_hint else ""
        return CredentialsError(shortened(f"{self._whose}: the credential plugin {self._spec.command} {why}{advice}"))


def exec_info(spec: Exec, cluster: Cluster, authority: bytes | None) -> Mapping[str, Any]:
    """The content of KUBERNETES_EXEC_INFO: the ExecCredential that asks, with the cluster if the kubeconfig says so
    (``provideClusterInfo``)."""
    about: dict[str, Any] = {"interactive": False}
    if spec.provide_cluster_info:
        extensions = {each.name: each.extension for each in cluster.extensions or ()}
        known = {
            "server": cluster.server,
            "tls-server-name": cluster.tls_server_name,
            "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
            "certificate-authority-data": authority,  # msgspec writes bytes as base64, as the plugin expects.
            "proxy-url": cluster.proxy_url,
            "disable-compression": cluster.disable_compression,
            "config": extensions.get(CLUSTER_EXTENSION),
        }
        about["cluster"] = {name: value for name, value in known.items() if value}
    return {"kind": "ExecCredential", "apiVersion": spec.api_version, "spec": about}


def _check(spec: Exec, whose: str) -> None:
    if spec.api_version not in API_VERSIONS:
        raise CredentialsError(
            f"{whose}: the credential plugin {spec.command} has apiVersion {spec.api_version or 'not set'}; "
            f"it must be {' or '.join(API_VERSIONS)}"
        )
    if spec.interactive_mode == "Always":
        raise CredentialsError(
            f"{whose}: the credential plugin {spec.command} needs a terminal (interactiveMode: Always), and the bridge "
            "has none: use a plugin with interactiveMode Never or IfAvailable"
        )


# ── The process ───────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class EndedProcess:
    printed: bytes | None
    """Standard output; None beyond MOST_PRINTED bytes."""
    code: int | None
    """The exit code; negative for a signal."""
    complained: bool
    """Whether it wrote to its standard error."""


async def run_process(
    command: Sequence[str], environment: Mapping[str, str], *, timeout: float, complain: Callable[[str], None]
) -> EndedProcess:
    """Runs the command without a terminal, and kills it after ``timeout`` seconds or too much output.

    ``complain`` receives the end of its standard error, also before an error is raised. Raises TimeoutError, and
    OSError if the command cannot be run."""
    process = await asyncio.create_subprocess_exec(
        *command, env=environment, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, start_new_session=True
    )
    complaint = bytearray()
    try:
        async with asyncio.timeout(timeout):
            printed = await _communicate(process, complaint)
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):  # It may end at this moment.
                # The whole group: children of the plugin hold our pipes open.
                os.killpg(process.pid, signal.SIGKILL)
            await _ended(process)
        if said := complaint.decode(errors="replace").strip():
            complain(said)
    return EndedProcess(printed, process.returncode, bool(said))


async def _communicate(process: Process, complaint: bytearray) -> bytes | None:
    """The plugin's whole standard output; None beyond MOST_PRINTED bytes. ``complaint`` gets the end of its standard
    error."""
    assert process.stdout is not None  # noqa: S101 (they are pipes)
    assert process.stderr is not None  # noqa: S101
    async with asyncio.TaskGroup() as group:
        complaining = group.create_task(_keep_end(process.stderr, complaint))
        printed = bytearray()
        while len(printed) <= MOST_PRINTED and (piece := await process.stdout.read(_PIECE)):
            printed += piece
        if len(printed) > MOST_PRINTED:
            complaining.cancel()
            return None
    await process.wait()
    return bytes(printed)


async def _keep_end(stream: asyncio.StreamReader, kept: bytearray) -> None:
    while piece := await stream.read(_PIECE):
        kept += piece
        del kept[:-MOST_COMPLAINED]


async def _ended(process: Process) -> None:
    """Returns when a killed plugin has ended and its pipes are closed, after a second at most."""
    with suppress(TimeoutError):  # A child may have left the process group, and write on.
        async with asyncio.timeout(1):
            # Drain the pipes before wait(), which never returns while an unread pipe has data in it.
            for pipe in (process.stdout, process.stderr):
                while pipe is not None and await pipe.read(_PIECE):
                    pass
            await process.wait()
    process._transport.close()  # type: ignore[attr-defined]  # asyncio has no public method for it.
