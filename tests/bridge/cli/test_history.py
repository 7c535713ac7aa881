"""``kubedelta history`` and ``kubedelta diff``: what they print, and what they say of what they cannot answer."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import apsw
import pytest
import yaml
from msgspec.structs import replace

from bridge.cli.exits import Exit
from bridge.history.actors.audit import BEFORE_ANNOTATION, UID_ANNOTATION
from bridge.model.change import Evidence, Op
from bridge.model.record import Delta, Gap
from bridge.outbox import Retention
from tests.bridge.cli.conftest import BuildHistory, Command
from tests.bridge.history.actors.audit_events import answered, audit_event, line
from tests.bridge.outbox.opened import opened
from tests.kit.commands import in_a_process
from tests.kit.informed import Informed
from tests.kit.records import CLUSTER_ROLES, DEPLOYMENTS, a_delta, a_gap
from tests.sinks.file.test_reading_for_verify import write


def a_deployment(sequence: int, replicas: int, op: Op = Op.UPDATED, evidence: Evidence = Evidence.WATCHED) -> Delta:
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", "annotations": {"note": "\u202ered"}},
        "spec": {"replicas": replicas},
    }
    made = a_delta(
        sequence,
        resource=DEPLOYMENTS,
        key="shop/web",
        op=op,
        uid="u1",
        evidence=evidence,
        body=json.dumps(body, ensure_ascii=False).encode(),
    )
    return replace(made, time=f"2026-11-21T09:00:{sequence:02}.000000Z")


RECORDS: list[Delta | Gap] = [
    a_deployment(1, 1, Op.ADDED, Evidence.LISTED),
    a_deployment(2, 3),
    replace(a_gap(3, 4), time="2026-11-21T09:00:04.000000Z"),
    a_deployment(5, 4),
    replace(a_delta(6, resource=CLUSTER_ROLES, key="admin"), time="2026-11-21T09:00:06.000000Z"),
    a_deployment(7, 4, Op.DELETED),
]


@pytest.fixture
async def history(tmp_path: Path, build_history: BuildHistory) -> Path:
    path = tmp_path / "k8s.db"
    assert (await build_history(RECORDS)).out.startswith(f"{path}: 5 steps of 2 objects in ")
    return path


@pytest.mark.usefixtures("history")
async def test_a_history_has_a_line_for_each_step_and_for_what_is_missing(command: Command) -> None:
    ended = await command("history", "deploy/web", "-n", "shop")

    assert ended.code == Exit.OK
    assert ended.out.splitlines() == [
        "deployments.apps shop/web uid u1; told since 2026-11-21T09:00:01.000Z with all objects of that time",
        "2026-11-21T09:00:01.000Z + added   @1001 listed",
        "2026-11-21T09:00:02.000Z ~ updated @1002 spec.replicas",
        "! steps may be missing: 2 records never came: the outbox was full",
        "2026-11-21T09:00:05.000Z ~ updated @1005 spec.replicas",
        "2026-11-21T09:00:07.000Z - deleted @1007",
    ]


@pytest.mark.usefixtures("history")
async def test_a_history_tells_who_made_each_step(command: Command, tmp_path: Path) -> None:
    exact = audit_event(**answered("1002", uid="u1"), impersonatedUser={"username": "deployer"})
    behind_a_gap = audit_event(auditID="2", annotations={UID_ANNOTATION: "u1", BEFORE_ANNOTATION: "1002"})
    gone = audit_event(
        "delete",
        auditID="3",
        user={"username": "grace"},
        requestReceivedTimestamp="2026-11-21T09:00:06.900000Z",
        stageTimestamp="2026-11-21T09:00:07.000000Z",
    )
    (tmp_path / "audit.log").write_bytes(b"".join(map(line, (exact, behind_a_gap, gone))))
    actors = str(tmp_path / "actors.jsonl")
    collected = in_a_process("actors", str(tmp_path / "audit.log"), "--to", actors, "--cluster", "prod", "--no-follow")
    assert collected.code == Exit.OK, collected.err

    ended = await command("history", "deploy/web", "-n", "shop", "--actors", actors)
    assert ended.out.splitlines()[1:] == [
        "2026-11-21T09:00:01.000Z + added   @1001 listed",
        "2026-11-21T09:00:02.000Z ~ updated @1002 spec.replicas user ada as deployer",
        "! steps may be missing: 2 records never came: the outbox was full",
        "2026-11-21T09:00:05.000Z ~ updated @1005 spec.replicas",
        "2026-11-21T09:00:07.000Z - deleted @1007 likely user grace",
    ]
    as_json = await command("history", "deploy/web", "-o", "json", "--actors", actors)
    told = [json.loads(each) for each in as_json.out.splitlines()]
    assert [each["actor"] and each["actor"]["join"] for each in told] == [None, "version", None, "window"]
    refused = await command("history", "deploy/web", "--actors", str(tmp_path / "audit.log"))
    assert (refused.code, "is no file of actors" in refused.err) == (Exit.CONFIG, True)
    in_a_process("actors", str(tmp_path / "audit.log"), "--to", f"{actors}.2", "--no-follow")
    refused = await command("history", "deploy/web", "--actors", f"{actors}.2")
    assert refused.code == Exit.CONFIG
    assert "has actors of the cluster default, and none of prod: see --cluster of actors" in refused.err


@pytest.mark.usefixtures("history")
async def test_the_word_show_may_be_said_and_names_may_be_apart(command: Command) -> None:
    first = await command("history", "deploy/web")

    assert (await command("history", "show", "deployments.apps", "web", "-A")).out == first.out
    assert (await command("history", "-n", "shop", "Deployment/web")).out == first.out


@pytest.mark.usefixtures("history")
async def test_steps_are_printed_as_diffs_as_yaml_and_as_json(command: Command) -> None:
    as_diff = (await command("history", "deploy/web", "-o", "diff")).out
    as_yaml = (await command("history", "deploy/web", "-o", "yaml")).out
    as_json = (await command("history", "deploy/web", "-o", "json")).out

    assert "-  replicas: 1\n+  replicas: 3\n" in as_diff
    assert [each["spec"]["replicas"] for each in yaml.safe_load_all(as_yaml)] == [1, 3, 4, 4]
    steps = [json.loads(line) for line in as_json.splitlines()]
    assert [step["object"]["spec"]["replicas"] for step in steps] == [1, 3, 4, 4]
    assert [step["changed"] for step in steps] == [None, ["spec.replicas"], ["spec.replicas"], []]
    assert steps[0]["object"]["metadata"]["annotations"] == {"note": "\u202ered"}
    assert "\u202e" not in as_diff + as_yaml + as_json


@pytest.mark.usefixtures("history")
async def test_a_diff_has_the_objects_that_differ_and_says_how_exact_the_points_are(command: Command) -> None:
    points = "2026-11-21T09:00:02Z", "2026-11-21T09:00:06Z"

    ended = await command("diff", *points)

    assert ended.code == Exit.NO
    assert ended.out.splitlines() == [
        "+ clusterroles.rbac.authorization.k8s.io admin @1006",
        "~ deployments.apps shop/web @1002 → @1005 spec.replicas",
    ]
    assert ended.err.splitlines()[0] == (
        "2026-11-21T09:00:02Z: as the bridge saw it at 2026-11-21T09:00:02.000Z: a change that it saw later may have "
        "been made before"
    )
    assert (await command("diff", *points, "deploy/web", "-n", "shop", "-o", "diff")).out.endswith("+  replicas: 4\n")
    [pair] = (await command("diff", *points, "deploy", "-o", "json")).out.splitlines()
    assert json.loads(pair)["after"]["object"]["spec"] == {"replicas": 4}


@pytest.mark.usefixtures("history")
async def test_an_uncertain_state_is_marked(command: Command) -> None:
    ended = await command("diff", "2026-11-21T09:00:04Z", "now", "deploy/web")

    assert ended.out == ("- deployments.apps shop/web @1002 (uncertain: 2 records never came: the outbox was full)\n")


@pytest.mark.usefixtures("history")
async def test_points_without_a_difference_end_with_0(command: Command) -> None:
    assert (await command("diff", "deploy=1005", "now", "clusterroles")).code == Exit.NO
    assert (await command("diff", "2026-11-21T09:00:06Z", "now", "clusterroles")).code == Exit.OK


@pytest.mark.usefixtures("history")
async def test_several_resources_and_objects_are_named_as_for_kubectl(command: Command) -> None:
    both = ["clusterrole/admin", "deploy/web"]
    points = "2026-11-21T09:00:02Z", "2026-11-21T09:00:06Z"
    everything = (await command("diff", *points)).out

    for words in (both, ["clusterroles,deployments"], [*both, "-n", "shop"]):
        assert (await command("diff", *points, *words)).out == everything
    titles = [line for line in (await command("history", *both)).out.splitlines() if " uid " in line]
    assert [title.split()[:2] for title in titles] == [
        ["clusterroles.rbac.authorization.k8s.io", "admin"],
        ["deployments.apps", "shop/web"],
    ]


@pytest.mark.usefixtures("history")
@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["diff", "deploy=1005", "now", "deploy/wep"], "the file has no deployments.apps wep; there is web\n"),
        (["diff", "deploy=1005", "now", "-n", "prod"], "no object in namespace prod; it has some in shop\n"),
        (["history", "deploy/wep"], "the file has no deployments.apps wep; there is web\n"),
        (["history", "deploy/web", "-n", "prod"], "deployments.apps web in namespace prod; it has one in shop\n"),
        (["history", "po/web"], "no resource po; it has: clusterroles.rbac.authorization.k8s.io, deployments.apps\n"),
        (["diff", "2026-11-21T08:00:00Z", "now"], "begins at 2026-11-21T09:00:01.000Z, with the first record"),
        (["history", "deploy/web", "--db", "/"], "cannot open /: it is no file, or you may not read it"),
        (["history", "deploy/web", "--db", "/proc/none/k8s.db"], "there is no history /proc/none/k8s.db"),
        (
            ["history", "build", "--from", __file__, "--to", "/proc/none/k8s.db"],
            "cannot make /proc/none/k8s.db: No such file or directory",
        ),
        (
            ["history", "deploy/web", "--db", "none.db"],
            "there is no history none.db: make one with kubedelta history build",
        ),
    ],
)
async def test_what_cannot_be_answered_names_what_can_be_asked(command: Command, words: list[str], reason: str) -> None:
    ended = await command(*words)

    assert ended.code == Exit.NO
    assert reason in ended.err


async def test_a_time_without_a_zone_says_how_it_is_written(command: Command) -> None:
    ended = await command("diff", "2026-11-21T09:00", "now")
    assert ended.code == Exit.USAGE
    assert "'2026-11-21T09:00' has no zone; allowed: 2026-11-21T09:00Z, or with an offset" in ended.err


@pytest.mark.parametrize("words", [["history", "web"], ["history", "deploy/web", "b"], ["diff", "yesterday", "now"]])
async def test_a_wrong_name_or_point_is_a_wrong_command_line(command: Command, words: list[str]) -> None:
    ended = await command(*words)

    assert ended.code == Exit.USAGE
    assert "such as" in ended.err


async def test_a_build_goes_on_behind_what_it_has_and_counts_records_of_others(
    command: Command, tmp_path: Path, history: Path
) -> None:
    words = "history", "build", "--from", str(tmp_path / "deltas.ndjson"), "--to", str(history)
    again = await command(*words)
    await write(tmp_path / "deltas.ndjson", [a_deployment(8, 1, Op.ADDED)])
    with (tmp_path / "deltas.ndjson").open("a") as file:
        file.write("{}\n")

    ended = await command(*words)

    assert again.err == ""
    assert again.out.startswith(f"{history}: 5 steps of 2 objects in ")
    assert again.out.endswith("; newest record 2026-11-21T09:00:07.000Z\n")
    assert ended.out.startswith(f"{history}: 6 steps of 2 objects in ")
    assert ended.err == "1 record of another program, left out\n"


async def test_a_build_of_nothing_says_so_and_binds_the_file_to_nothing(
    command: Command, tmp_path: Path, build_history: BuildHistory
) -> None:
    (tmp_path / "other").write_text('{"of": "another program"}\n' * 9)
    ended = await command("history", "build", "--from", str(tmp_path / "other"), "--to", str(tmp_path / "k8s.db"))
    assert (ended.code, ended.out.endswith("; no record yet\n")) == (Exit.OK, True)

    assert ": 5 steps of 2 objects in " in (await build_history(RECORDS)).out


async def test_a_part_that_was_removed_before_it_was_read_is_a_gap(command: Command, tmp_path: Path) -> None:
    file, path = tmp_path / "deltas.ndjson", tmp_path / "k8s.db"
    await write(file, RECORDS[:2])
    words = "history", "build", "--from", str(file), "--to", str(path)
    await command(*words)
    file.unlink()
    await write(file, [a_deployment(9, 7)])

    await command(*words)

    ended = await command("history", "deploy/web", "--db", str(path))
    assert "! steps may be missing: records never came: they were removed before they were read" in ended.out


async def test_a_stream_that_is_not_there_is_named_with_what_there_is(command: Command, tmp_path: Path) -> None:
    config = tmp_path / "kubedelta.yaml"
    content = {
        "cluster": {"name": "test", "server": "http://127.0.0.1:1"},
        "resources": ["pods"],
        "state": {"directory": str(tmp_path / "state")},
        "sinks": {
            "audit": {"type": "file", "path": str(tmp_path / "x")},
            "hook": {"type": "webhook", "url": "http://127.0.0.1:1"},
        },
    }
    config.write_text(yaml.safe_dump(content))

    nowhere = await command("history", "build", "--from", "nowhere")
    unknown = await command("history", "build", "--from", "aduit", "-c", str(config))
    unread = await command("history", "build", "--from", "hook", "-c", str(config))

    assert (nowhere.code, unknown.code, unread.code) == (Exit.USAGE, Exit.NO, Exit.NO)
    assert "there is no file nowhere; of a sink, name the configuration (-c)" in nowhere.err
    assert "the sinks are audit, hook" in unknown.err
    assert "a sink of type webhook cannot be read back" in unread.err


async def test_a_history_is_built_of_the_log_that_a_bridge_retains(command: Command, tmp_path: Path) -> None:
    (state := tmp_path / "state").mkdir()
    async with opened(state, retention=Retention(retain_age=1e6)) as outbox:
        await (await Informed().begin(outbox)).exports(outbox, "added shop/a", "updated shop/a")
    path = tmp_path / "k8s.db"
    ended = await command("history", "build", "--from", str(state), "--to", str(path))
    assert (ended.code, ended.out.startswith(f"{path}: 2 steps of 1 object in ")) == (Exit.OK, True), ended.err
    told = await command("history", "po/a", "-n", "shop", "--db", str(path))
    assert [line.split()[2] for line in told.out.splitlines()[1:]] == ["added", "updated"]
    nothing = await command("history", "build", "--from", str(tmp_path), "--to", str(tmp_path / "other.db"))
    assert (nothing.code, "no bridge has run in" in nothing.err) == (Exit.UNAVAILABLE, True)


@pytest.mark.parametrize(
    "harm",
    [
        "UPDATE objects SET state = x'00'",
        "UPDATE steps SET back = x'28b52ffd' WHERE back IS NOT NULL",
        "UPDATE steps SET evidence = CAST(x'ff' AS TEXT)",
        "UPDATE gaps SET resources = '['",
    ],
)
async def test_a_damaged_file_is_called_damaged(history: Path, command: Command, harm: str) -> None:
    with closing(apsw.Connection(str(history))) as database:
        database.execute(harm)

    ended = await command("history", "deploy/web", "-n", "shop")
    assert (ended.code, ended.err.startswith(f"{history}: ")) == (Exit.DAMAGED, True)
