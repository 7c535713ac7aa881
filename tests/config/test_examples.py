from __future__ import annotations

from pathlib import Path

import pytest

from config.load import load
from config.schema import Settings
from sinks import registry

EXAMPLES = sorted((Path(__file__).parents[2] / "config" / "examples").glob("*.yaml"))
ADDRESSES = {
    "kafka": ("audit", "BOOTSTRAP_SERVERS", "127.0.0.1:1"),
    "nats": ("live", "SERVERS", "[nats://127.0.0.1:1]"),
    "webhook": ("hook", "URL", "http://127.0.0.1:1/"),
    "file": ("copy", "PATH", "/elsewhere/deltas.ndjson"),
}


def _load(example: Path, **environ: str) -> Settings:
    types = {name: kind.options for name, kind in registry.types().items()}
    return load(example, {f"KUBEDELTA__{name}": value for name, value in environ.items()}, types)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_loads(example: Path) -> None:
    settings = _load(example)
    assert settings.resources
    assert settings.sinks


def test_each_type_of_sink_has_an_example_and_all_share_one() -> None:
    types = set(registry.types())
    assert types <= {path.stem for path in EXAMPLES}
    everything = next(path for path in EXAMPLES if path.stem == "all-sinks")
    assert {sink.type for sink in _load(everything).sinks.values()} == types


@pytest.mark.parametrize("kind", sorted(ADDRESSES))
def test_an_examples_addresses_can_be_set_by_the_environment(kind: str) -> None:
    sink, option, value = ADDRESSES[kind]
    example = next(path for path in EXAMPLES if path.stem == kind)
    settings = _load(example, CLUSTER__SERVER="http://127.0.0.1:1", **{f"SINKS__{sink.upper()}__{option}": value})
    assert settings.cluster.server == "http://127.0.0.1:1"
    assert str(getattr(settings.sinks[sink].options, option.lower())) in (value, "('nats://127.0.0.1:1',)")
