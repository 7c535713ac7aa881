"""Reads the files with keys that the configuration names, and makes the key of redaction where it names none.

The keys for the content of the state come from the operator's files alone. Those of redaction come from the operator's
files, or the first comes from a file that the bridge makes once in ``state.directory`` (``write_private``: durable, and
readable by the bridge's user only). Every mistake is a StateError with the option and the file's name, and never with
the file's content.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

from bridge.kube import Catalogue
from bridge.model.object import ApiObject
from bridge.model.resource import Resource
from bridge.outbox import KEY_FILES_OPTION, Cipher, EncryptionKey, StateError
from bridge.plan.entries import rules_for
from bridge.plan.plan import Plan
from bridge.plan.private_file import write_private
from bridge.transform.redaction import Redaction
from bridge.transform.redaction_key import SHORTEST_KEY, RedactionKey
from bridge.transform.transform import transform_for

Key = TypeVar("Key", EncryptionKey, RedactionKey)
SHORTEST: Final = 32
LONGEST: Final = 4096
"""Bytes of a key."""
KEY_FILE = "redaction.key"
"""The file in the state directory with the key of redaction that the bridge made."""


def read_key_file(file: Path, option: str) -> bytes:
    """The key, without white space around it. ``option`` names the file in errors. Raises StateError with the file's
    name, and never with its content."""
    try:
        # O_NONBLOCK: a named pipe in the place of the file would block the start.
        with os.fdopen(os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as opened:
            content = opened.read(LONGEST + 1)
    except OSError as error:
        raise StateError(f"{option}: cannot read {file}: {error.strerror}") from error
    key = content.strip()
    if len(content) > LONGEST or len(key) < SHORTEST:
        found = f"more than {LONGEST}" if len(content) > LONGEST else str(len(key))
        raise StateError(
            f"{option}: {file} has {found} bytes; a key of {SHORTEST} to {LONGEST} bytes is expected, such as the"
            " output of `openssl rand -hex 32`"
        )
    return key


def load_cipher(plan: Plan) -> Cipher | None:
    """The cipher for the content of the state; None without key files. Raises StateError with the option and the file's
    name, and never with its content."""
    files = [(f"{KEY_FILES_OPTION}[{index}]", file) for index, file in enumerate(plan.encryption_key_files)]
    keys = _keys_in(files, EncryptionKey, "another file")
    return Cipher(keys, encrypts=plan.encrypt_new) if keys else None


def load_redaction_keys(key_file: Path | None, former: Sequence[Path], state: Path) -> tuple[RedactionKey, ...]:
    """The keys of redaction: that in ``key_file``, without white space around it, and the former ones. Without
    ``key_file``, the first key is that in ``state``, which the first call creates (mode 0600, fsynced before this
    returns); the caller holds the lock of that directory.

    Raises StateError with the file's name, and never with its content.
    """
    made = state / KEY_FILE
    try:
        if key_file is None and not os.path.lexists(made):
            write_private(made, secrets.token_hex(32) + "\n")
    except OSError as error:
        raise StateError(f"state.directory: cannot make {made}: {error.strerror}") from error
    return read_redaction_keys(key_file, former, state)


def read_redaction_keys(key_file: Path | None, former: Sequence[Path], state: Path) -> tuple[RedactionKey, ...]:
    """Like ``load_redaction_keys``, without creating a key. Raises StateError."""
    files = [(f"redaction.former_key_files[{index}]", file) for index, file in enumerate(former)]
    first = ("state.directory", state / KEY_FILE) if key_file is None else ("redaction.key_file", key_file)
    return _keys_in([first, *files], RedactionKey, "another file of redaction")


def _keys_in(files: Sequence[tuple[str, Path]], kind: Callable[[bytes], Key], others: str) -> tuple[Key, ...]:
    """``files``: each with its option. Raises StateError, also for a key that two files have."""
    keys: dict[str, Key] = {}
    for option, file in files:
        key = kind(read_key_file(file, option))
        if key.id in keys:
            raise StateError(f"{option}: {file} has the same key as {others}; name each key once")
        keys[key.id] = key
    return tuple(keys.values())


def likely_transform(plan: Plan, catalogue: Catalogue, resource: Resource) -> Callable[[ApiObject], ApiObject]:
    """The transform of the resource as in a run, for a command that only evaluates or compares redacted objects. Before
    the first run there is no key in the state directory, and any key does. Reads the files with keys."""
    try:
        keys = read_redaction_keys(plan.redaction_key_file, plan.former_key_files, plan.state)
    except StateError:
        keys = (RedactionKey(secrets.token_bytes(SHORTEST_KEY)),)
    redaction = Redaction(keys, plan.presets, plan.redact)
    return transform_for(resource, redaction.extended(rules_for(plan.wanted, resource, catalogue)))
