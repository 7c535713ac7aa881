"""The settings that must be equal on all replicas of an election, as digests that every replica can compare. Pure.

Left out is what may differ: the state directory, addresses, logs, times of the process itself, and the paths of files,
which may stand elsewhere on another machine. A digest is keyed with the redaction key, which all replicas share: nobody
else can test guesses of a setting, such as a URL with a password.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from pydantic import BaseModel

from bridge.transform.redaction_key import RedactionKey
from config.schema import Settings

KEYS = "redaction.key_file"
"""The section whose digest has the ids of the keys: under other keys no digest can be compared."""
_DIGITS = 16
"""Of a digest, hexadecimal."""


def equal_settings(settings: Settings) -> Mapping[str, str]:
    """Section → its settings, canonical: an option that is written out with its default changes nothing."""
    state, election = settings.state, settings.election
    of_state = {"retain": state.retain, "forget_sinks_after": state.forget_sinks_after}
    timing = [election.lease_duration, election.renew_deadline, election.retry_period]
    shard = None if settings.shard is None else [settings.shard.of, settings.shard.by]
    redaction = [sorted(settings.redaction.presets), settings.redaction.rules]
    sections: Mapping[str, object] = {
        "resources": sorted(map(_text, settings.resources)),
        "redaction": redaction,
        "shard": shard,
        "state": {**of_state, "on_cluster_change": state.on_cluster_change},
        "election": timing,
        **{f"sinks.{name}": sink for name, sink in settings.sinks.items()},
    }
    return {section: _text(value) for section, value in sections.items()}


def digests(sections: Mapping[str, str], keys: Sequence[RedactionKey]) -> Mapping[str, str]:
    """Section → a digest of its settings under the first of the keys; with the section ``KEYS``."""
    found = {KEYS: " ".join(key.id for key in keys)}
    for section, text in sections.items():
        found[section] = _digest(keys[0], section, text)
    return found


def digests_of_entries(entries: str, keys: Sequence[RedactionKey]) -> Sequence[str]:
    """Digests of the entries of a ``select``, under each of the keys: a leader may use a former one."""
    return [_digest(key, "select", entries) for key in keys]


def _digest(key: RedactionKey, section: str, text: str) -> str:
    digest = key.digest(b"kubedelta settings", section.encode(), text.encode("utf-8", "surrogatepass"))
    return digest.rpartition(":")[2][:_DIGITS]


def differing(own: Mapping[str, str], others: Mapping[str, str]) -> tuple[str, ...]:
    """The sections that are not equal, in the order of their names. ``KEYS`` alone if the keys differ. None for a
    replica that published no digests."""
    if not others:
        return ()
    if own.get(KEYS) != others.get(KEYS):
        return (KEYS,)
    return tuple(sorted(each for each in own.keys() | others.keys() if own.get(each) != others.get(each)))


def _text(value: object) -> str:
    return msgspec.json.encode(_plain(value), order="deterministic").decode()


def _plain(value: object) -> Any:
    """As JSON has it: sections without their defaults and without paths."""
    match value:
        case BaseModel():
            fields = type(value).model_fields
            members = ((name, getattr(value, name)) for name in fields)
            return {
                name: _plain(member)
                for name, member in members
                if not isinstance(member, Path) and member != fields[name].get_default(call_default_factory=True)
            }
        case Mapping():
            return {str(name): _plain(member) for name, member in value.items() if not isinstance(member, Path)}
        case bool() | None:
            return value
        case str():
            return str(value)
        case int():
            return int(value)
        case float():
            return float(value)
        case set() | frozenset():
            return sorted(_text(each) for each in value)
        case Sequence():
            return [_plain(each) for each in value if not isinstance(each, Path)]
        case _:
            return str(value)
