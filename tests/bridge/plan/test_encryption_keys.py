"""The keys of the state come from files, and each mistake has the name of its option."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridge.cli.settings import load_settings
from bridge.outbox import StateError
from bridge.plan.keys import load_cipher
from bridge.plan.plan import Plan
from bridge.plan.plan_from_settings import plan_of


def a_plan(folder: Path, *files: Path, encrypt_new: bool = True) -> Plan:
    path = folder / "kubedelta.yaml"
    path.write_text(
        f"""
cluster: {{name: test, server: "http://127.0.0.1:1"}}
resources: [pods]
state: {{directory: {folder}, encryption: {{key_files: {[str(each) for each in files]}, encrypt_new: {encrypt_new}}}}}
sinks: {{copy: {{type: file, path: {folder}/deltas.ndjson}}}}
"""
    )
    return plan_of(load_settings(path), path)


def a_key(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text)
    return folder / name


def test_the_first_key_encrypts_and_all_decrypt(tmp_path: Path) -> None:
    first, second = a_key(tmp_path, "first", "1" * 64 + "\n"), a_key(tmp_path, "second", "2" * 64)
    cipher = load_cipher(a_plan(tmp_path, first, second))
    assert cipher is not None
    assert (next(iter(cipher.keys)), len(cipher.keys), cipher.encrypts) == (cipher.first.id, 2, True)
    again = load_cipher(a_plan(tmp_path, a_key(tmp_path, "again", "1" * 64), encrypt_new=False))
    assert again is not None
    assert (again.first.id, again.encrypts) == (cipher.first.id, False)


def test_without_files_nothing_is_encrypted(tmp_path: Path) -> None:
    assert load_cipher(a_plan(tmp_path)) is None


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["short"], r"key_files\[0\]: .*one has 5 bytes; a key of 32 to 4096 bytes is expected"),
        (["1" * 32, "1" * 32], r"key_files\[1\]: .*two has the same key as another file"),
        (["1" * 32, None], r"key_files\[1\]: cannot read .*two: No such file"),
    ],
    ids=["a short key", "a key twice", "a missing file"],
)
def test_a_wrong_file_is_named_and_never_shown(tmp_path: Path, texts: list[str | None], said: str) -> None:
    files = [tmp_path / name for name, _ in zip(("one", "two"), texts, strict=False)]
    for file, text in zip(files, texts, strict=True):
        if text is not None:
            file.write_text(text)
    with pytest.raises(StateError, match=rf"^state\.encryption\.{said}") as raised:
        load_cipher(a_plan(tmp_path, *files))
    assert "short" not in str(raised.value)
    assert "11111" not in str(raised.value)
