"""The settings that must be equal on all replicas, as digests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bridge.plan.equal_settings import KEYS, differing, digests, equal_settings
from bridge.transform.redaction_key import RedactionKey
from tests.bridge.plan.test_difference import SECTIONS, settings

KEY = RedactionKey(b"k" * 32)
OTHER_KEY = RedactionKey(b"o" * 32)
HOOK = SECTIONS["sinks"]["hook"]


def found(folder: Path, **sections: Any) -> Mapping[str, str]:
    return digests(equal_settings(settings(folder, **sections)), [KEY])


@pytest.mark.parametrize(
    "sections",
    [
        {"state": {"directory": "elsewhere", "min_free_bytes": "1GiB"}},
        {"telemetry": {"listen": "0.0.0.0:9000", "log_level": "debug"}},
        {"page": {"listen": "127.0.0.1:9001"}},
        {"election": {"identity": "b", "lease_duration": "15s"}},
        {"redaction": {"key_file": "elsewhere.key"}},
        {"shard": None, "latency": "20ms", "resources": [*reversed(SECTIONS["resources"])]},
        {"sinks": {"copy": {"type": "file", "path": "elsewhere.ndjson", "window": 5000}, "hook": HOOK}},
    ],
)
def test_what_may_differ_does_not_count(tmp_path: Path, sections: dict[str, Any]) -> None:
    assert found(tmp_path, **sections) == found(tmp_path)


@pytest.mark.parametrize(
    ("sections", "names"),
    [
        ({"resources": ["pods"]}, ("resources",)),
        ({"resources": ["pods", {"resource": "secrets", "namespaces": ["shops"]}]}, ("resources",)),
        ({"sinks": SECTIONS["sinks"] | {"new": HOOK}}, ("sinks.new",)),
        ({"sinks": SECTIONS["sinks"] | {"hook": HOOK | {"url": "https://hooks.example/other"}}}, ("sinks.hook",)),
        ({"sinks": SECTIONS["sinks"] | {"hook": HOOK | {"select": ["pods"]}}}, ("sinks.hook",)),
        ({"sinks": SECTIONS["sinks"] | {"copy": {"type": "file", "path": "a", "when_full": "drop"}}}, ("sinks.copy",)),
        ({"redaction": {"presets": ["env"]}}, ("redaction",)),
        ({"redaction": {"rules": [{"paths": ["spec.password"], "mode": "mask"}]}}, ("redaction",)),
        ({"shard": {"of": 2, "index": 0}}, ("shard",)),
        ({"state": {"directory": "state", "retain": {"age": "1d"}}}, ("state",)),
        ({"election": {"renew_deadline": "8s"}}, ("election",)),
    ],
)
def test_a_difference_names_its_sections(tmp_path: Path, sections: dict[str, Any], names: tuple[str, ...]) -> None:
    assert differing(found(tmp_path), found(tmp_path, **sections)) == names
    assert differing(found(tmp_path, **sections), found(tmp_path)) == names


def test_other_keys_are_the_only_difference(tmp_path: Path) -> None:
    sections = equal_settings(settings(tmp_path))
    assert differing(digests(sections, [KEY]), digests(sections, [OTHER_KEY])) == (KEYS,)
    assert differing(digests(sections, [KEY]), digests(sections, [KEY, OTHER_KEY])) == (KEYS,)


def test_a_digest_shows_nothing_of_a_setting(tmp_path: Path) -> None:
    sections = equal_settings(settings(tmp_path))
    assert "secret-path" in sections["sinks.hook"]
    published = digests(sections, [KEY])
    assert all(len(digest) == 16 for section, digest in published.items() if section != KEYS)
    assert not published.items() & (digests(sections, [OTHER_KEY]).items()), "without the key, guesses cannot be tested"


def test_a_leader_without_digests_differs_in_nothing(tmp_path: Path) -> None:
    assert differing(found(tmp_path), {}) == ()
