"""``kubedelta at`` and ``kubedelta restore``: what they print, what they serve, and what they refuse."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shutil import which
from typing import Any

import httpx
import pytest
import yaml
from msgspec.structs import replace

from bridge.cli.exits import Exit
from bridge.model.change import Evidence, Op
from bridge.model.record import Delta, Gap
from bridge.model.resource import Resource
from bridge.playground import manifests
from tests.bridge.cli.conftest import BuildHistory, Command
from tests.bridge.playground.conftest import watching
from tests.documents.pages import read
from tests.kit.deadlines import BUSY
from tests.kit.open_files import open_files
from tests.kit.records import DEPLOYMENTS, PODS, a_delta, a_gap

CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False)
WIDGETS = Resource("example.com", "v1", "widgets", "Widget", True)
MAPS = Resource("", "v1", "configmaps", "ConfigMap", True)
DIGEST = "hmac-sha256:0123abcd:" + "0" * 64


def _delta(
    sequence: int,
    resource: Resource,
    manifest: dict[str, Any],
    op: Op = Op.UPDATED,
    evidence: Evidence = Evidence.WATCHED,
) -> Delta:
    metadata = manifest["metadata"]
    key = "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))
    more = {"creationTimestamp": "2026-11-21T08:00:00Z", "uid": f"uid-{key}", "resourceVersion": str(1000 + sequence)}
    metadata.update(more)
    made = a_delta(sequence, resource=resource, key=key, op=op, uid=more["uid"], evidence=evidence)
    return replace(made, body=json.dumps(manifest).encode(), time=f"2026-11-21T09:{sequence:02}:00.000000Z")


def _pod(sequence: int, name: str, namespace: str = "shop", phase: str = "Running", op: Op = Op.UPDATED) -> Delta:
    return _delta(sequence, PODS, manifests.pod(name, namespace=namespace, node="a", phase=phase), op)


def _web(sequence: int, replicas: int, evidence: Evidence = Evidence.WATCHED) -> Delta:
    made = manifests.deployment("web", namespace="shop", replicas=replicas)
    owner = {"apiVersion": "example.com/v1", "kind": "App", "name": "shop", "uid": "u"}
    made["metadata"] |= {"ownerReferences": [owner], "annotations": {"note": "\u202ered"}}
    return _delta(sequence, DEPLOYMENTS, {**made, "status": {"readyReplicas": 1}}, evidence=evidence)


def _definition() -> dict[str, Any]:
    made = manifests.definition()
    column = {"name": "Size", "type": "integer", "jsonPath": ".spec.size"}
    made["spec"]["versions"][0]["additionalPrinterColumns"] = [column]
    return made


RECORDS: list[Delta | Gap] = [
    _pod(1, "web-1", op=Op.ADDED),
    _pod(2, "web-2", op=Op.ADDED),
    _pod(3, "api-1", "payments", "Pending", Op.ADDED),
    _web(4, 2),
    _delta(5, CRDS, _definition()),
    _delta(6, WIDGETS, manifests.custom("w", namespace="shop", spec={"size": 7})),
    _delta(7, MAPS, manifests.config_map("settings", {"password": DIGEST, "host": "db"}, namespace="shop")),
    _pod(10, "web-2", phase="Failed"),
    _pod(20, "web-1", op=Op.DELETED),
    _pod(30, "web-3", op=Op.ADDED),
    _web(40, 5, Evidence.RELISTED),
    replace(a_gap(41, 42), time="2026-11-21T09:42:00.000000Z"),
]


@pytest.fixture
async def history(tmp_path: Path, build_history: BuildHistory) -> Path:
    await build_history(RECORDS)
    return tmp_path / "k8s.db"


EARLY, LATE = "2026-11-21T09:08Z", "2026-11-21T09:35Z"

# ── get ──────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("history")
async def test_objects_are_shown_as_they_were(command: Command) -> None:
    early, late = await command("at", EARLY, "get", "pods", "-n", "shop"), await command("at", LATE, "get", "po")

    assert early.code == Exit.OK
    assert early.out.splitlines() == [
        "NAME   READY  STATUS   RESTARTS  AGE",
        "web-1  1/1    Running  0         68m",
        "web-2  1/1    Running  0         68m",
    ]
    assert late.out.splitlines() == [
        "NAMESPACE  NAME   READY  STATUS             RESTARTS  AGE",
        "payments   api-1  0/1    ContainerCreating  0         95m",
        "shop       web-2  0/1    ContainerCreating  0         95m",
        "shop       web-3  1/1    Running            0         95m",
    ]
    assert "as the bridge saw it at 2026-11-21T09:35:00" in late.err


async def test_an_object_that_cannot_be_read_hides_no_other(build_history: BuildHistory, command: Command) -> None:
    bodies = [b"5", b'{"metadata":5}', b'{"metadata":{"name":"a"},"data":1e999}', b'"\xff"']
    odd = [
        a_delta(2 + number, resource=MAPS, key=f"shop/odd-{number}", evidence=Evidence.LISTED, body=body)
        for number, body in enumerate(bodies)
    ]
    await build_history([_delta(1, MAPS, manifests.config_map("web", {"a": "1"}, namespace="shop")), *odd])

    for form in ([], ["-o", "wide"], ["-o", "yaml"], ["-o", "json"], ["-o", "name"]):
        ended = await command("at", "now", "get", "cm", *form)
        assert ended.code == Exit.OK
        assert "web" in ended.out
    for number in range(len(bodies)):
        for form in ([], ["-o", "yaml"], ["-o", "json"], ["-o", "diff"]):
            assert (await command("history", f"cm/odd-{number}", *form)).code == Exit.OK


async def test_a_name_is_one_line(build_history: BuildHistory, command: Command) -> None:
    """A role may have any name."""
    roles = Resource("rbac.authorization.k8s.io", "v1", "roles", "Role", True)
    role = {"kind": "Role", "metadata": {"name": "a\nb"}, "note": f"x\ny {DIGEST}"}
    await build_history([a_delta(1, resource=roles, key="shop/a\nb", body=json.dumps(role).encode())])

    named = await command("at", "now", "get", "roles", "-o", "name")
    assert named.out.splitlines() == ["role.rbac.authorization.k8s.io/a b"]
    refused = await command("restore", "roles", "a\nb", "--at", "now")
    assert [line for line in refused.err.splitlines() if line.startswith(("b", "y"))] == []


@pytest.mark.usefixtures("history")
async def test_a_version_is_a_point_too(command: Command) -> None:
    for words in (["--version", "pods=1015"], ["pods=1015"]):
        ended = await command("at", *words, "get", "pods", "-n", "shop", "-o", "name")
        assert ended.out.splitlines() == ["pod/web-1", "pod/web-2"]
        assert ended.err.startswith("exact for pods")


@pytest.mark.usefixtures("history")
async def test_ages_at_a_version_are_those_of_the_time_when_it_was_seen(command: Command) -> None:
    ended = await command("at", "pods=1020", "get", "pods", "-n", "shop")  # The delete of web-1.
    assert [line.split()[-1] for line in ended.out.splitlines()] == ["AGE", "80m"]


@pytest.mark.usefixtures("history")
async def test_the_columns_are_those_of_the_kind_and_of_the_definition_then(command: Command) -> None:
    assert (await command("at", EARLY, "get", "deploy", "-n", "shop")).out.splitlines() == [
        "NAME  READY  UP-TO-DATE  AVAILABLE  AGE",
        "web   1/2    0           0          68m",
    ]
    wide = (await command("at", EARLY, "get", "deploy/web", "-n", "shop", "-o", "wide")).out
    assert wide.splitlines()[1].split()[5:] == ["app", "registry.example/web:1.4.2", "app=web"]
    assert (await command("at", EARLY, "get", "widgets", "-n", "shop")).out.splitlines() == ["NAME  SIZE", "w     7"]


@pytest.mark.usefixtures("history")
async def test_objects_are_printed_as_yaml_and_json(command: Command) -> None:
    one = await command("at", EARLY, "get", "pods", "web-1", "-n", "shop", "-o", "yaml")
    assert yaml.safe_load(one.out)["metadata"]["uid"] == "uid-shop/web-1"
    assert json.loads((await command("at", EARLY, "get", "po/web-1", "-o", "json")).out) == yaml.safe_load(one.out)
    for form, parse in (("yaml", yaml.safe_load), ("json", json.loads)):
        for resource, names in (("pods", ["api-1", "web-1", "web-2"]), ("deploy", ["web"])):
            printed = parse((await command("at", EARLY, "get", resource, "-o", form)).out)
            assert (printed["kind"], [each["metadata"]["name"] for each in printed["items"]]) == ("List", names)
        empty = parse((await command("at", EARLY, "get", "pods", "-n", "nowhere", "-o", form)).out)
        assert empty["items"] == []


async def test_a_text_with_empty_lines_at_its_end_ends_no_list(build_history: BuildHistory, command: Command) -> None:
    texts = {"a": "x\n\n\n", "b": "\n", "c": "y"}
    await build_history(
        [
            _delta(number, MAPS, {"metadata": {"name": name, "namespace": "shop"}, "data": {"text": text}})
            for number, (name, text) in enumerate(texts.items(), 1)
        ]
    )

    printed = yaml.safe_load((await command("at", "now", "get", "cm", "-o", "yaml")).out)
    assert [each["data"]["text"] for each in printed["items"]] == [*texts.values()]


@pytest.mark.usefixtures("history")
async def test_several_types_are_printed_as_kubectl_prints_them(command: Command) -> None:
    ended = await command("at", EARLY, "get", "deploy,po,crd", "-n", "shop")
    assert ended.out.splitlines() == [
        "NAME                 READY  UP-TO-DATE  AVAILABLE  AGE",
        "deployment.apps/web  1/2    0           0          68m",
        "",
        "NAME       READY  STATUS   RESTARTS  AGE",
        "pod/web-1  1/1    Running  0         68m",
        "pod/web-2  1/1    Running  0         68m",
        "",
        "NAME                                                               CREATED AT",
        "customresourcedefinition.apiextensions.k8s.io/widgets.example.com  2026-11-21T08:00:00Z",
    ]
    named = await command("at", EARLY, "get", "po/web-1", "deploy/web", "-n", "shop", "-o", "name")
    assert named.out == "pod/web-1\ndeployment.apps/web\n"


@pytest.mark.usefixtures("history")
@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["pods", "-l", "app=web", "-n", "shop"], ["pod/web-1", "pod/web-2"]),
        (["pods", "--selector", "app!=web"], []),
        (["pods", "--field-selector", "status.phase=Pending"], ["pod/api-1"]),
        (["pods,deploy", "--field-selector", "metadata.name=web"], ["deployment.apps/web"]),
        (["pods", "-l", "app=none"], []),
    ],
)
async def test_selectors_choose_as_for_kubectl(command: Command, words: list[str], names: list[str]) -> None:
    ended = await command("at", EARLY, "get", *words, "-o", "name")
    assert (ended.code, ended.out.splitlines()) == (Exit.OK, names)


@pytest.mark.usefixtures("history")
@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["pods", "web-1", "-l", "app=web"], "either names or a selector"),
        (["deploy", "--field-selector", "spec.replicas=1"], '"spec.replicas" is not a known field selector: only'),
        (["pods", "-l", "a in b"], "found 'b', expected '('"),
    ],
)
async def test_a_wrong_selector_is_explained(command: Command, words: list[str], reason: str) -> None:
    ended = await command("at", EARLY, "get", *words)
    assert (ended.code, ended.out) == (Exit.USAGE, "")
    assert reason in ended.err


@pytest.mark.usefixtures("history")
async def test_what_was_not_there_is_said(command: Command) -> None:
    never = await command("at", LATE, "get", "pods", "web-9", "-n", "shop")
    assert (never.code, "the file has no pods web-9 in namespace shop; there is web-" in never.err) == (Exit.NO, True)
    missing = await command("at", LATE, "get", "pods", "web-1", "web-2", "-n", "shop", "-o", "name")
    assert (missing.code, missing.out) == (Exit.NO, "pod/web-2\n")
    assert 'pods "web-1" did not exist then' in missing.err
    none = await command("at", EARLY, "get", "pods", "-n", "nowhere")
    assert (none.code, none.out) == (Exit.OK, "")
    assert "No resources found in nowhere namespace." in none.err
    unknown = await command("at", EARLY, "get", "nodes")
    assert unknown.code == Exit.NO
    assert "it has: configmaps, customresourcedefinitions.apiextensions.k8s.io, deployments.apps, pods" in unknown.err


async def test_of_two_clusters_the_command_says_what_to_do(
    command: Command, tmp_path: Path, build_history: BuildHistory
) -> None:
    await build_history(RECORDS[:2])
    file = tmp_path / "deltas.ndjson"
    file.write_text(file.read_text() + file.read_text().replace("prod", "west"))
    await command("history", "build", "--from", str(file))

    for words in (["at", LATE, "get", "pods"], ["restore", "po/web-1", "--at", LATE]):
        refused = await command(*words)
        assert refused.code == Exit.NO
        assert "the file has prod, west: build a history from a sink that has one of them" in refused.err
    assert (await command("history", "po/web-1")).code == Exit.OK


@pytest.mark.usefixtures("history")
async def test_objects_behind_a_gap_are_uncertain(command: Command) -> None:
    ended = await command("at", "now", "get", "pods", "-o", "name")
    assert len(ended.out.splitlines()) == 3
    assert "uncertain: 3 objects: 2 records never came" in ended.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "name one point"),
        (["get", "pods"], "name one point"),
        (["10m"], "get TYPE"),
        (["10m", "get"], "get TYPE"),
        (["10m", "pods"], "get TYPE"),
        (["10m", "get", "pods", "--version", "pods=7"], "name one point"),
        (["10m", "get", "pods", "--serve"], "--serve has no get"),
        (["10m", "get", "pods", "--play", "2x"], "--play is for --serve"),
        (["10m", "--serve", "--play", "0x"], "not a speed"),
        (["soon", "get", "pods"], "is not a point in the past"),
    ],
)
@pytest.mark.usefixtures("history")
async def test_a_wrong_command_line_names_what_is_right(command: Command, words: list[str], said: str) -> None:
    ended = await command("at", *words)
    assert ended.code == Exit.USAGE
    assert said in ended.err


# ── restore ──────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("history")
async def test_a_manifest_is_restored(command: Command) -> None:
    ended = await command("restore", "deploy/web", "-n", "shop", "--at", "2026-11-21T09:05Z")
    assert ended.code == Exit.UNCERTAIN  # Nobody saw the next step.
    made = yaml.safe_load(ended.out)
    assert made["metadata"] == {
        "name": "web",
        "namespace": "shop",
        "labels": {"app": "web"},
        "annotations": {"note": "\u202ered"},
    }
    assert (made["spec"]["replicas"], "status" in made) == (2, False)
    assert ended.out.splitlines()[:3] == [
        "# deployments.apps shop/web, version 1004, seen at 2026-11-21T09:04:00.000Z",
        "# uncertain: the bridge did not see the next change, which it found later by a comparison",
        "# left out: its owner App shop",
    ]
    assert ended.out.isascii()


@pytest.mark.usefixtures("history")
async def test_the_exit_code_tells_whether_states_may_be_missing(command: Command) -> None:
    codes = {
        (target, point): (await command("restore", target, "--at", point)).code
        for target, point in (("po/web-2", EARLY), ("deploy/web", LATE), ("deploy/web", "now"), ("po/web-2", "now"))
    }
    assert list(codes.values()) == [Exit.OK, Exit.UNCERTAIN, Exit.UNCERTAIN, Exit.UNCERTAIN]


async def test_an_object_that_was_seen_to_come_is_certain_though_nobody_saw_the_end_of_its_forerunner(
    command: Command, build_history: BuildHistory
) -> None:
    await build_history([_pod(1, "web-1", op=Op.ADDED), replace(_pod(2, "web-1", op=Op.ADDED), uid="another")])

    ended = await command("restore", "po/web-1", "--at", "now")

    assert (ended.code, "# the bridge did not see" in ended.out) == (Exit.OK, False)


@pytest.mark.usefixtures("history")
async def test_what_was_redacted_is_not_restored(command: Command) -> None:
    refused = await command("restore", "cm/settings", "--at", EARLY)
    assert (refused.code, refused.out) == (Exit.NO, "")
    assert f"data.password: {DIGEST}" in refused.err
    told = await command("restore", "cm", "settings", "--at", EARLY, "--with-placeholders")
    assert told.code == Exit.OK
    assert f"  password: # redacted: {DIGEST}" in told.out.splitlines()
    assert yaml.safe_load(told.out)["data"] == {"password": None, "host": "db"}


@pytest.mark.usefixtures("history")
async def test_what_was_not_there_is_not_restored(command: Command) -> None:
    never = await command("restore", "po/web-9", "--at", LATE)
    assert (never.code, "the file has no pods web-9; there is web-" in never.err) == (Exit.NO, True)
    gone = await command("restore", "po/web-1", "po/web-2", "--at", LATE)
    assert (gone.code, gone.out) == (Exit.NO, "")
    assert 'pods "web-1" did not exist then; kubedelta history po/web-1 has all' in gone.err


@pytest.mark.usefixtures("history")
async def test_several_objects_are_restored_as_documents_of_one_file(command: Command) -> None:
    ended = await command("restore", "po/web-2", "deploy/web", "-n", "shop", "--at", EARLY)
    assert [made["kind"] for made in yaml.safe_load_all(ended.out)] == ["Pod", "Deployment"]
    assert ended.code == Exit.UNCERTAIN


# ── serve ────────────────────────────────────────────────────────────────────


@contextmanager
def _served(*words: str) -> Iterator[tuple[Path, subprocess.Popen[str]]]:
    """The kubeconfig that the command names, while it serves."""
    command = [sys.executable, "-m", "bridge", "at", *words, "--serve"]
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("export KUBECONFIG=")
            yield Path(line.strip().partition("=")[2]), process
        finally:
            process.terminate()
            process.wait(30 * BUSY)


def _client(kubeconfig: Path) -> httpx.AsyncClient:
    found = json.loads(kubeconfig.read_text())
    cluster, token = found["clusters"][0]["cluster"], found["users"][0]["user"]["token"]
    trusted = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    return httpx.AsyncClient(
        base_url=cluster["server"],
        verify=trusted,
        headers={"Authorization": f"Bearer {token}"},
        timeout=30 * BUSY,
        trust_env=False,
    )


async def test_the_cluster_is_served_until_a_signal(history: Path) -> None:
    with _served(EARLY, "-n", "shop", "--db", str(history)) as (kubeconfig, process):
        assert (kubeconfig.stat().st_mode & 0o777, kubeconfig.parent.stat().st_mode & 0o777) == (0o600, 0o700)
        async with _client(kubeconfig) as http:
            pods = (await http.get("/api/v1/pods")).json()
            assert [each["metadata"]["name"] for each in pods["items"]] == ["web-1", "web-2"]
            assert (await http.delete("/api/v1/namespaces/shop/pods/web-1")).status_code == 405
        assert str(history) not in open_files(process.pid)  # A build may go on meanwhile, and trim the file.
        process.send_signal(signal.SIGINT)
        assert process.wait(30 * BUSY) == Exit.OK
        assert not kubeconfig.parent.exists()


@pytest.mark.usefixtures("history")
async def test_more_than_fits_into_memory_is_not_served(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridge.cli.at._MOST_BYTES", 4096)
    ended = await command("at", EARLY, "--serve")
    assert (ended.code, ended.out) == (Exit.NO, "")
    assert "the objects of that time are more than 4.0 KiB: choose a namespace with -n" in ended.err


async def test_what_happened_next_is_played(history: Path) -> None:
    with _served(EARLY, "--play", "600x", "--db", str(history)) as (kubeconfig, _):
        # From a version: a busy machine may let the time pass before the watch is open.
        path = "/api/v1/namespaces/shop/pods"
        async with _client(kubeconfig) as http, watching(http, path, resourceVersion=1003) as stream:
            seen = [await stream.sent(60 * BUSY) for _ in range(3)]
            assert seen == [("MODIFIED", "web-2"), ("DELETED", "web-1"), ("ADDED", "web-3")]


def _kubectl(kubeconfig: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = ["kubectl", "--kubeconfig", str(kubeconfig), "--cache-dir", str(kubeconfig.parent / "cache"), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60 * BUSY, check=False)


@pytest.mark.skipif(which("kubectl") is None, reason="kubectl is not on this machine")
async def test_kubectl_prints_what_the_command_prints(history: Path, command: Command) -> None:
    with _served(EARLY, "--db", str(history)) as (kubeconfig, _):
        for words in (
            ["get", "pods", "-n", "shop"],
            ["get", "po", "-n", "payments", "-o", "wide"],
            ["get", "deploy", "-n", "shop"],
            ["get", "widgets", "-n", "shop"],
            ["get", "crd"],
        ):
            theirs = _kubectl(kubeconfig, *words)
            assert theirs.returncode == 0, theirs.stderr
            ours = await command("at", EARLY, *words)
            assert [line.split() for line in theirs.stdout.splitlines()] == [
                line.split() for line in ours.out.splitlines()
            ]
        one = _kubectl(kubeconfig, "get", "deploy/web", "-n", "shop", "-o", "json")
        assert json.loads(one.stdout)["metadata"]["resourceVersion"] == "1004"
        described = _kubectl(kubeconfig, "describe", "pod", "web-1", "-n", "shop")
        assert described.returncode == 0, described.stderr
        refused = _kubectl(kubeconfig, "delete", "pod", "web-1", "-n", "shop")
        assert refused.returncode == 1
        assert "the server does not allow this method on the requested resource" in refused.stderr


@pytest.mark.skipif(which("kubectl") is None, reason="kubectl is not on this machine")
async def test_kubectl_takes_what_is_restored(history: Path, command: Command) -> None:
    restored = await command("restore", "deploy/web", "--at", EARLY)
    with _served(EARLY, "--db", str(history)) as (kubeconfig, _):
        (kubeconfig.parent / "web.yaml").write_text(restored.out)
        words = ("create", "--dry-run=client", "-o", "json", "-f", str(kubeconfig.parent / "web.yaml"))
        read = _kubectl(kubeconfig, *words, "--validate=false")
        assert read.returncode == 0, read.stderr
        made = json.loads(read.stdout)
        assert (made["metadata"]["annotations"]["note"], made["spec"]["replicas"]) == ("\u202ered", 2)


# ── The page ─────────────────────────────────────────────────────────────────


async def test_the_commands_of_the_page_do_what_it_says(command: Command, build_history: BuildHistory) -> None:
    """On a history that begins an hour and a half ago."""
    now = datetime.now(UTC)
    times = [now - timedelta(minutes=90), now - timedelta(minutes=90), now - timedelta(minutes=1)]
    records = [_pod(1, "web-1", op=Op.ADDED), _web(2, 2), _pod(3, "web-1", op=Op.DELETED)]
    told = [replace(record, time=f"{time:%Y-%m-%dT%H:%M:%S.%f}Z") for record, time in zip(records, times, strict=True)]
    await build_history(told)

    page = read("docs/history.md").replace("2026-11-24T10:00Z", f"{now - timedelta(hours=1):%Y-%m-%dT%H:%MZ}")
    lines = re.findall(r"^    kubedelta ((?:at|restore) .*)$", page.replace("184467", "1001"), re.MULTILINE)
    typed = [line.partition(" > ")[0].split() for line in lines if "--serve" not in line]
    printed = [await command(*words) for words in typed]

    assert [ended.code for ended in printed] == [Exit.OK] * 4, [ended.err for ended in printed]
    by_name, as_yaml, by_version, restored = (ended.out for ended in printed)
    assert by_name.splitlines()[1].startswith("web-1  1/1    Running")
    assert by_version.splitlines()[1].startswith("shop       web-1  1/1    Running")
    assert yaml.safe_load(as_yaml)["metadata"]["uid"] == "uid-shop/web"
    assert "uid" not in yaml.safe_load(restored)["metadata"]
