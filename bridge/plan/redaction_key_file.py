"""Loads the redaction keys: from the operator's files, or from a file that the bridge creates in
``state.directory``."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from pathlib import Path

from bridge.outbox import StateError
from bridge.plan.key_file import read_key_file
from bridge.plan.plan import Plan
from bridge.plan.private_file import write_private
from bridge.transform.redaction import Redaction
from bridge.transform.redaction_key import SHORTEST_KEY, RedactionKey

KEY_FILE = "redaction.key"


def load_keys(key_file: Path | None, former: Sequence[Path], state: Path) -> tuple[RedactionKey, ...]:
    """The key in ``key_file``, without white space around it, and the former keys. Without ``key_file``, the first key
    is that in ``state``, which the first call creates (mode 0600, fsynced before this returns); the caller holds the
    lock of that directory.

    Raises StateError with the file's name, and never with its content.
    """
    made = state / KEY_FILE
    try:
        if key_file is None and not os.path.lexists(made):
            write_private(made, secrets.token_hex(32) + "\n")
    except OSError as error:
        raise StateError(f"state.directory: cannot make {made}: {error.strerror}") from error
    return read_keys(key_file, former, state)


def read_keys(key_file: Path | None, former: Sequence[Path], state: Path) -> tuple[RedactionKey, ...]:
    """Like ``load_keys``, without creating a key. Raises StateError."""
    files = {f"redaction.former_key_files[{index}]": file for index, file in enumerate(former)}
    first = ("state.directory", state / KEY_FILE) if key_file is None else ("redaction.key_file", key_file)
    keys: dict[str, RedactionKey] = {}
    for option, file in (first, *files.items()):
        key = _key(file, option)
        if key.id in keys:
            raise StateError(f"{option}: {file} has the same key as another file of redaction; name each key once")
        keys[key.id] = key
    return tuple(keys.values())


def likely_redaction(plan: Plan) -> Redaction:
    """The redaction of a run, for a command that only evaluates redacted objects. Before the first run there is no key
    in the state directory, and any key does."""
    try:
        keys = read_keys(plan.redaction_key_file, plan.former_key_files, plan.state)
    except StateError:
        keys = (RedactionKey(secrets.token_bytes(SHORTEST_KEY)),)
    return Redaction(keys, plan.presets, plan.redact)


def _key(file: Path, option: str) -> RedactionKey:
    return RedactionKey(read_key_file(file, option))
