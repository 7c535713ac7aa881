"""``kubedelta schema events`` and ``schema asyncapi``. tests/contracts compares the schemas with real records."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator, ValidationError
from jsonschema import Draft202012Validator as Validator

from bridge.cli import main
from bridge.cli.exits import Exit
from bridge.model.change import Op
from bridge.model.record import Delta
from sinks import registry
from sinks.base import EventOptions
from tests.kit.content import with_content
from tests.kit.records import DEPLOYMENTS, a_delta

ROOT = Path(__file__).parents[3]
SINKS: dict[str, dict[str, Any]] = {
    "audit": {"type": "kafka", "bootstrap_servers": "kafka-0:9092,kafka-1:9092", "tombstones": True},
    "table": {
        "type": "kafka",
        "bootstrap_servers": "kafka-0:9092",
        "format": "row",
        "include": ["before", "patch", "json_patch", "changed"],
        "row": {"object": "string"},
    },
    "capture": {
        "type": "nats",
        "servers": ["tls://nats:4222"],
        "stream": "k",
        "format": "envelope",
        "include": ["patch", "changed"],
    },
    "chat": {"type": "webhook", "url": "https://chat.example/hooks/T0/hush", "format": "raw"},
    "rows": {"type": "webhook", "url": "http://h:8123/?q=hush", "format": "row", "include": ["before"], "batch": 10},
    "events": {"type": "webhook", "url": "https://h/hook", "batch": 2},
    "made": {"type": "webhook", "url": "http://h/{op}/hush", "format": "raw", "data": "object", "batch": 9},
    "wrapped": {
        "type": "webhook",
        "url": "http://h/w",
        "format": "row",
        "batch": 9,
        "wrap": '{"in": {"rows": []}, "v": 1}',
    },
    "lines": {
        "type": "webhook",
        "url": "http://h/x",
        "format": "raw",
        "data": "[]",
        "content_type": "text/x",
        "batch": 9,
    },
    "state": {
        "type": "kafka",
        "bootstrap_servers": "kafka-0:9092",
        "state_topic": "states.{resource}",
        "too_large": "trim",
    },
    "bucket": {"type": "nats", "servers": ["nats://n"], "stream": "b", "state": "now"},
    "part": {"type": "nats", "servers": ["nats://n"], "stream": "p", "data": "object.metadata"},
    "copy": {"type": "file", "path": "deltas.ndjson"},
    "slim": {"type": "file", "path": "slim.ndjson", "format": "row", "row": {"object": "none"}},
}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    content = {"cluster": {"name": "prod"}, "resources": ["pods"], "sinks": SINKS}
    path = tmp_path_factory.mktemp("schemas") / "kubedelta.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main(["schema", *words]) == Exit.OK
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def encoded(sink: str, delta: Delta) -> Any:
    """The data of the record, as the sink's own encoder makes it."""
    settings = SINKS[sink]
    names = settings.keys() - {"type"}
    options = registry.types()[settings["type"]].options.model_validate({name: settings[name] for name in names})
    assert isinstance(options, EventOptions)
    events = options.events("prod")
    delta = with_content(delta, include=options.include or ())
    return json.loads(events.structured(delta) if options.format.has_notices else events.data(delta))


def references(document: Any) -> Iterator[str]:
    if isinstance(document, dict):
        if isinstance(document.get("$ref"), str):
            yield document["$ref"]
        for each in document.values():
            yield from references(each)
    elif isinstance(document, list):
        for each in document:
            yield from references(each)


@pytest.mark.parametrize("sink", SINKS)
def test_the_schema_of_a_sink_is_one_and_has_what_it_needs(
    sink: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    schema = printed(capsys, "events", "-c", str(file), "--sink", sink)

    Validator.check_schema(schema)
    assert {each.removeprefix("#/$defs/") for each in references(schema)} <= schema["$defs"].keys()


@pytest.mark.parametrize("sink", ["table", "capture", "chat", "copy", "slim"])
@pytest.mark.parametrize("op", Op)
def test_records_are_valid_and_have_no_other_members(
    sink: str, op: Op, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    schema = printed(capsys, "events", "-c", str(file), "--sink", sink)
    record = encoded(sink, a_delta(resource=DEPLOYMENTS, key="shop/web", op=op, before=b"{}"))

    Validator(schema).validate(record)
    names = {"table": "DeltaRow", "slim": "DeltaRow", "capture": "Envelope", "copy": "DeltaEvent", "chat": "Object"}
    known = schema["$defs"][names[sink]]["properties"].keys()
    assert set(record) <= known


def test_a_record_may_say_what_was_trimmed(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    headers = {
        sink: printed(capsys, "events", "-c", str(file), "--sink", sink)["$defs"]["DeltaHeaders"]
        for sink in ("audit", "state")
    }

    assert "ce_trimmed" in headers["state"]["properties"]
    assert "ce_trimmed" not in headers["state"]["required"]
    assert "ce_trimmed" not in headers["audit"]["properties"]


@pytest.mark.parametrize(
    ("member", "wrong"), [("deleted", 2), ("sequence", "x"), ("op", "jumped"), ("object", {}), ("epoch", "1")]
)
def test_a_wrong_row_is_not_valid(member: str, wrong: object, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    schema = printed(capsys, "events", "-c", str(file), "--sink", "table")

    with pytest.raises(ValidationError):
        Validator(schema).validate(encoded("table", a_delta()) | {member: wrong})


def test_without_a_sink_every_sink_has_its_schema(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    schema = printed(capsys, "events", "-c", str(file))

    assert schema["$defs"].keys() == SINKS.keys()
    Validator.check_schema(schema)
    validator = Validator(schema)
    validator.validate(encoded("slim", a_delta()))
    validator.validate([encoded("copy", a_delta())])
    with pytest.raises(ValidationError):
        validator.validate(7)


def test_the_asyncapi_document_is_one_by_its_official_schema(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = printed(capsys, "asyncapi", "-c", str(file))
    official = json.loads((ROOT / "tests" / "documents" / "asyncapi" / "3.0.0.json").read_text(encoding="utf-8"))

    Draft7Validator(official).validate(document)
    for reference in references(document):
        found: Any = document
        for step in reference.removeprefix("#/").split("/"):
            found = found[step]
    channels = document["channels"]
    assert {name.partition(".")[0] for name in channels} == SINKS.keys()
    assert channels["audit.objects"]["messages"].keys() == {"Delta", "Tombstone", "Gap", "Snapshot"}
    assert channels["state.state"]["messages"].keys() == {"Delta", "Tombstone"}
    assert channels["state.state"]["address"] == "states.{resource}"
    assert channels["bucket.state"]["messages"].keys() == {"Delta", "Purge"}
    assert channels["bucket.state"]["address"] == "$KV.now.prod.{group}.{resource}.{namespace}.{name}"
    assert channels["table.objects"]["messages"].keys() == {"Delta"}
    assert channels["chat.endpoint"]["messages"].keys() == {"Delta"}
    assert channels["events.endpoint"]["messages"].keys() == {"Batch"}
    messages = document["components"]["messages"]
    assert messages["lines.endpoint.Delta"]["contentType"] == "text/x"
    assert messages["made.endpoint.Batch"]["contentType"] == "application/json"
    wrapped = messages["wrapped.endpoint.Batch"]["payload"]
    assert (wrapped["required"], wrapped["properties"]["v"]) == (["in", "v"], {"const": 1})
    assert wrapped["properties"]["in"]["properties"]["rows"]["type"] == "array"
    assert document["servers"]["capture"] == {"host": "nats:4222", "protocol": "tls"}


@pytest.mark.parametrize("words", [["events"], ["asyncapi"]])
def test_a_webhooks_path_is_in_no_document(words: list[str], file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "hush" not in json.dumps(printed(capsys, *words, "-c", str(file)))


def test_an_unknown_sink_is_refused_with_the_known_ones(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "events", "-c", str(file), "--sink", "cat"]) == Exit.CONFIG
    assert "there is no sink cat; allowed: audit, bucket," in capsys.readouterr().err


def test_the_configuration_has_a_schema_with_every_section_and_type_of_sink(
    capsys: pytest.CaptureFixture[str],
) -> None:
    schema = printed(capsys)
    assert {"cluster", "resources", "sinks", "state", "telemetry"} <= schema["properties"].keys()
    assert all(f'"{kind}"' in json.dumps(schema) for kind in ("kafka", "nats", "webhook", "file"))
