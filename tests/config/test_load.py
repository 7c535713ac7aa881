from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis.strategies import text
from pydantic import BaseModel, ValidationError

from bridge.cli.settings import sink_options
from bridge.model.policies import OnRejected, StartPolicy, WhenFull
from config.errors import ConfigError
from config.load import load, state_directory
from config.schema import Address, MaxBacklogSettings, OnClusterChange, RetainSettings, Settings, WatchList
from config.schema.cluster import RecoverStepsSettings
from config.schema.settings import settings_type
from config.schema.shape import places_of, type_at
from config.values import Duration, Size
from sinks import registry
from tests.config.options import SMALLEST, TYPES, Acks, CopyOptions, QueueOptions

Load = Callable[..., Settings]
Refused = Callable[..., list[str]]
MiB = 1024 * 1024


@pytest.fixture
def load_text(tmp_path: Path) -> Load:
    def loaded(text: str, environ: Mapping[str, str] | None = None) -> Settings:
        (tmp_path / "k.yaml").write_text(text)
        return load(tmp_path / "k.yaml", environ or {}, TYPES)

    return loaded


@pytest.fixture
def refused(load_text: Load, tmp_path: Path) -> Refused:
    def problems(text: str, environ: Mapping[str, str] | None = None) -> list[str]:
        with pytest.raises(ConfigError) as error:
            load_text(text, environ)
        lines = [str(problem) for problem in error.value.problems]
        assert str(error.value).splitlines() == lines
        return [line.replace(f"{tmp_path}/", "") for line in lines]

    return problems


# ── What a right file gives ──────────────────────────────────────────────────


def test_the_smallest_file_gives_settings_with_every_default(load_text: Load, tmp_path: Path) -> None:
    settings = load_text(SMALLEST)
    assert settings.cluster.name == "test"
    assert [entry.resource for entry in settings.resources] == ["pods"]
    assert settings.telemetry.listen == Address("127.0.0.1", 8080)
    assert (settings.watch.silence_seconds, settings.watch.page_size) == (Duration(90), 500)
    assert settings.watch.watch_list is WatchList.AUTO
    assert settings.state.directory == tmp_path / "state"
    assert settings.state.on_cluster_change is OnClusterChange.REFUSE
    assert settings.state.retain == RetainSettings(age=Duration(0), bytes=Size(0))
    assert settings.state.forget_sinks_after == Duration(7 * 86_400)
    assert settings.state.min_free_bytes == 64 * MiB
    copy = settings.sinks["copy"]
    assert copy.window == 5000
    assert (copy.start, copy.when_full, copy.on_rejected) == (StartPolicy.SNAPSHOT, WhenFull.COMPACT, OnRejected.PARK)
    assert copy.max_backlog == MaxBacklogSettings(records=None, bytes=Size(4096 * MiB), age=None)


@pytest.mark.parametrize(
    ("written", "steps"),
    [
        ("false", None),
        ("true", RecoverStepsSettings()),
        ("", RecoverStepsSettings()),
        ("{most_requests: 5}", RecoverStepsSettings(most_requests=5, concurrency=4)),
    ],
)
def test_the_recovery_of_steps_has_bounds_or_is_off(
    load_text: Load, written: str, steps: RecoverStepsSettings | None
) -> None:
    settings = load_text(f"{SMALLEST}watch:\n  recover_steps: {written}\n")
    assert settings.watch.recover_steps == steps


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("5", "watch.recover_steps: found 5; a mapping is expected, of most_requests, concurrency"),
        ("{most_requests: 1}", "watch.recover_steps.most_requests: found 1; at least 2 is expected"),
        ("{concurrency: 0}", "watch.recover_steps.concurrency: found 0; at least 1 is expected"),
        ("{most: 3}", "watch.recover_steps.most: unknown option; allowed here: concurrency, most_requests"),
    ],
)
def test_wrong_bounds_of_the_recovery_are_named(refused: Refused, written: str, expected: str) -> None:
    (problem,) = refused(f"{SMALLEST}watch:\n  recover_steps: {written}\n")
    assert problem.endswith(expected)


def test_each_sinks_options_have_the_type_given_for_it(load_text: Load, tmp_path: Path) -> None:
    text = SMALLEST + "  audit: {type: queue, servers: [a, b], topic: t, acks: leader, window: 5, resync_seconds: 60}\n"
    settings = load_text(text)
    audit = settings.sinks["audit"]
    assert (audit.type, audit.window, audit.resync_seconds) == ("queue", 5, Duration(60))
    assert audit.options == QueueOptions(servers=["a", "b"], topic="t", acks=Acks.LEADER)
    assert type(settings.sinks["copy"].options) is CopyOptions
    assert settings.sinks["copy"].options == CopyOptions(path=tmp_path / "deltas.ndjson")


def test_settings_are_frozen_and_equal_where_they_say_the_same(load_text: Load) -> None:
    settings = load_text(SMALLEST)
    assert settings == load_text(SMALLEST)
    with pytest.raises(ValidationError):
        settings.cluster.name = "other"
    with pytest.raises(ValidationError):
        settings.telemetry = settings.telemetry


def test_relative_paths_start_at_the_files_folder_and_home_works(load_text: Load, tmp_path: Path) -> None:
    text = SMALLEST.replace("name: test", "name: test\n  kubeconfig: ~/.kube/config") + "state: {directory: ../s}\n"
    settings = load_text(text, {"KUBEDELTA__SINKS__COPY__PATH": "sub/d.ndjson"})
    assert settings.cluster.kubeconfig == Path.home() / ".kube/config"
    assert settings.state.directory == tmp_path / "../s"
    assert settings.sinks["copy"].options == CopyOptions(path=tmp_path / "sub/d.ndjson")


def test_absolute_paths_and_standard_output_stay_as_they_are(load_text: Load) -> None:
    for path in ("/var/d.ndjson", "-"):
        settings = load_text(SMALLEST.replace("./deltas.ndjson", path))
        assert settings.sinks["copy"].options == CopyOptions(path=Path(path))


def test_a_section_of_comments_alone_counts_as_absent(load_text: Load) -> None:
    assert load_text(SMALLEST + "telemetry:\n  # log_level: debug\n") == load_text(SMALLEST)


def test_plain_http_without_credentials_is_enough(load_text: Load) -> None:
    settings = load_text(SMALLEST.replace("name: test", "name: test\n  server: http://127.0.0.1:8001/"))
    assert settings.cluster.server == "http://127.0.0.1:8001"


@pytest.mark.parametrize(
    ("written", "address"),
    [
        ("0.0.0.0:80", Address("0.0.0.0", 80)),
        ("'[::1]:8080'", Address("::1", 8080)),
        ("':9'", Address("", 9)),
        ("localhost:0", Address("localhost", 0)),
    ],
)
def test_addresses_to_listen_on(load_text: Load, written: str, address: Address) -> None:
    assert load_text(f"{SMALLEST}telemetry: {{listen: {written}}}\n").telemetry.listen == address


@pytest.mark.parametrize(
    ("written", "size"),
    [
        ("5", 5),
        ("1GiB", 1024 * MiB),
        ("10Gi", 10 * 1024 * MiB),
        ("1.5KiB", 1536),
        ("5MB", 5_000_000),
        ("5M", 5_000_000),
        ("5 kB", 5000),
        ("'64B'", 64),
        ("0", 0),
    ],
)
def test_a_size_is_bytes_or_has_a_unit(load_text: Load, written: str, size: int) -> None:
    assert load_text(f"{SMALLEST}state: {{min_free_bytes: {written}}}\n").state.min_free_bytes == size


def test_every_time_and_size_takes_a_unit_whatever_its_name(load_text: Load) -> None:
    text = (
        f"{SMALLEST.rstrip()[:-1]}, resync_seconds: 10m, max_backlog: {{bytes: 2GiB, age: 90}}}}\n"
        "watch: {silence_seconds: 2m, discovery_seconds: 500ms}\nshutdown_grace_seconds: 15s\nlatency: 50ms\n"
    )
    settings = load_text(text)
    assert [settings.watch.silence_seconds, settings.watch.discovery_seconds] == [Duration(120), Duration(0.5)]
    assert settings.shutdown_grace_seconds == Duration(15)
    assert settings.latency == Duration(0.05)
    assert settings.sinks["copy"].resync_seconds == Duration(600)
    assert settings.sinks["copy"].max_backlog == MaxBacklogSettings(age=Duration(90), bytes=Size(2048 * MiB))


@pytest.mark.parametrize(
    ("written", "seconds", "shown"),
    [
        ("90", 90, "90s"),
        ("90s", 90, "90s"),
        ("0.5", 0.5, "500ms"),
        ("10m", 600, "10m"),
        ("1.5h", 5400, "90m"),
        ("12h", 43_200, "12h"),
        ("7d", 604_800, "7d"),
        ("'7'", 7, "7s"),
        ("0", 0, "0s"),
    ],
)
def test_a_duration_is_seconds_or_has_a_unit_and_shows_one(
    load_text: Load, written: str, seconds: float, shown: str
) -> None:
    age = load_text(f"{SMALLEST}state: {{retain: {{age: {written}}}}}\n").state.retain.age
    assert age == seconds
    assert str(age) == shown


def test_unnamed_bounds_of_a_backlog_keep_their_defaults(load_text: Load) -> None:
    def bounds(written: str) -> MaxBacklogSettings:
        return load_text(f"{SMALLEST.rstrip()[:-1]}, max_backlog: {written}}}\n").sinks["copy"].max_backlog

    assert bounds("{age: 12h}") == MaxBacklogSettings(age=Duration(43_200), bytes=Size(4096 * MiB))
    assert bounds("{records: 5, bytes: 1MiB}") == MaxBacklogSettings(records=5, bytes=Size(MiB))
    assert bounds("{bytes: null}") == MaxBacklogSettings(bytes=None)


# ── What a wrong file gets ───────────────────────────────────────────────────


def test_all_mistakes_are_reported_at_once_with_line_and_path(refused: Refused) -> None:
    text = """\
cluster: {name: test, contxt: prod}
resources:
  - pods
  - pods/log
  - Pods
sinks:
  audit: {type: queue, servers: a, topc: t}
  copy: {type: copie, path: x}
telemetry:
  log_format: jason
  log_format: json
watch: {page_size: many}
shutdown_grace_seconds: -1
"""
    shared = "resources[2]: pods may mean the same objects as resources[0] (pods); an object belongs to one entry: "
    options = (
        "acks, headers, linger, login, max_backlog, on_rejected, password_file, redact, resync_seconds, select, "
        "servers, snapshot, start, topic, type, when_full, window"
    )
    assert refused(text, {"KUBEDELTA__TELEMETRY__LOG_LEVEL": "loud", "KUBEDELTA__WATCH__PAGE": "1"}) == [
        "k.yaml:11: telemetry.log_format: given twice; it is already set in line 10",
        (
            'KUBEDELTA__WATCH__PAGE: watch.page: unknown option; did you mean "page_size"? '
            "allowed here: discovery_seconds, page_size, recover_steps, silence_seconds, watch_list"
        ),
        (
            'k.yaml:1: cluster.contxt: unknown option; did you mean "context"? '
            "allowed here: ca_file, context, kubeconfig, name, server, token_file"
        ),
        (
            'k.yaml:4: resources[1]: found "pods/log"; kubectl\'s name of a resource is expected '
            "(subresources are not watched): pods, deployments.apps, *.cert-manager.io, *"
        ),
        f"k.yaml:5: {shared}join the two, or give them different namespaces",
        f'k.yaml:7: sinks.audit.topc: unknown option; did you mean "topic"? allowed here: {options}',
        'k.yaml:8: sinks.copy.type: found "copie"; did you mean "copy"? allowed: copy, queue',
        'KUBEDELTA__TELEMETRY__LOG_LEVEL: telemetry.log_level: found "loud"; allowed: debug, error, info, warning',
        'k.yaml:10: telemetry.log_format: found "jason"; did you mean "json"? allowed: auto, console, json',
        'k.yaml:12: watch.page_size: found "many"; a whole number is expected',
        "k.yaml:13: shutdown_grace_seconds: found -1; a duration from 0 to 36500d is expected",
    ]


def test_a_list_with_one_wrong_entry_is_one_problem(refused: Refused) -> None:
    [problem] = refused(SMALLEST.replace("[pods]", "[pods/log]"))
    assert problem.startswith('k.yaml:3: resources[0]: found "pods/log"; kubectl\'s name of a resource is expected')
    assert "a list of 1" not in problem


def test_an_unknown_section_with_nothing_in_it_is_unknown(refused: Refused) -> None:
    assert refused(SMALLEST + "telemetri:\n")[0].startswith(
        'k.yaml:6: telemetri: unknown option; did you mean "telemetry"'
    )


def test_what_must_be_there_is_reported_with_what_it_is_for(refused: Refused) -> None:
    problems = refused("state: {}\n")
    assert [line.partition(": missing")[0] for line in problems] == [
        "k.yaml: cluster",
        "k.yaml: resources",
        "k.yaml: sinks",
    ]
    [name] = refused(SMALLEST.replace("name: test", "context: x"))
    assert name.startswith("k.yaml:1: cluster.name: missing, such as prod-eu1: The cluster's name in every event")


@pytest.mark.parametrize(
    ("sink", "problem"),
    [
        ("{path: x}", "sinks.s.type: missing; allowed: copy, queue"),
        ("{}", "sinks.s.type: missing; allowed: copy, queue"),
        ("5", "sinks.s: found 5; a mapping is expected"),
        ("", "sinks.s: found null; a mapping is expected"),
        ("{type: copy, path: 5}", "sinks.s.path: found 5; a path is expected"),
        ("{type: copy, path: x, keep: 2}", "sinks.s: keep has no effect without rotate"),
        ("{type: copy, path: x, rotate: maybe}", 'sinks.s.rotate: found "maybe"; true or false is expected'),
        ("{type: copy, path: x, window: true}", "sinks.s.window: found true; a whole number is expected"),
        ("{type: copy, path: x, copy: {path: y}}", "sinks.s.copy: unknown option;"),
        ("{type: queue, servers: a, topic: 5}", "sinks.s.topic: found 5; text is expected (in quotes"),
        ("{type: queue, servers: a, topic: a b}", 'sinks.s.topic: found "a b"; no blanks in a topic'),
        ("{type: queue, servers: 5, topic: t}", "sinks.s.servers: found 5; text is expected (in quotes, where it"),
        ("{type: queue, servers: [a, 5], topic: t}", "sinks.s.servers[1]: found 5; text is expected"),
        ("{type: queue, servers: {a: b}, topic: t}", "sinks.s.servers: found a mapping; text is expected"),
        ("{type: copy, path: x, window: '5'}", 'sinks.s.window: found "5"; a whole number is expected'),
        ("{type: copy, path: x, resync_seconds: soon}", 'sinks.s.resync_seconds: found "soon"; a duration is expected'),
        (
            "{type: queue, servers: a, topic: t, headers: {X: 1}}",
            "sinks.s.headers.X: found a value (not shown); text",
        ),
        (
            "{type: queue, servers: a, topic: t, login: {usr: u}}",
            'sinks.s.login.usr: unknown option; did you mean "user"?',
        ),
        ("{type: queue, servers: a, topic: t, login: {}}", "sinks.s.login.user: missing"),
    ],
)
def test_one_mistake_in_a_sink_is_one_problem(refused: Refused, sink: str, problem: str) -> None:
    [found] = refused(f"{SMALLEST}  s: {sink}\n")
    assert found.startswith(f"k.yaml:6: {problem}")


@pytest.mark.parametrize("name", ["Audit", "a b", "-a", "a__b", "x" * 64, "ä"])
def test_a_sinks_name_can_stand_in_a_variable_and_in_a_metric(refused: Refused, name: str) -> None:
    [problem] = refused(f"{SMALLEST}  '{name}': {{type: copy, path: y}}\n")
    assert "a sink's name is" in problem


@pytest.mark.parametrize(
    ("cluster", "problem"),
    [
        ("server: 10.0.0.1:6443", 'cluster.server: found "10.0.0.1:6443"; an address like'),
        ("server: 'https://me:pw@a'", 'cluster.server: found "https://a/…"; credentials do not belong'),
        ("context: ''", 'cluster.context: found ""; at least 1 characters are expected'),
    ],
)
def test_what_is_no_way_to_a_cluster(refused: Refused, cluster: str, problem: str) -> None:
    [found] = refused(SMALLEST.replace("  name: test", f"  {{name: test, {cluster}}}"))
    assert problem in found
    assert "pw" not in found


PATHS = {
    "state.directory": "state: {{directory: {}}}",
    "cluster.token_file": "cluster: {{name: t, server: 'http://h', token_file: {}}}",
    "redaction.key_file": "redaction: {{key_file: {}}}",
    "telemetry.details_token_file": "telemetry: {{details_token_file: {}}}",
}


@pytest.mark.parametrize("option", PATHS)
@pytest.mark.parametrize(
    ("written", "why"),
    [
        ('"/tmp/\\0"', "no NUL"),
        (f"/{'a' * 256}", "255 between two slashes"),
        ("a/" * 2100, "at most 4095 bytes"),
        ("~nobody-of-this-name/x", "a user who is not known on this machine"),
    ],
    ids=["NUL", "long name", "long path", "home"],
)
def test_what_can_be_no_path_is_refused_by_its_options_name(
    refused: Refused, option: str, written: str, why: str
) -> None:
    start = SMALLEST.replace("cluster:\n  name: test\n", "") if option.startswith("cluster") else SMALLEST
    [problem] = refused(f"{start}{PATHS[option].format(written)}\n")
    assert f"{option}: " in problem
    assert why in problem


@pytest.mark.parametrize(
    "listen",
    [
        *("8080", "a:b", "127.0.0.1:70000", "'::1:80'", "'http://a:1'", "[a, 1]", "'a:1\n'"),
        *("a..b:1", ".:1", f"{'a' * 64}:1"),
    ],
)
def test_what_is_no_address_to_listen_on(refused: Refused, listen: str) -> None:
    [problem] = refused(f"{SMALLEST}telemetry: {{listen: {listen}}}\n")
    assert "telemetry.listen: found" in problem
    assert "host:port is expected" in problem


@pytest.mark.parametrize(
    ("state", "problem"),
    [
        (
            "memory_max_bytes: 1",
            "state.memory_max_bytes: unknown option; allowed here: directory, encryption, ",
        ),
        ("on_cluster_change: ignore", 'state.on_cluster_change: found "ignore"; allowed: refuse, restart'),
        ("min_free_bytes: much", 'state.min_free_bytes: found "much"; a number of bytes is expected, or one with a'),
        ("min_free_bytes: 5 sacks", 'state.min_free_bytes: found "5 sacks"; a number of bytes is expected'),
        ("min_free_bytes: true", "state.min_free_bytes: found true; a number of bytes is expected"),
        ("forget_sinks_after: 1w", 'state.forget_sinks_after: found "1w"; a duration is expected: seconds, or a'),
        ("forget_sinks_after: '-1'", 'state.forget_sinks_after: found "-1"; a duration is expected: seconds, or a'),
        ("forget_sinks_after: true", "state.forget_sinks_after: found true; a duration is expected"),
        ("forget_sinks_after: [7d]", "state.forget_sinks_after: found a list of 1; a duration is expected"),
        ("forget_sinks_after: -1", "state.forget_sinks_after: found -1; a duration from 0 to 36500d is expected"),
        ("forget_sinks_after: 1e300", "state.forget_sinks_after: found 1e+300; a duration from 0 to 36500d"),
        ("retain: 7d", "state.retain: found text; a mapping is expected, of age, bytes"),
        ("retain: {days: 7}", "state.retain.days: unknown option; allowed here: age, bytes"),
    ],
)
def test_what_cannot_be_said_of_the_state(refused: Refused, state: str, problem: str) -> None:
    [found] = refused(f"{SMALLEST}state: {{{state}}}\n")
    assert found.startswith(f"k.yaml:6: {problem}")


@pytest.mark.parametrize(
    ("delivery", "problem"),
    [
        ("start: latest", 'start: found "latest"; allowed: earliest, now, snapshot'),
        ("when_full: compacted", 'when_full: found "compacted"; did you mean "compact"? allowed: block, compact, drop'),
        ("on_rejected: drop", 'on_rejected: found "drop"; allowed: park, pass'),
        ("max_backlog: {records: 0}", "max_backlog.records: found 0; at least 1 is expected"),
        ("max_backlog: {bytes: 1KiB}", 'max_backlog.bytes: found "1KiB"; at least 1MiB is expected'),
        ("max_backlog: {age: 0}", "max_backlog.age: found 0; at least 1s is expected"),
        ("max_backlog: 4GiB", "max_backlog: found text; a mapping is expected, of records, bytes, age"),
    ],
)
def test_what_cannot_be_said_of_a_delivery(refused: Refused, delivery: str, problem: str) -> None:
    [found] = refused(f"{SMALLEST}  s: {{type: copy, path: x, {delivery}}}\n")
    assert found.startswith(f"k.yaml:6: sinks.s.{problem}")


@pytest.mark.parametrize(
    "sink",
    [
        "{type: queue, servers: a, topic: t, login: {user: u, password: [SECRET]}}",
        "{type: queue, servers: a, topic: t, login: {user: u, pasword: SECRET}}",
        "{type: queue, servers: a, topic: t, login: SECRET}",
        "{type: queue, servers: a, topic: 'a https://u:SECRET@h/SECRET?x=SECRET'}",
        "{type: queue, servers: a, topic: t, headers: {Authorization: [SECRET]}}",
        "{type: queue, servers: a, topic: t, token: SECRET}",
        "{type: queue, topic: t, servers: [{password: SECRET}]}",
    ],
)
def test_no_problem_shows_what_may_be_a_secret(refused: Refused, sink: str) -> None:
    problems = refused(f"{SMALLEST}  s: {sink}\n")
    assert len(problems) == 1
    assert "SECRET" not in problems[0]


def test_options_that_clash_with_the_bridges_are_the_sinks_bug(tmp_path: Path) -> None:
    class Clashing(BaseModel):
        window: int = 1

    (tmp_path / "k.yaml").write_text(SMALLEST)
    with pytest.raises(TypeError, match="sink type clash: the bridge has options of these names already: window"):
        load(tmp_path / "k.yaml", {}, {**TYPES, "clash": Clashing})


def test_with_one_type_of_sink_a_wrong_type_is_still_one_problem(tmp_path: Path) -> None:
    (tmp_path / "k.yaml").write_text(SMALLEST.replace("type: copy", "type: copie"))
    with pytest.raises(ConfigError) as error:
        load(tmp_path / "k.yaml", {}, {"copy": CopyOptions})
    assert [problem.path for problem in error.value.problems] == [("sinks", "copy", "type")]


@pytest.mark.parametrize("listen", ["127.0.0.1:8081", "127.9.9.9:0", "localhost:8081", "'[::1]:8081'"])
def test_a_page_for_this_machine_needs_no_token(load_text: Load, listen: str) -> None:
    assert load_text(f"{SMALLEST}page: {{listen: {listen}}}\n").page.listen is not None


@pytest.mark.parametrize("listen", ["':8081'", "0.0.0.0:8081", "'[::]:8081'", "10.0.0.7:8081", "page.example:8081"])
def test_a_page_for_other_machines_needs_a_token(load_text: Load, refused: Refused, listen: str) -> None:
    [problem] = refused(f"{SMALLEST}page: {{listen: {listen}}}\n")
    assert "page: listen on an address that other machines reach needs token_file" in problem

    assert load_text(f"{SMALLEST}page: {{listen: {listen}, token_file: token}}\n").page.token_file is not None


def test_a_token_without_a_page_is_a_mistake(refused: Refused) -> None:
    [problem] = refused(f"{SMALLEST}page: {{token_file: token}}\n")
    assert "page: token_file has no effect without listen" in problem


# ── Options in another place ─────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("section", "suggested"),
    [
        ("directory: /var/k", '"state.directory"'),
        ("Directory: /var/k", '"state.directory"'),
        ("directoy: /var/k", '"state.directory"'),
        ("log_level: debug", '"telemetry.log_level"'),
        ("namespaces: [a]", '"resources[].namespaces" or "sinks.NAME.select[].namespaces"'),
        ("topic: x", '"sinks.NAME.topic"'),
        ("telemetry: {page_size: 5}", '"watch.page_size"'),
        ("state: {age: 7d}", '"state.retain.age" or "sinks.NAME.max_backlog.age" or "sinks.NAME.rotation.age"'),
    ],
)
def test_an_option_in_the_wrong_place_has_its_own_named(tmp_path: Path, section: str, suggested: str) -> None:
    (tmp_path / "k.yaml").write_text(f"{SMALLEST.replace('type: copy', 'type: file')}{section}\n")
    with pytest.raises(ConfigError) as error:
        load(tmp_path / "k.yaml", {}, sink_options())
    [problem] = error.value.problems
    assert f"unknown option; did you mean {suggested}? allowed here: " in problem.message


def test_every_place_that_is_suggested_has_the_option() -> None:
    known = settings_type(sink_options())
    data = {"sinks": {"NAME": {"type": "kafka"}}}
    for option in ("directory", "listen", "topic", "namespaces", "age", "key_file", "operations"):
        for place in places_of(known, option, ()):
            path = [0 if step == "" else step for step in place.replace("[]", ".").split(".")]
            for kind in registry.types():
                data["sinks"]["NAME"]["type"] = kind
                if type_at(known, tuple(path), data) is not None:
                    break
            else:
                raise AssertionError(place)


@pytest.mark.parametrize(
    ("variable", "message"),
    [
        (
            "SINKS__COPI__PATH",
            'there is no sink copi; did you mean "copy"? the sinks are copy; for a sink of this name',
        ),
        ("SINKS__OTHER__PATH", "there is no sink other; the sinks are copy; for a sink of this name, set"),
        ("SINKS__COPI__ROTATION__AGE", 'did you mean "copy"?'),
    ],
)
def test_a_variable_of_a_missing_sink_names_the_sink(refused: Refused, variable: str, message: str) -> None:
    [problem] = refused(SMALLEST, {f"KUBEDELTA__{variable}": "x"})
    assert problem.startswith(f"KUBEDELTA__{variable}: ")
    assert message in problem


# ── The state directory of a wrong file ──────────────────────────────────────

STATE_OF = {
    SMALLEST: "state",
    f"{SMALLEST}state: {{directory: var}}\nx: 1\n": "var",
    "state: {directory: var}\n": "var",
    "sinks: [\nstate:\n  directory: var # here\n  retain: {}\nresources: }\n": "var",
    "state:\n# a comment\n\n  directory: /var/k\n\nresources:\n\tx\n": "/var/k",
    "state: {directory: var, of: [}\n": None,
    "state: {directory: [var]}\n": None,
    "state: var\n": None,
    "state:\n": "state",
    "x: {\n": "state",
    "[1]": "state",
    "state: {directory: ~nobody-of-this-name/x}\n": None,
    f"state: {{directory: {'x' * 5000}}}\n": None,
}


@pytest.mark.parametrize("text", STATE_OF)
def test_a_wrong_file_still_has_its_state_directory(text: str, tmp_path: Path) -> None:
    file = tmp_path / "k.yaml"
    file.write_text(text)
    directory = STATE_OF[text]
    assert state_directory(file, {}) == (None if directory is None else tmp_path / directory)
    assert state_directory(file, {"KUBEDELTA__STATE__DIRECTORY": "other"}) == tmp_path / "other"
    assert state_directory(file, {"KUBEDELTA__STATE": "{directory: other}"}) == tmp_path / "other"
    assert state_directory(file, {"KUBEDELTA__STATE__X": "1", "KUBEDELTA__SINKS__X": "}"}) == state_directory(file, {})


@given(text())
def test_any_text_has_a_state_directory_or_none(content: str) -> None:
    with TemporaryDirectory() as folder:
        file = Path(folder, "k.yaml")
        file.write_bytes(content.encode(errors="surrogatepass"))
        found = state_directory(file, {})
        assert found is None or found.is_absolute()


def test_without_a_file_a_variable_alone_names_the_directory(tmp_path: Path) -> None:
    file = tmp_path / "missing.yaml"
    assert state_directory(file, {}) is None
    assert state_directory(file, {"KUBEDELTA__STATE__DIRECTORY": "/var/k"}) == Path("/var/k")
