"""What holds for every configuration, not only for those that somebody thought of."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from config.errors import ConfigError
from config.load import load
from config.values import Duration
from tests.config.options import TYPES

BASE: dict[str, Any] = {
    "cluster": {"name": "test"},
    "resources": ["pods", {"resource": "deployments.apps"}],
    "sinks": {
        "copy": {"type": "copy", "path": "/deltas", "max_backlog": {}},
        "audit": {"type": "queue", "servers": "a", "topic": "t", "login": {"user": "u"}},
    },
    "state": {},
    "watch": {},
    "telemetry": {},
}

WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,8}[a-z0-9])?", fullmatch=True)
DURATIONS = st.floats(0, 1e6) | st.builds("{}{}".format, st.integers(0, 30_000), st.sampled_from(["", *"smhd"]))
OPTIONS: Mapping[tuple[str, ...], st.SearchStrategy[Any]] = {
    ("cluster", "name"): NAMES,
    ("cluster", "context"): WORDS.filter(bool),
    ("resources",): st.lists(NAMES, min_size=1, max_size=4, unique=True),
    ("watch", "page_size"): st.integers(0, 100_000),
    ("watch", "silence_seconds"): st.floats(1, 1e6),
    ("watch", "watch_list"): st.sampled_from(["auto", "never"]),
    ("telemetry", "listen"): st.integers(0, 65535).map(lambda port: f"127.0.0.1:{port}"),
    ("shutdown_grace_seconds",): st.floats(0, 1e6),
    ("latency",): st.floats(0, 1),
    ("state", "min_free_bytes"): st.integers(0, 2**40),
    ("state", "forget_sinks_after"): DURATIONS,
    ("state", "retain"): st.fixed_dictionaries({}, optional={"age": DURATIONS, "bytes": st.integers(0, 2**40)}),
    ("state", "on_cluster_change"): st.sampled_from(["refuse", "restart"]),
    ("sinks", "copy", "start"): st.sampled_from(["snapshot", "now", "earliest"]),
    ("sinks", "copy", "max_backlog", "records"): st.integers(1, 2**40),
    ("sinks", "copy", "when_full"): st.sampled_from(["block", "compact", "drop"]),
    ("sinks", "copy", "on_rejected"): st.sampled_from(["park", "pass"]),
    ("sinks", "copy", "path"): NAMES,
    ("sinks", "copy", "rotate"): st.booleans(),
    ("sinks", "copy", "window"): st.integers(1, 1000),
    ("sinks", "audit", "servers"): WORDS,
    ("sinks", "audit", "headers"): st.dictionaries(WORDS, WORDS, max_size=3),
    ("sinks", "audit", "login", "user"): WORDS,
    ("sinks", "audit", "login", "password"): WORDS,
}
MAPPINGS: list[tuple[str | int, ...]] = [
    (),
    ("cluster",),
    ("resources", 1),
    ("sinks", "copy"),
    ("sinks", "copy", "max_backlog"),
    ("sinks", "audit"),
    ("sinks", "audit", "login"),
    ("state",),
    ("watch",),
    ("telemetry",),
]


VALUES = st.one_of(WORDS, st.integers(), st.booleans(), st.lists(WORDS), st.dictionaries(WORDS, WORDS))


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("config") / "k.yaml"


def _yaml(value: Any) -> str:
    """Any value as YAML on one line, with everything beyond printable ASCII escaped."""
    match value:
        case dict():
            return "{" + ", ".join(f"? {_yaml(key)} : {_yaml(each)}" for key, each in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(_yaml, value)) + "]"
        case str():
            plain = (c if " " <= c <= "~" and c not in '"\\' else f"\\U{ord(c):08x}" for c in value)
            return f'"{"".join(plain)}"'
        case bool():
            return str(value).lower()
        case _:
            return repr(value)


def _place(data: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        data = data[step]
    return data


@given(st.data())
def test_a_variable_says_the_same_as_the_file_would(file: Path, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(sorted(OPTIONS)))
    value = data.draw(OPTIONS[path])
    written = copy.deepcopy(BASE)
    file.write_text(_yaml(written))
    variable = "KUBEDELTA__" + "__".join(path).upper()
    text = _yaml(value) if isinstance(value, dict | list) else value if isinstance(value, str) else _yaml(value)
    by_variable = load(file, {variable: text}, TYPES)

    _place(written, path[:-1])[path[-1]] = value
    file.write_text(_yaml(written))
    assert load(file, {}, TYPES) == by_variable


@given(st.data())
def test_an_unknown_option_is_reported_with_its_path_anywhere(file: Path, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(MAPPINGS))
    written = copy.deepcopy(BASE)
    mapping = _place(written, path)
    name = data.draw(WORDS.filter(lambda word: word not in ALL_OPTIONS))
    mapping[name] = data.draw(
        st.one_of(WORDS, st.integers(), st.booleans(), st.lists(WORDS), st.dictionaries(WORDS, WORDS))
    )
    file.write_text(_yaml(written))
    with pytest.raises(ConfigError) as error:
        load(file, {}, TYPES)
    [problem] = error.value.problems
    assert problem.path == (*path, name)
    assert problem.message.startswith("unknown option")


@given(seconds=st.floats(0, 3e9) | st.integers(0, 10**9))
def test_a_duration_that_is_shown_means_the_same_when_it_is_read(seconds: float) -> None:
    shown = str(Duration(seconds))
    assert TypeAdapter(Duration).validate_python(shown) == pytest.approx(seconds, abs=0.001)


@given(name=st.from_regex(r"([A-Z]{1,8}__){0,3}[A-Z]{0,8}X", fullmatch=True))
def test_an_unknown_variable_is_reported_by_its_name(file: Path, name: str) -> None:
    file.write_text(_yaml(BASE))
    variable = f"KUBEDELTA__{name}"
    with pytest.raises(ConfigError) as error:
        load(file, {variable: "x"}, TYPES)
    assert {problem.source for problem in error.value.problems} == {variable}


ALL_OPTIONS = {step for path in OPTIONS for step in path} | {
    "kubeconfig", "server", "token_file", "ca_file", "resource", "namespaces", "label_selector", "field_selector",
    "type", "topic", "acks", "login", "linger", "password_file", "keep", "resync_seconds", "directory",
    "bytes", "age", "log_level", "log_format",
}  # fmt: skip
