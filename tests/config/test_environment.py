from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from config.errors import ConfigError
from config.load import load
from config.schema import Settings
from tests.config.options import SMALLEST, TYPES, CopyOptions, QueueOptions

Load = Callable[[Mapping[str, str]], Settings]


@pytest.fixture
def load_with(tmp_path: Path) -> Load:
    (tmp_path / "k.yaml").write_text(SMALLEST + "  audit-log: {type: queue, servers: a, topic: t}\n")
    return lambda environ: load(tmp_path / "k.yaml", environ, TYPES)


def _problems(load_with: Load, environ: Mapping[str, str]) -> list[str]:
    with pytest.raises(ConfigError) as error:
        load_with(environ)
    return [str(problem) for problem in error.value.problems]


def test_the_environment_wins_over_the_file(load_with: Load) -> None:
    settings = load_with({"KUBEDELTA__CLUSTER__NAME": "other", "KUBEDELTA__WATCH__PAGE_SIZE": "7"})
    assert (settings.cluster.name, settings.watch.page_size) == ("other", 7)


def test_text_is_taken_as_it_is_whatever_it_looks_like(load_with: Load) -> None:
    for text in ("5", "true", "null", "{a: b}", "[", "a: b", "#", ""):
        settings = load_with({"KUBEDELTA__SINKS__AUDIT_LOG__SERVERS": text})
        assert settings.sinks["audit-log"].options == QueueOptions(servers=text, topic="t")


def test_lists_and_mappings_are_written_as_yaml(load_with: Load) -> None:
    settings = load_with(
        {
            "KUBEDELTA__RESOURCES": "[pods, {resource: deployments.apps, namespaces: [shop]}]",
            "KUBEDELTA__SINKS__NEW": "{type: copy, path: /x}",
            "KUBEDELTA__SINKS__AUDIT_LOG__HEADERS": '{"a": "b"}',
            "KUBEDELTA__SINKS__AUDIT_LOG__LOGIN__USER": "me",
        }
    )
    assert [entry.resource for entry in settings.resources] == ["pods", "deployments.apps"]
    assert settings.sinks["new"].options == CopyOptions(path=Path("/x"))
    audit = settings.sinks["audit-log"].options
    assert isinstance(audit, QueueOptions)
    assert audit.headers == {"a": "b"}
    assert audit.login is not None
    assert audit.login.user == "me"


def test_a_sinks_name_takes_underscores_in_the_environment(load_with: Load) -> None:
    for name in ("AUDIT_LOG", "AUDIT-LOG"):
        assert load_with({f"KUBEDELTA__SINKS__{name}__WINDOW": "3"}).sinks["audit-log"].window == 3


def test_a_whole_sink_may_come_from_the_environment(load_with: Load) -> None:
    settings = load_with({"KUBEDELTA__SINKS__NEW__PATH": "/x", "KUBEDELTA__SINKS__NEW__TYPE": "copy"})
    assert settings.sinks["new"].options == CopyOptions(path=Path("/x"))


def test_what_is_set_deeper_wins_over_the_mapping_it_stands_in(load_with: Load) -> None:
    environ = {
        "KUBEDELTA__SINKS__NEW__PATH": "/deeper",
        "KUBEDELTA__SINKS__NEW": "{type: copy, path: /x, rotate: true}",
        "KUBEDELTA__SINKS__NEW__TYPE": "copy",
    }
    assert load_with(environ).sinks["new"].options == CopyOptions(path=Path("/deeper"), rotate=True)


def test_service_variables_of_kubernetes_are_ignored(load_with: Load) -> None:
    environ = {"KUBEDELTA_SERVICE_HOST": "10.0.0.1", "KUBEDELTA_PORT_8080_TCP": "tcp://10.0.0.1:8080", "PATH": "/bin"}
    assert load_with(environ) == load_with({})


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("CLUSTER__NMAE", "x", 'cluster.nmae: unknown option; did you mean "name"? allowed here: ca_file'),
        ("CLUSTR__NAME", "x", 'clustr.name: unknown option; did you mean "cluster"?'),
        ("SINKS__COPY__TOPIC", "x", "sinks.copy.topic: unknown option; allowed here: keep, max_backlog, "),
        ("RESOURCES__0", "x", "resources.0: unknown; resources can be set as a whole only"),
        ("CLUSTER__NAME__X", "x", "cluster.name.x: unknown; cluster.name can be set as a whole only"),
        ("", "x", "unknown option; allowed here: cluster, "),
        ("CLUSTER__", "x", "cluster.: unknown option; allowed here: ca_file"),
        ("RESOURCES", "[pods", "resources: not YAML: while parsing a flow sequence"),
        ("RESOURCES", "", "resources: missing: Resources to watch"),
        ("SINKS__COPY", "{type: copy, type: copy}", "sinks.copy: given twice"),
        ("CLUSTER__NAME", "a b", 'cluster.name: found "a b"; letters, digits,'),
        ("SINKS__AUDIT_LOG__LOGIN__PASSWORD__X", "hunter2", "sinks.audit-log.login.password.x: unknown;"),
        ("SINKS__NEW__PATH", "x", "sinks.new.path: there is no sink new; the sinks are copy, audit-log; "),
    ],
)
def test_a_wrong_variable_is_named(load_with: Load, variable: str, value: str, said: str) -> None:
    [problem] = _problems(load_with, {f"KUBEDELTA__{variable}": value})
    assert problem.startswith(f"KUBEDELTA__{variable}: {said}")
    assert "hunter2" not in problem
