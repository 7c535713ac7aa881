"""Loads the keys of the content in the state directory."""

from __future__ import annotations

from bridge.outbox import KEY_FILES_OPTION, Cipher, EncryptionKey, StateError
from bridge.plan.key_file import read_key_file
from bridge.plan.plan import Plan


def load_cipher(plan: Plan) -> Cipher | None:
    """None without key files. Raises StateError with the option and the file's name, and never with its content."""
    keys: dict[str, EncryptionKey] = {}
    for index, file in enumerate(plan.encryption_key_files):
        option = f"{KEY_FILES_OPTION}[{index}]"
        key = EncryptionKey(read_key_file(file, option))
        if key.id in keys:
            raise StateError(f"{option}: {file} has the same key as another file; name each key once")
        keys[key.id] = key
    return Cipher(tuple(keys.values()), encrypts=plan.encrypt_new) if keys else None
