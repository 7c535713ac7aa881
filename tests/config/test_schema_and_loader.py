"""The JSON Schema and the loader agree: what one of them takes, the other takes."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend

from config.document import parse
from config.errors import ConfigError
from config.load import judged
from config.reference import json_schema, reference
from config.schema import settings_type
from tests.config.test_reference import INSTALLED, OFF, _with
from tests.kit.examples import examples

ROOT = Path(__file__).parents[2]
SHIPPED = {
    str(file.relative_to(ROOT)): file.read_text()
    for file in [*(ROOT / "config").rglob("*.yaml"), ROOT / "deploy" / "kubedelta.yaml"]
}
KNOWN = settings_type(INSTALLED)

BEYOND_A_SCHEMA = (
    # The bounds of what is written with a unit: a schema knows its form.
    r"found \"[^\"]*\"; (a duration from 0 to|a number of bytes from 0 to|at (least|most) [0-9.]+([smhd]|[KMG]iB)?) ",
    r"may mean the same objects as resources\[",  # one entry beside another
    r"is in headers and in header_files",  # whatever the case of its letters
    r"Authorization is in header_files and made by",
    r"the host or the port in the URL is none",  # IDNA
    r"is no network: an address, or",
    r"has a brace that belongs to no placeholder|is not a template|unknown placeholder",
)
"""What the loader alone can refuse, by its words."""


@cache
def _validator() -> Any:
    """Of the schema. No format is checked."""

    def ecma_pattern(_validator: Any, pattern: str, instance: Any, _schema: Any) -> Iterator[ValidationError]:
        """As ECMA 262 has it: ``$`` is the end. Python's own also takes a newline in front of it."""
        if isinstance(instance, str) and not re.fullmatch(pattern, instance):
            yield ValidationError(f"{instance!r} does not match {pattern!r}")

    return extend(Draft202012Validator, {"pattern": ecma_pattern})(json_schema(INSTALLED))


def wrong_by_schema(document: dict[str, Any]) -> list[str]:
    return sorted(f"{each.json_path}: {each.message}" for each in _validator().iter_errors(document))


def refusals(document: dict[str, Any]) -> list[str]:
    try:
        judged(parse(json.dumps(document), "f.yaml"), {}, KNOWN)  # all JSON is YAML
    except ConfigError as error:
        return [str(problem) for problem in error.problems]
    return []


def assert_they_agree(document: dict[str, Any]) -> None:
    refused = refusals(document)
    wrong = wrong_by_schema(document)
    if refused and not wrong:
        unexplained = [each for each in refused if not any(re.search(words, each) for words in BEYOND_A_SCHEMA)]
        assert not unexplained, "the loader refuses what the schema takes"
    else:
        assert bool(refused) == bool(wrong), f"the loader says {refused or 'yes'}, the schema {wrong or 'yes'}"


@cache
def documents() -> dict[str, dict[str, Any]]:
    found = {name: parse(text, name).data for name, text in SHIPPED.items()}
    text = reference(INSTALLED)
    for number, line in enumerate(text.splitlines()):
        if OFF.match(line):
            found[f"reference with line {number}"] = parse(_with(text, number), "reference").data
    return {name: dict(data) for name, data in found.items()}


@pytest.mark.parametrize("name", SHIPPED)
def test_what_is_shipped_is_taken_by_both(name: str) -> None:
    assert refusals(documents()[name]) == []
    assert wrong_by_schema(documents()[name]) == []


def test_they_agree_on_each_option_of_the_reference() -> None:
    for document in documents().values():
        assert_they_agree(document)


# ── Mutations ────────────────────────────────────────────────────────────────

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 3),
    st.sampled_from([64, 500, 1500, 65_536, 10**7, 2**40, 2**70, 0.5, 1.5, -0.5, 5.0, 1e9]),
    st.sampled_from(
        ["", "x", "5", "true", "5s", "1.5h", "500ms", "7d", "1w", "4GiB", "10Gi", "5 MB", "64 sacks", "1e400", "a.b"]
    ),
    st.sampled_from(
        [
            "-", ".", "./", "a/.", "*", "pods", "Pods", "pods/log", "*.apps", "deployments.v1.apps", "a b", "a\n", "ä",
            "a__b", "tier=web,env in (a,b),!c", "metadata.name=web", "http://127.0.0.1:8001", "https://u:p@h/x",
            "https://h:99999", "nats://h:4222", "tls://h", "127.0.0.1:9092,b:1", "kafka://h:9092", "[::1]:8080", ":0",
            "k8s.{resource}", "k8s.{name}", "{x}", "a..b", "json", "snapshot", "envelope", "row", "cloudevents",
            "sasl_ssl", "ssl", "PLAIN", "zstd", "file", "kafka", "nats", "webhook",
        ]
    ),
    st.sampled_from([[], ["a"], ["a", "a"], ["A"], [1], [[]], ["nats://h"], [{"resource": "pods"}], ["pods", "pods"]]),
    st.sampled_from(
        [
            {}, {"a": "b"}, {"A": 1}, {"linger.ms": 5}, {"acks": 1},
            {"partitioner": "random"}, {"partitioner": "fnv1a"},
            {"ssl.key.pem": "x"}, {"X-Team": "a"}, {"X-Team": "a\nb"}, {"Authorization": "x"}, {"X-API-Key": "x"},
            {"webhook-id": "x"}, {"a b": "x"}, {"partitions": 1}, {"partitions": "1"}, {"replicas": 3, "max_age": "7d"},
            {"max_bytes": -1}, {"max_bytes": -2}, {"records": 0}, {"bytes": "1KiB"}, {"bytes": None}, {"age": "12h"},
            {"type": "file", "path": "x"}, {"type": "file"}, {"type": "nats", "servers": ["nats://h"], "stream": "S"},
            {"type": "kafka", "bootstrap_servers": "h"}, {"type": "webhook", "url": "https://h"},
        ]
    ),
)  # fmt: skip


@cache
def names() -> list[str]:
    sections = [section for data in documents().values() for section in data.values() if isinstance(section, dict)]
    known = {name for section in sections for name in section}
    known |= {name for options in INSTALLED.values() for name in options.model_fields}
    known |= {"window", "max_backlog", "start", "resync_seconds", "nobody", "Bad name", "resources", "sinks", "state"}
    return sorted(known)


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, inner in items:
        yield from _places(inner, (*path, step))


@st.composite
def mutations(draw: st.DrawFn) -> dict[str, Any]:
    document = copy.deepcopy(documents()[draw(st.sampled_from(sorted(documents())))])
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(list(_places(document))))
        holder: Any = document
        for step in path[:-1]:
            holder = holder[step]
        here = holder[path[-1]] if path else document
        if isinstance(here, dict) and draw(st.booleans()):
            here[draw(st.sampled_from(names()))] = copy.deepcopy(draw(VALUES))
        elif isinstance(holder, dict) and path and draw(st.booleans()):
            del holder[path[-1]]
        elif path:
            holder[path[-1]] = copy.deepcopy(draw(VALUES))
    return document


BASE = {"cluster": {"name": "t"}, "resources": ["pods"], "sinks": {"s": {"type": "file", "path": "x"}}}


@examples(50)
@given(mutations())
@example(BASE | {"state": None, "watch": None, "shutdown_grace_seconds": None})
@example(BASE | {"watch": {"page_size": "500"}})
@example(BASE | {"watch": {"page_size": 500.0, "silence_seconds": "90s"}})
@example(BASE | {"resources": []})
@example(BASE | {"resources": [{"resource": "pods", "namespaces": ["a", "a"]}]})
@example(BASE | {"telemetry": {"listen": ":8080\n"}})
@example(BASE | {"sinks": {}})
@example(BASE | {"sinks": {"A": {"type": "file", "path": "x"}}})
@example(BASE | {"state": {"directory": "a\0"}})
@example(BASE | {"redaction": {"key_file": "/" + "a" * 256}})
@example(BASE | {"sinks": {"s": {"type": "file", "path": "x", "before": 1, "format": "envelope"}}})
@example(BASE | {"sinks": {"s": {"type": "file", "path": "x", "include": ["patch"], "format": None}}})
def test_they_agree_on_whatever_is_made_of_these(document: dict[str, Any]) -> None:
    assert_they_agree(document)
