from __future__ import annotations

import asyncio
import json
import os
import signal
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridge.kube import CredentialsError
from bridge.kube.auth.exec_plugin import ExecPlugin
from bridge.kube.auth.kubeconfig import Cluster, Exec, Extension
from bridge.telemetry.facts import Fact
from bridge.telemetry.facts.cluster import PluginComplained
from tests.kit.deadlines import BUSY

V1 = "client.authentication.k8s.io/v1"
V1BETA1 = "client.authentication.k8s.io/v1beta1"
V1ALPHA1 = "client.authentication.k8s.io/v1alpha1"
NOW = 1_800_000_000.0
CLUSTER = Cluster(
    server="https://api.example.test:6443",
    tls_server_name="api",
    proxy_url="http://proxy.example.test:3128",
    extensions=[
        Extension("client.authentication.k8s.io/exec", {"audience": "me"}),
        Extension("example.test/other", {"not": "this"}),
    ],
)


def printed_as(api_version: str, status: dict[str, Any] | None) -> str:
    return json.dumps({"kind": "ExecCredential", "apiVersion": api_version, "status": status})


class Plugin:
    """A real command. It says what is in ``credential``, and leaves a line in ``runs`` each time it is run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.command = folder / "login"
        self.now = NOW
        self.installed: list[tuple[bytes, bytes]] = []
        self.facts: list[Fact] = []
        self.script('cat "$(dirname "$0")/credential"')

    def script(self, body: str) -> None:
        lines = ["#!/bin/sh", 'echo "$KUBERNETES_EXEC_INFO" >> "$(dirname "$0")/runs"', body]
        self.command.write_text("\n".join(lines) + "\n")
        self.command.chmod(0o755)

    def prints(self, api_version: str = V1, *, expires_in: float | None = None, **status: Any) -> None:
        if expires_in is not None:
            status["expirationTimestamp"] = datetime.fromtimestamp(self.now + expires_in, UTC).isoformat()
        (self.folder / "credential").write_text(printed_as(api_version, status))

    def runs(self) -> list[dict[str, Any]]:
        """KUBERNETES_EXEC_INFO of each run."""
        lines = (self.folder / "runs").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def credential(self, *, timeout: float = 20, authority: bytes | None = None, **spec: Any) -> ExecPlugin:
        """``spec``: as kubectl writes it."""
        return ExecPlugin(
            msgspec.convert({"command": str(self.command), "apiVersion": V1, **spec}, Exec),
            CLUSTER,
            authority,
            "/home/me/.kube/config: user alice",
            lambda certificate, key: self.installed.append((certificate, key)),
            clock=lambda: self.now,
            timeout=timeout,
            report=self.facts.append,
        )


@pytest.fixture
def plugin(tmp_path: Path) -> Plugin:
    plugin = Plugin(tmp_path)
    plugin.prints(token="first")
    return plugin


@pytest.mark.parametrize("api_version", [V1, V1BETA1])
async def test_a_plugins_token_is_used_and_kept(plugin: Plugin, api_version: str) -> None:
    plugin.prints(api_version, token="first")
    credential = plugin.credential(apiVersion=api_version)
    assert [await credential.token() for _ in range(3)] == ["first"] * 3
    assert len(plugin.runs()) == 1


async def test_a_plugin_gets_the_request_and_the_cluster_if_it_is_configured_to(plugin: Plugin) -> None:
    await plugin.credential().token()
    await plugin.credential(provideClusterInfo=True, authority=b"PEM").token()
    alone, with_cluster = plugin.runs()
    assert alone == {"kind": "ExecCredential", "apiVersion": V1, "spec": {"interactive": False}}
    assert with_cluster["spec"]["cluster"] == {
        "server": "https://api.example.test:6443",
        "tls-server-name": "api",
        "certificate-authority-data": "UEVN",
        "proxy-url": "http://proxy.example.test:3128",
        "config": {"audience": "me"},
    }


async def test_a_plugin_gets_its_arguments_and_environment_over_ours(
    plugin: Plugin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OURS", "ours")
    monkeypatch.setenv("BOTH", "ours")
    template = printed_as(V1, {"token": "%s"})
    plugin.script(f"printf '{template}' \"$1-$2-$OURS-$BOTH\"")
    env = [{"name": "BOTH", "value": "theirs"}]
    assert await plugin.credential(args=["a b", "c"], env=env).token() == "a b-c-ours-theirs"


async def test_a_credential_is_replaced_a_minute_before_it_ends(plugin: Plugin) -> None:
    plugin.prints(token="first", expires_in=3600)
    credential = plugin.credential()
    assert await credential.token() == "first"
    plugin.prints(token="second", expires_in=7200)
    plugin.now += 3539
    assert await credential.token() == "first"
    plugin.now += 2
    assert await credential.token() == "second"


async def test_a_short_lived_credential_is_not_renewed_per_request(plugin: Plugin) -> None:
    plugin.prints(token="short", expires_in=30)
    credential = plugin.credential()
    for _ in range(5):
        assert await credential.token() == "short"
    plugin.now += 26
    assert len(plugin.runs()) == 1


async def test_many_requests_with_a_refused_token_run_the_plugin_once(plugin: Plugin) -> None:
    credential = plugin.credential()
    assert await asyncio.gather(*(credential.token() for _ in range(20))) == ["first"] * 20
    plugin.prints(token="second")
    assert all(await asyncio.gather(*(credential.renew("first") for _ in range(20))))
    assert await credential.renew("first")  # A straggler: it has the second token to try.
    assert await credential.token() == "second"
    assert len(plugin.runs()) == 2


async def test_a_failing_plugin_is_run_once_for_all_who_wait(plugin: Plugin) -> None:
    plugin.script("exit 3")
    credential = plugin.credential()
    outcomes = await asyncio.gather(*(credential.token() for _ in range(10)), return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {CredentialsError}
    assert len(plugin.runs()) == 1


async def test_a_plugin_may_print_a_certificate(plugin: Plugin) -> None:
    plugin.prints(clientCertificateData="CERT", clientKeyData="KEY")
    credential = plugin.credential()
    assert await credential.token() is None
    assert plugin.installed == [(b"CERT", b"KEY")]


async def test_the_event_loop_goes_on_while_a_plugin_runs(plugin: Plugin) -> None:
    go = plugin.folder / "go"
    os.mkfifo(go)
    plugin.script(f'cat {go} > /dev/null; cat "$(dirname "$0")/credential"')
    async with asyncio.timeout(20 * BUSY), asyncio.TaskGroup() as group:
        waiting = group.create_task(plugin.credential().token())
        writer = await asyncio.to_thread(go.open, "w")  # Opens when the plugin reads: it is running now.
        assert not waiting.done()
        writer.close()
    assert waiting.result() == "first"


# ── Plugins that fail ────────────────────────────────────────────────────────


async def complaint(credential: ExecPlugin) -> str:
    with pytest.raises(CredentialsError) as raised:
        await credential.token()
    return str(raised.value)


async def test_a_missing_plugin_is_reported_with_its_install_hint(plugin: Plugin) -> None:
    credential = plugin.credential(command="no-such-login", installHint="Install it with: brew install login\n")
    assert await complaint(credential) == (
        "/home/me/.kube/config: user alice: the credential plugin no-such-login cannot be run: "
        "No such file or directory. Install it with: brew install login"
    )


async def test_a_failing_plugin_is_reported_without_its_output(plugin: Plugin) -> None:
    plugin.script('echo first >&2; echo "login of me with hunter2 failed" >&2; exit 3')
    assert await complaint(plugin.credential()) == (
        f"/home/me/.kube/config: user alice: the credential plugin {plugin.command} ended with 3; "
        "its standard error is logged at level debug"
    )
    assert plugin.facts == [PluginComplained(str(plugin.command), "first\nlogin of me with hunter2 failed")]


async def test_of_a_long_complaint_the_end_is_kept(plugin: Plugin) -> None:
    plugin.script("yes x | head -c 9000000 >&2; echo the end >&2; exit 1")
    await complaint(plugin.credential())
    [fact] = plugin.facts
    assert isinstance(fact, PluginComplained)
    assert len(fact.text) < 5000
    assert fact.text.endswith("x\nthe end")


async def test_a_plugin_that_prints_without_end_is_killed(plugin: Plugin) -> None:
    plugin.script("exec cat /dev/zero")
    assert "printed more than 1 MiB" in await complaint(plugin.credential())


@pytest.mark.parametrize(
    ("printed", "message"),
    [
        ("hunter2", "did not print an ExecCredential: JSON is malformed"),
        ('{"kind":"Secret"}', f"printed Secret in no apiVersion, not an ExecCredential in {V1}"),
        (
            printed_as(V1BETA1, {"token": "hunter2"}),
            f"printed ExecCredential in {V1BETA1}, not an ExecCredential in {V1}",
        ),
        (printed_as(V1, None), "printed neither a token nor a certificate with its key"),
        (
            printed_as(V1, {"clientCertificateData": "hunter2"}),
            "printed neither a token nor a certificate with its key",
        ),
    ],
)
async def test_a_plugin_with_bad_output_is_reported_without_it(plugin: Plugin, printed: str, message: str) -> None:
    (plugin.folder / "credential").write_text(printed)
    words = await complaint(plugin.credential())
    assert message in words
    assert "hunter2" not in words


async def test_a_plugin_that_does_not_end_is_killed_with_its_children(plugin: Plugin) -> None:
    plugin.script('sleep 600 & echo $! > "$(dirname "$0")/child"; wait')
    assert "did not end within 0.5 seconds" in await complaint(plugin.credential(timeout=0.5))
    child = int((plugin.folder / "child").read_text())
    for _ in range(100):
        if not is_running(child):
            return
        await asyncio.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    pytest.fail("the plugin's child was left behind")


def is_running(process: int) -> bool:
    """A zombie that nobody has waited for is not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_a_cancelled_request_does_not_leave_the_plugin_behind(plugin: Plugin) -> None:
    started = plugin.folder / "started"
    os.mkfifo(started)
    plugin.script(f"echo $$ > {started}; exec sleep 600")
    waiting = asyncio.get_running_loop().create_task(plugin.credential().token())
    process = int(await asyncio.to_thread(started.read_text))
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not is_running(process)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"apiVersion": V1ALPHA1}, f"has apiVersion {V1ALPHA1}"),
        ({"apiVersion": ""}, "has apiVersion not set"),
        ({"interactiveMode": "Always"}, "needs a terminal (interactiveMode: Always)"),
    ],
)
def test_an_unusable_plugin_is_refused_before_it_runs(plugin: Plugin, spec: dict[str, Any], message: str) -> None:
    with pytest.raises(CredentialsError) as raised:
        plugin.credential(**spec)
    assert message in str(raised.value)
    assert "user alice" in str(raised.value)
