"""The command line: what it says, and its exit codes."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from bridge.cli import main
from bridge.cli.command_line import parse
from bridge.cli.exits import Exit
from tests.bridge.cli.conftest import Command
from tests.cluster.servers.ports import reserve_port
from tests.kit.commands import in_a_process
from tests.kit.configurations import a_config
from tests.kit.deadlines import BUSY, until
from tests.kit.fork_server import Forked, fork_server
from tests.kit.playground import Playground

# ── Words ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "kubedelta: name a command; kubedelta --help lists them"),
        ("nothing", "usage: kubedelta"),
        ("-c x status", "kubedelta: -c stands behind a command: kubedelta COMMAND -c;"),
        ("status -n shop", "usage: kubedelta status [-h]"),
        ("status -n shop", "kubedelta status: unrecognized arguments: -n shop"),
        ("sinks pause hook --now", "kubedelta sinks pause: unrecognized arguments: --now"),
        ("dead-letters", "the following arguments are required: list|show|retry|drop"),
        ("diff 10m", "kubedelta diff: the following arguments are required: POINT\n"),
        ("demo --for soon", "'soon' is not a time; allowed: 500ms, 5s, 2m, 1h, 1d"),
        ("demo --for 0s", "'0s' is not a time; allowed: 500ms, 5s, 2m, 1h, 1d"),
        *[(f"demo --rate {rate}", "allowed: 0.01 to 10000") for rate in ("0", "-1", "nan", "inf", "1e9", "fast")],
        ("check -c x --offline --noise", "--noise needs the cluster, and --offline asks none"),
        ("verify copy -c x --limit -1", "allowed: 0 and above"),
        ("completion tcsh", "bash"),
        ("schema --reference asyncapi -c x", "--reference is for the configuration file alone"),
        *[
            (f"rbac -c x --service-account {account}", "is not a service account; allowed: NAMESPACE/NAME")
            for account in ("kubedelta", "/kubedelta", "a/b/c", "Shop/till")
        ],
    ],
)
def test_a_wrong_command_line_is_told_with_what_is_allowed_there(
    words: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words.split()) == Exit.USAGE
    printed = capsys.readouterr().err
    assert "usage: kubedelta" in printed
    assert said in printed


def parsed(*words: str) -> dict[str, Any]:
    """The parameters of the command's function."""
    ended = parse([*words, "-c", "kubedelta.yaml"])
    assert isinstance(ended, partial)
    found: dict[str, Any] = ended.args[0].keywords
    return found


@pytest.mark.parametrize("words", ["tail copy", "snapshot copy", "replay copy --from beginning"])
def test_a_namespace_has_kubectls_short_option_everywhere(words: str) -> None:
    assert parsed(*words.split(), "-n", "shop")["namespace"] == "shop"


@pytest.mark.parametrize(
    ("words", "on_a_terminal", "behind_a_pipe"),
    [
        ([], 10.0, None),
        (["--noise"], 10.0, 10.0),
        (["--noise", "30s"], 30.0, 30.0),
        (["--no-noise"], None, None),
        (["--offline"], None, None),
    ],
)
def test_a_terminal_gets_the_noise_without_a_word(
    words: list[str], on_a_terminal: float | None, behind_a_pipe: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for is_terminal, seconds in ((True, on_a_terminal), (False, behind_a_pipe)):
        monkeypatch.setattr(sys.stdout, "isatty", lambda answer=is_terminal: answer)
        assert parsed("check", *words)["noise"] == seconds


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("kubedelta ")


# ── check ────────────────────────────────────────────────────────────────────


def test_an_offline_check_asks_nobody(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--offline", "-c", str(a_config(tmp_path))]) == Exit.OK
    assert capsys.readouterr().out.startswith("ok ")


def test_an_offline_check_finds_what_ends_a_start_by_the_file_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = {"type": "file", "path": str(tmp_path / "deltas.ndjson")}
    worded = {"type": "file", "path": str(tmp_path / "words"), "data": "object..name"}
    path = a_config(tmp_path, sinks={"copy": copy, "twin": copy, "words": worded})

    assert main(["check", "--offline", "-c", str(path)]) == Exit.CONFIG
    printed = capsys.readouterr().out
    assert "wrong       sinks.twin: sinks.copy writes to the same" in printed
    assert "wrong       sinks.words.data: column 8: " in printed


def test_a_check_says_which_service_cannot_be_reached(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    port = reserve_port()
    path = a_config(tmp_path, f"http://127.0.0.1:{port}")

    assert main(["check", "-c", str(path)]) == Exit.UNAVAILABLE

    printed = capsys.readouterr().out
    assert "unreachable cluster: " in printed
    assert f"cannot connect to http://127.0.0.1:{port}: Connection refused (cluster.server)" in printed
    assert "sinks.copy" in printed, "the other findings are reported all the same"


async def test_a_check_finds_unknown_names_and_missing_rights(command: Command, tmp_path: Path) -> None:
    async with Playground() as cluster:
        cluster.misbehave.forbid("secrets")
        path = a_config(tmp_path, cluster.url, resources=["configmaps", "secrets", "deploymnts.apps"])

        done = await command("check", "-c", str(path))

    assert done.code == Exit.CONFIG
    assert "resources: configmaps: may list and watch" in done.out
    assert "RBAC must allow: list, watch secrets in the whole cluster" in done.out
    assert "deployments.apps" in done.out, "the nearest known name"


# ── rbac ─────────────────────────────────────────────────────────────────────


async def test_rbac_prints_the_rights_that_the_file_needs(command: Command, tmp_path: Path) -> None:
    async with Playground() as cluster:
        resources = ["deployments", {"resource": "po", "namespaces": ["shop"]}]
        election = {"enabled": True, "lease": "leader"}
        path = a_config(tmp_path, cluster.url, resources=resources, election=election)

        done = await command("rbac", "-c", str(path), "--service-account", "monitoring/bridge", "--name", "deltas")

    assert done.code == Exit.OK
    documents = list(yaml.safe_load_all(done.out))
    roles, bindings = documents[::2], documents[1::2]
    assert [(each["kind"], each["metadata"]) for each in roles] == [
        ("ClusterRole", {"name": "deltas"}),
        ("Role", {"name": "deltas", "namespace": "shop"}),
        ("Role", {"name": "deltas", "namespace": "monitoring"}),
    ]
    assert [each["kind"] for each in bindings] == ["ClusterRoleBinding", "RoleBinding", "RoleBinding"]
    assert roles[1]["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}]
    assert roles[2]["rules"][0]["resourceNames"] == ["leader"]
    for each in bindings:
        assert each["subjects"] == [{"kind": "ServiceAccount", "name": "bridge", "namespace": "monitoring"}]


async def test_an_election_is_checked_before_a_start(command: Command, tmp_path: Path) -> None:
    election = {"enabled": True, "lease_duration": "12s", "retry_period": "9s"}
    config = "-c", str(a_config(tmp_path, election=election))
    offline, checked = await command("check", "--offline", *config), await command("check", *config)
    for refused in (offline, checked, await asyncio.to_thread(in_a_process, "run", *config)):
        assert refused.code == Exit.CONFIG
        for line in (
            "election.renew_deadline: found 10 s; allowed: at most two thirds of election.lease_duration, 8.0 s",
            "election.retry_period: found 9 s; allowed: less than election.renew_deadline divided by 1.2, 8.3 s",
            "election.namespace: it is needed outside of a pod",
            "redaction.key_file: an election needs it",
        ):
            assert line in refused.out + refused.err


async def test_a_check_finds_missing_rights_on_the_lease(command: Command, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("k" * 64)
    async with Playground() as cluster:
        path = a_config(
            tmp_path,
            cluster.url,
            election={"enabled": True, "namespace": "apps", "identity": "kubedelta-0"},
            redaction={"key_file": str(tmp_path / "key")},
        )
        right = await command("check", "-c", str(path))
        cluster.misbehave.forbid("leases.coordination.k8s.io")
        wrong = await command("check", "-c", str(path))

    assert "election: may hold the Lease apps/kubedelta, as kubedelta-0" in right.out
    assert right.code == Exit.OK
    assert wrong.code == Exit.CONFIG
    assert "RBAC must allow: get, update, watch leases.coordination.k8s.io kubedelta in namespace apps" in wrong.out


async def test_rbac_names_the_entry_that_no_role_can_grant(command: Command, tmp_path: Path) -> None:
    async with Playground() as cluster:
        path = a_config(tmp_path, cluster.url, resources=[{"resource": "pods", "namespaces": ["shop"]}, "nodes"])
        refused = await command("rbac", "-c", str(path), "--namespaced")
        path = a_config(tmp_path, cluster.url, resources=["podz"])
        unknown = await command("rbac", "-c", str(path))

    assert (refused.code, refused.out) == (Exit.CONFIG, "")
    assert "resources: nodes: a Role cannot grant list, watch nodes in the whole cluster" in refused.err
    assert (unknown.code, unknown.out) == (Exit.CONFIG, "")
    assert "resources: podz: this cluster serves no resource of that name; did you mean pods" in unknown.err


@pytest.mark.parametrize("words", ["check", "verify copy", "rbac"])
@pytest.mark.parametrize(
    "sections",
    [
        {"resources": ["podz", "*.acme.io"]},
        {"cluster": {"name": "x", "server": "http://127.0.0.1:1"}, "resources": ["podz"]},
        {"cluster": {"name": "x", "kubeconfig": "missing"}, "resources": ["podz"]},
        {"cluster": {"name": "x", "server": "https://127.0.0.1:1", "ca_file": "missing"}, "resources": ["podz"]},
        {"cluster": {"name": "x", "server": "https://127.0.0.1:1", "ca_file": "kubedelta.yaml"}, "resources": ["podz"]},
        {"state": {"directory": "missing"}},
        {"sinks": {"copy": {"type": "file", "path": "missing/deltas.ndjson"}}},
    ],
)
async def test_no_error_says_a_name_twice(
    command: Command, tmp_path: Path, words: str, sections: dict[str, Any]
) -> None:
    async with Playground() as cluster:
        done = await command(*words.split(), "-c", str(a_config(tmp_path, cluster.url, **sections)))
    for line in (done.out + done.err).splitlines():
        assert not re.search(r"\b([\w.]{3,}): (?:.*: )?\1\b", line), line


async def test_rbac_needs_no_cluster_for_built_in_names(command: Command, tmp_path: Path) -> None:
    """Nor for a wildcard of the whole cluster, and for others that are written out."""
    resources: list[Any] = ["po", "Deployment", {"resource": "ing", "namespaces": ["shop"]}, "nodes", "*.batch"]
    async with Playground() as cluster:
        asked = await command("rbac", "-c", str(a_config(tmp_path, cluster.url, resources=resources)))
        assert list(cluster.requests) == []
    away = f"http://127.0.0.1:{reserve_port()}"
    alone = await command("rbac", "-c", str(a_config(tmp_path, away, resources=resources)))
    assert (alone.code, alone.err) == (Exit.OK, "")
    assert alone == asked
    nowhere = a_config(tmp_path, away, resources=resources, cluster={"name": "x", "kubeconfig": "missing"})
    assert await command("rbac", "-c", str(nowhere)) == asked

    written = a_config(tmp_path, away, resources=["pods", "certificates.cert-manager.io"])
    out = await command("rbac", "-c", str(written))
    assert out.code == Exit.OK
    assert "cert-manager.io" in out.out
    assert "note: certificates.cert-manager.io was not found on a cluster" in out.err


@pytest.mark.parametrize("entry", ["certs", {"resource": "*", "namespaces": ["shop"]}])
async def test_rbac_says_for_which_name_it_needs_a_cluster(command: Command, tmp_path: Path, entry: Any) -> None:
    path = a_config(tmp_path, f"http://127.0.0.1:{reserve_port()}", resources=[entry])
    refused = await command("rbac", "-c", str(path))
    assert (refused.code, refused.out) == (Exit.UNAVAILABLE, "")
    name = entry if isinstance(entry, str) else "*"
    assert f"resources: {name}: only the cluster knows this" in refused.err


# ── run ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("command", ["run", "check"])
def test_a_sink_that_cannot_work_exits_78_with_the_option_path(tmp_path: Path, command: str) -> None:
    copy = {"type": "file", "path": str(tmp_path / "deltas.ndjson")}
    sinks = {
        "audit": {"type": "kafka", "bootstrap_servers": "127.0.0.1:1", "properties": {"linger.mss": 5}},
        "hook": {"type": "webhook", "url": "https://127.0.0.1:1", "ca_file": str(tmp_path / "ca.crt")},
        "copy": copy,
        "twin": copy | {"path": str(tmp_path / "." / "x" / ".." / "deltas.ndjson")},
    }
    path = a_config(tmp_path, sinks=sinks)

    done = in_a_process(command, "-c", str(path))

    assert done.code == Exit.CONFIG
    said = done.out + done.err
    assert "sinks.audit.properties.linger.mss: librdkafka has no setting of this name" in said
    assert f"sinks.hook.ca_file: cannot read {tmp_path / 'ca.crt'}: No such file or directory" in said
    assert "sinks.twin: sinks.copy writes to the same" in said


def test_an_empty_token_file_exits_78_with_its_option(tmp_path: Path) -> None:
    (tmp_path / "token").touch()
    cluster = {"name": "test", "server": "https://127.0.0.1:1", "token_file": str(tmp_path / "token")}
    done = in_a_process("run", "-c", str(a_config(tmp_path, cluster=cluster)))
    assert done.code == Exit.CONFIG
    assert f"cluster.token_file: {tmp_path / 'token'} is empty" in done.err
    assert "cluster: cluster" not in done.err


@asynccontextmanager
async def running(path: Path, records: int, errors: int = 2) -> AsyncIterator[Forked]:
    """A run that has delivered so many records, and ends with 0 on SIGTERM behind the block."""
    process = fork_server().start(["run", "-c", str(path)], 1, errors)
    deltas = path.parent / "deltas.ndjson"
    await until(lambda: deltas.exists() and deltas.read_bytes().count(b"\n") == records)
    yield process
    process.terminate()
    assert await asyncio.to_thread(process.wait, 60 * BUSY) == 0


async def test_a_run_delivers_and_ends_with_0_on_sigterm(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with Playground() as cluster:
        cluster.create("configmaps", {"metadata": {"name": "a", "namespace": "default"}})
        with log.open("wb") as errors:
            async with running(a_config(tmp_path, cluster.url), 1, errors.fileno()):
                pass

    event = json.loads((tmp_path / "deltas.ndjson").read_text())
    assert (event["op"], event["evidence"]) == ("added", "listed")
    assert "configmaps/a" in event["subject"]
    assert "synced" in {json.loads(line)["event"] for line in log.read_text().splitlines()}


async def test_a_check_prints_the_forecast_of_a_start_as_a_table(command: Command, tmp_path: Path) -> None:
    state = tmp_path / "state"
    async with Playground() as cluster:
        for name in ("a", "b"):
            cluster.create("configmaps", {"metadata": {"name": name, "namespace": "default"}})
        path = a_config(tmp_path, cluster.url)
        async with running(path, 2) as process:
            beside = await command("check", "-c", str(path))
        before = sorted(state.iterdir())
        stopped = await command("check", "-c", str(a_config(tmp_path, cluster.url, resources=["secrets"])))

    assert (beside.code, stopped.code) == (Exit.OK, Exit.OK)
    note = f"a bridge runs on {state} (process {process.pid}, with this file), and goes on"
    assert f"note        state.directory: {note}" in beside.out
    rows = [line.split() for line in stopped.out.splitlines() if line.startswith("copy ")]
    assert rows == [["copy", "deleted", "2"]]
    assert sorted(state.iterdir()) == before


async def test_two_names_of_one_resource_end_a_run_with_78(tmp_path: Path) -> None:
    async with Playground() as cluster:
        path = a_config(tmp_path, cluster.url, resources=["pods", "pod"])
        done = await asyncio.to_thread(in_a_process, "run", "-c", str(path))
    assert done.code == Exit.CONFIG
    assert "resources: pod: pods means pods as well, and an object has one entry" in done.err


async def test_an_object_nested_too_deep_does_not_hide_its_neighbours(tmp_path: Path) -> None:
    metadata = '{"name":"%s","namespace":"default","uid":"u-%s","resourceVersion":"7"}'
    nested = '{"a":' * 9_900 + "1" + "}" * 9_900
    deep = '{"metadata":' + metadata % ("deep", "deep") + ',"data":' + nested + "}"
    flat = '{"metadata":' + metadata % ("flat", "flat") + "}"
    page = (
        '{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[' + f"{deep},{flat}]}}"
    )
    async with Playground() as cluster:
        cluster.misbehave.reply(page.encode(), "configmaps", verbs=("list",))
        async with running(a_config(tmp_path, cluster.url, watch={"watch_list": "never"}), 2):
            pass

    deltas = (tmp_path / "deltas.ndjson").read_bytes()
    assert [b"configmaps/deep" in line for line in deltas.splitlines()] == [True, False]
