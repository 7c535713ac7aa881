"""The key of the digests: the operator's, or one that the bridge makes and keeps."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from bridge.outbox.errors import StateError
from bridge.plan.keys import KEY_FILE, load_redaction_keys
from bridge.transform.redaction import Redaction, is_digest
from bridge.transform.redaction_key import RedactionKey


def load_key(key_file: Path | None, state: Path) -> RedactionKey:
    (key,) = load_redaction_keys(key_file, (), state)
    return key


SECRET = b"correct horse battery staple, twice"


def test_a_key_is_made_once_and_is_for_the_bridge_alone(tmp_path: Path) -> None:
    made = load_key(None, tmp_path)

    assert load_key(None, tmp_path).digest(b"value") == made.digest(b"value")
    assert stat.S_IMODE((tmp_path / KEY_FILE).stat().st_mode) == 0o600
    assert [file.name for file in tmp_path.iterdir()] == [KEY_FILE]


def test_two_states_have_two_keys(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()

    assert load_key(None, first).id != load_key(None, second).id


def test_a_half_written_key_is_made_again(tmp_path: Path) -> None:
    (tmp_path / f"{KEY_FILE}.part").write_text("dead")

    assert load_key(None, tmp_path).id == load_key(None, tmp_path).id


def test_the_operators_key_is_used_whatever_state_there_is(tmp_path: Path) -> None:
    given = tmp_path / "given"
    given.write_bytes(SECRET + b"\n")
    state = tmp_path / "state"
    state.mkdir()

    assert load_key(given, state).digest(b"value") == load_key(given, tmp_path).digest(b"value")
    assert not list(state.iterdir())


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "No such file"),
        (b"short-secret\n", "has 12 bytes"),
        (b"", "has 0 bytes"),
        (b"x" * 5000, "more than 4096"),
    ],
)
def test_an_unusable_key_is_named_by_its_option_and_not_shown(
    tmp_path: Path, content: bytes | None, reason: str
) -> None:
    given = tmp_path / "given"
    if content is not None:
        given.write_bytes(content)

    with pytest.raises(StateError, match=r"redaction\.key_file: .*given") as caught:
        load_key(given, tmp_path)
    assert reason in str(caught.value)
    assert "short-secret" not in str(caught.value)


def test_a_made_key_that_was_emptied_is_no_key(tmp_path: Path) -> None:
    load_key(None, tmp_path)
    (tmp_path / KEY_FILE).write_bytes(b"")

    with pytest.raises(StateError, match=r"state\.directory: .*redaction\.key has 0 bytes"):
        load_key(None, tmp_path)


def test_a_key_never_shows_itself() -> None:
    assert "k" * 32 not in repr(RedactionKey(b"k" * 32))


def test_a_renewed_key_signs_first_and_former_keys_beside_it(tmp_path: Path) -> None:
    new, old = tmp_path / "new", tmp_path / "old"
    new.write_bytes(b"n" * 32)
    old.write_bytes(b"o" * 32)

    before = Redaction(load_redaction_keys(old, (), tmp_path)).digest(b"value")
    during = Redaction(load_redaction_keys(new, (old,), tmp_path)).digest(b"value")
    after = Redaction(load_redaction_keys(new, (), tmp_path)).digest(b"value")

    assert during == f"{after} {before}"
    assert is_digest(during)


def test_a_key_of_the_state_may_be_a_former_key(tmp_path: Path) -> None:
    made = load_key(None, tmp_path)
    new = tmp_path / "new"
    new.write_bytes(b"n" * 32)

    assert [key.id for key in load_redaction_keys(new, (tmp_path / KEY_FILE,), tmp_path)] == [
        RedactionKey(b"n" * 32).id,
        made.id,
    ]


def test_a_former_key_is_named_by_its_index_and_counts_once(tmp_path: Path) -> None:
    given = tmp_path / "given"
    given.write_bytes(SECRET)

    with pytest.raises(StateError, match=r"redaction\.former_key_files\[0\]: .*No such file"):
        load_redaction_keys(given, (tmp_path / "gone",), tmp_path)
    with pytest.raises(StateError, match=r"redaction\.former_key_files\[0\]: .*the same key"):
        load_redaction_keys(given, (given,), tmp_path)
