"""The keys of redaction and of the state: the operator's, or one that the bridge makes. A mistake has its option's
name."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from bridge.outbox import Cipher, StateError
from bridge.plan.keys import KEY_FILE, load_cipher, load_redaction_keys
from bridge.transform.redaction import Redaction, is_digest
from bridge.transform.redaction_key import RedactionKey
from tests.kit.configurations import a_plan
from tests.kit.records import PODS


def a_key(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text)
    return folder / name


def load_key(key_file: Path | None, state: Path) -> RedactionKey:
    (key,) = load_redaction_keys(key_file, (), state)
    return key


# ── Of redaction ─────────────────────────────────────────────────────────────


def test_a_key_is_made_once_for_each_state_and_is_for_the_bridge_alone(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    a_key(first, f"{KEY_FILE}.part", "half written")

    made = load_key(None, first)

    assert load_key(None, first).id == made.id
    assert stat.S_IMODE((first / KEY_FILE).stat().st_mode) == 0o600
    assert [file.name for file in first.iterdir()] == [KEY_FILE]
    assert load_key(None, second).id != made.id


def test_the_operators_key_is_used_whatever_state_there_is(tmp_path: Path) -> None:
    given = a_key(tmp_path, "given", "g" * 32 + "\n")
    (tmp_path / "state").mkdir()

    assert load_key(given, tmp_path / "state").id == RedactionKey(b"g" * 32).id
    assert not list((tmp_path / "state").iterdir())


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "No such file"),
        ("short-secret\n", "has 12 bytes"),
        ("", "has 0 bytes"),
        ("x" * 5000, "more than 4096"),
    ],
)
def test_an_unusable_key_is_named_by_its_option_and_not_shown(tmp_path: Path, content: str | None, reason: str) -> None:
    given = tmp_path / "given" if content is None else a_key(tmp_path, "given", content)

    with pytest.raises(StateError, match=rf"redaction\.key_file: .*given.*{reason}") as caught:
        load_key(given, tmp_path)
    assert "short-secret" not in str(caught.value)


def test_a_made_key_that_was_emptied_is_no_key(tmp_path: Path) -> None:
    a_key(tmp_path, KEY_FILE, "")

    with pytest.raises(StateError, match=r"state\.directory: .*redaction\.key has 0 bytes"):
        load_key(None, tmp_path)


def test_a_key_never_shows_itself() -> None:
    assert "k" * 32 not in repr(RedactionKey(b"k" * 32))


def test_a_renewed_key_signs_first_and_former_keys_beside_it(tmp_path: Path) -> None:
    made, new = load_key(None, tmp_path), a_key(tmp_path, "new", "n" * 32)

    during = load_redaction_keys(new, (tmp_path / KEY_FILE,), tmp_path)

    assert [key.id for key in during] == [RedactionKey(b"n" * 32).id, made.id]
    digest = Redaction(during).of_object(PODS, "shop/web")(b"value")
    assert digest == " ".join(Redaction((key,)).of_object(PODS, "shop/web")(b"value") for key in during)
    assert is_digest(digest)


def test_a_former_key_is_named_by_its_index_and_counts_once(tmp_path: Path) -> None:
    given = a_key(tmp_path, "given", "g" * 32)

    with pytest.raises(StateError, match=r"redaction\.former_key_files\[0\]: .*No such file"):
        load_redaction_keys(given, (tmp_path / "gone",), tmp_path)
    with pytest.raises(StateError, match=r"redaction\.former_key_files\[0\]: .*the same key"):
        load_redaction_keys(given, (given,), tmp_path)


# ── Of the state ─────────────────────────────────────────────────────────────


def cipher_of(folder: Path, *files: Path, encrypt_new: bool = True) -> Cipher | None:
    encryption = {"key_files": [str(each) for each in files], "encrypt_new": encrypt_new}
    return load_cipher(a_plan(folder, state={"directory": str(folder), "encryption": encryption}))


def test_the_first_key_encrypts_and_all_decrypt(tmp_path: Path) -> None:
    first, second = a_key(tmp_path, "first", "1" * 64 + "\n"), a_key(tmp_path, "second", "2" * 64)
    cipher = cipher_of(tmp_path, first, second)
    assert cipher is not None
    assert (next(iter(cipher.keys)), len(cipher.keys), cipher.encrypts) == (cipher.first.id, 2, True)
    again = cipher_of(tmp_path, a_key(tmp_path, "again", "1" * 64), encrypt_new=False)
    assert again is not None
    assert (again.first.id, again.encrypts) == (cipher.first.id, False)
    assert cipher_of(tmp_path) is None


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["short"], r"key_files\[0\]: .*one has 5 bytes; a key of 32 to 4096 bytes is expected"),
        (["1" * 32, "1" * 32], r"key_files\[1\]: .*two has the same key as another file"),
        (["1" * 32, None], r"key_files\[1\]: cannot read .*two: No such file"),
    ],
    ids=["a short key", "a key twice", "a missing file"],
)
def test_a_wrong_file_of_the_state_is_named_and_never_shown(tmp_path: Path, texts: list[str | None], said: str) -> None:
    files = [tmp_path / name for name, _ in zip(("one", "two"), texts, strict=False)]
    for file, text in zip(files, texts, strict=True):
        if text is not None:
            file.write_text(text)
    with pytest.raises(StateError, match=rf"^state\.encryption\.{said}") as raised:
        cipher_of(tmp_path, *files)
    assert "short" not in str(raised.value)
    assert "11111" not in str(raised.value)
