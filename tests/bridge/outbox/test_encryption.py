"""Objects' content is encrypted at rest: no file has a piece of it, keys can be exchanged, and nothing is swapped
unnoticed."""

from __future__ import annotations

import secrets
import sys
from pathlib import Path

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.model.object import ApiObject
from bridge.model.policies import StartPolicy
from bridge.model.record import Delta, NewDeadLetter
from bridge.outbox import Cipher, EncryptionKey, Outbox, Retention, StateError, StateUnusable, look_at
from bridge.outbox import encryption as renewal
from bridge.outbox.encryption import Place, is_sealed
from bridge.outbox.log import body_codec
from bridge.outbox.storage.state_directory import StateDirectory
from bridge.telemetry.facts import Fact, discard
from bridge.telemetry.facts.outbox import OutboxRebuilt
from tests.bridge.outbox.opened import AUDIT, crashed, everything, feeds_of, look_for_room_often, opened, rows_of
from tests.kit.informed import Informed

FORMER, NEW = EncryptionKey(b"former key " * 4), EncryptionKey(b"new key " * 4)
SINKS = dict.fromkeys(("audit", "slow"), StartPolicy.NOW)
WITH_BEFORE = Retention(before=True, retain_bytes=1 << 30)


def a_cipher(*keys: EncryptionKey, encrypts: bool = True) -> Cipher:
    return Cipher(keys or (NEW,), encrypts=encrypts)


COMPRESSED = (b"\x28\xb5\x2f\xfd\x24", b"\x28\xb5\x2f\xfd\x64", b"\x37\xa4\x30\xec")
"""The beginnings of packed bodies and of dictionaries, in which texts cannot be found."""


class Telling(Informed):
    """Its bodies, and the answers of its destinations, have secrets that no file may have."""

    def __init__(self) -> None:
        super().__init__()
        self.secrets: list[bytes] = []

    def secret(self) -> str:
        # Half a secret is looked for, since a frame of zstd may cut a text where it repeats.
        text = secrets.token_hex(24)
        self.secrets += [text[:24].encode(), text[24:].encode()]
        return text

    def _object(self, key: str, uid: str) -> ApiObject:
        plain = super()._object(key, uid)
        body = plain.body[:-1] + f',"secret":"{self.secret()}"}}'.encode()
        return ApiObject(key, plain.uid, plain.resource_version, body)

    def found_in(self, directory: Path) -> list[tuple[str, bytes]]:
        files = {each.name: each.read_bytes() for each in directory.iterdir() if each.is_file()}
        looked_for = (*self.secrets, *COMPRESSED)
        return [(name, each) for name, content in files.items() for each in looked_for if each in content]


async def lives(directory: Path, pods: Telling, cipher: Cipher | None) -> None:
    """A state with bodies, states before, dead letters, a compacted backlog and a dictionary, and a copy of its files
    as a kill leaves them, in ``killed``."""
    async with opened(directory, SINKS, retention=WITH_BEFORE, cipher=cipher) as outbox:
        feed = feeds_of(outbox).feed("slow")
        await pods.begin(outbox)
        added = await pods.exports(outbox, *(f"added shop/{number}" for number in range(40)))
        await outbox.maintain()
        dead_letters = outbox.sinks.dead_letters["audit"]
        await dead_letters.add_dead_letters(
            [NewDeadLetter(added[0], pods.secret(), parked=False, answer=pods.secret())]
        )
        await dead_letters.rejected_again(1, pods.secret(), pods.secret())
        feed.settle(await feed.take(100))
        await pods.exports(outbox, *(f"updated shop/{number}" for number in range(0, 40, 2)))
        await pods.exports(outbox, *(f"updated shop/{number}" for number in range(0, 40, 4)), "deleted shop/39")
        await feed.compact()
        await outbox.maintain()
        crashed(directory, directory.parent / "killed")


@pytest.fixture
def trained_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_codec, "_SAMPLES", 20)
    monkeypatch.setattr(body_codec, "_SAMPLE_BYTES", 1_000)
    monkeypatch.setattr(body_codec, "_DICTIONARY_BYTES", 1_000)


# ── Files ────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("trained_early")
@pytest.mark.parametrize("cipher", [None, a_cipher()], ids=["without keys", "with a key"])
async def test_no_file_has_a_piece_of_a_body(tmp_path: Path, cipher: Cipher | None) -> None:
    state, pods = tmp_path / "state", Telling()
    state.mkdir()
    await lives(state, pods, cipher)

    columns = {
        f"{table}.{column}": [
            value for (value,) in rows_of(state, f"SELECT {column} FROM {table} WHERE {column} IS NOT NULL")
        ]
        for table, column in (
            ("log", "body"),
            ("log", "before"),
            ("dictionaries", "content"),
            ("dead_letters", "record"),
            ("dead_letters", "sealed"),
            ("backfill_items", "before"),
        )
    }
    if cipher is None:
        seen = {each for _, each in pods.found_in(state)}
        assert not seen.isdisjoint(COMPRESSED), "the same search finds what is not encrypted"
        assert not seen.isdisjoint(pods.secrets)
        assert columns.pop("dead_letters.sealed") == []
        assert [name for name, values in columns.items() if not values] == []
        return
    assert pods.found_in(state) == pods.found_in(tmp_path / "killed") == []
    assert all(columns.values())
    assert all(is_sealed(value) for values in columns.values() for value in values if isinstance(value, bytes))
    for directory in (tmp_path / "killed", state):
        async with opened(directory, SINKS, retention=WITH_BEFORE, cipher=a_cipher()) as outbox:
            assert (await outbox.check()).problems == []
            found = {each.key: each.body for each in await everything(outbox) if isinstance(each, Delta)}
            assert found == {**pods.bodies, "shop/39": found["shop/39"]}
            [dead] = await outbox.dead_letters("audit", 0, 10)
            texts = [each.decode() for each in pods.secrets]
            assert all(part in texts for text in (dead.reason, dead.answer) for part in (text[:24], text[24:]))
            assert isinstance(await outbox.dead_letter(dead.number), Delta)
            feed, received = feeds_of(outbox).feed("slow"), []
            while not feed.exhausted:
                fetch = await feed.take(100)
                received += [each for each in fetch.items if isinstance(each, Delta)]
                feed.settle(fetch)
            assert {each.key: each.body for each in received}.items() <= found.items()
            assert any(each.before for each in received)


# ── Frames ───────────────────────────────────────────────────────────────────


@given(content=st.binary(max_size=300), number=st.integers(0, 2**63 - 1), data=st.data())
def test_a_frame_is_read_as_written_at_its_place_alone(content: bytes, number: int, data: st.DataObject) -> None:
    cipher = a_cipher(NEW, FORMER)
    frame = cipher.seal(Place.body(number), content)
    assert a_cipher(FORMER, NEW).open(Place.body(number), frame) == content
    assert cipher.seal(Place.body(number), content) != frame

    other = data.draw(st.integers(0, 2**63 - 1).filter(lambda each: each != number))
    for place in (Place.body(other), Place.before(number)):
        with pytest.raises(ValueError, match="changed, or moved here"):
            cipher.open(place, frame)
    at = data.draw(st.integers(8, len(frame) - 1))
    changed = bytearray(frame)
    changed[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(ValueError, match="changed, or moved here"):
        cipher.open(Place.body(number), bytes(changed))
    with pytest.raises(ValueError, match="cut off"):
        cipher.open(Place.body(number), frame[: data.draw(st.integers(4, 47))])


def test_each_start_has_a_key_of_its_own() -> None:
    ciphers = [a_cipher() for _ in range(20)]
    assert len({each.seal(Place.body(1), b"")[8:24] for each in ciphers}) == 20
    frames = {ciphers[0].seal(Place.body(1), b"")[:32] for _ in range(100)}
    assert len(frames) == 100


def test_a_key_is_never_printed() -> None:
    for text in map(repr, (NEW, a_cipher())):
        assert "new key" not in text


@pytest.mark.parametrize("keys", [(), (NEW, NEW)])
def test_a_cipher_needs_different_keys(keys: tuple[EncryptionKey, ...]) -> None:
    with pytest.raises(ValueError, match="different ids"):
        Cipher(keys)


def test_without_the_library_a_start_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
    with pytest.raises(StateUnusable, match=r"install kubedelta\[encryption\]"):
        a_cipher()


# ── Keys come and go ─────────────────────────────────────────────────────────


async def maintained(outbox: Outbox, times: int = 3) -> dict[str, int]:
    for _ in range(times):
        await outbox.maintain()
        await outbox.sinks.dead_letters["audit"].retry(None)  # Behind the other writes.
    report = await outbox.check()
    assert report.problems == []
    return report.bytes_by_key


@pytest.mark.usefixtures("trained_early")
async def test_older_content_moves_to_the_first_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state, pods = tmp_path / "state", Telling()
    state.mkdir()
    await lives(state, pods, None)
    monkeypatch.setattr(renewal, "_RECORDS", 30)

    async with opened(state, AUDIT, retention=WITH_BEFORE, cipher=a_cipher(FORMER)) as outbox:
        assert (await outbox.check()).bytes_by_key[""] > 0
        assert (await maintained(outbox, 4)).keys() == {"", FORMER.id}
    async with opened(state, AUDIT, retention=WITH_BEFORE, cipher=a_cipher(NEW, FORMER)) as outbox:
        await outbox.sinks.dead_letters["audit"].drop(None)
        left = await maintained(outbox, 4)
        assert left[FORMER.id] == 0
        assert left[NEW.id] > 0
    async with opened(state, AUDIT, retention=WITH_BEFORE, cipher=a_cipher(NEW)) as outbox:
        found = {each.key: each.body for each in await everything(outbox) if isinstance(each, Delta)}
        assert {key: found[key] for key in pods.bodies} == pods.bodies
        assert FORMER.id not in await maintained(outbox)


async def test_encryption_can_be_left(tmp_path: Path) -> None:
    async with opened(tmp_path, cipher=a_cipher()) as outbox:
        await (await Informed().begin(outbox)).exports(outbox, "added shop/a")
    async with opened(tmp_path, cipher=a_cipher(encrypts=False)) as outbox:
        await (await Informed().begin(outbox)).exports(outbox, "updated shop/a", position="101")
        assert (await maintained(outbox)).items() > {NEW.id: 0}.items()
    async with opened(tmp_path) as outbox:
        assert (await outbox.check()).problems == []


@pytest.mark.parametrize("only_existing", [False, True])
@pytest.mark.parametrize("cipher", [None, a_cipher(FORMER)], ids=["no key", "another key"])
async def test_a_missing_key_is_no_damage(tmp_path: Path, cipher: Cipher | None, only_existing: bool) -> None:
    async with opened(tmp_path, cipher=a_cipher()) as outbox:
        await (await Informed().begin(outbox)).exports(outbox, "added shop/a")
    with pytest.raises(StateError, match=f"^state.encryption.key_files: no file has the key {NEW.id}"):
        await Outbox.open(tmp_path, AUDIT, report=discard, cipher=cipher, only_existing=only_existing)
    with look_at(tmp_path) as look:
        assert look is not None
        assert look.missing_keys(cipher) == [NEW.id]
    facts: list[Fact] = []
    async with opened(tmp_path, facts=facts, cipher=a_cipher(FORMER, NEW)) as outbox:
        assert [each.key for each in await everything(outbox) if isinstance(each, Delta)] == ["shop/a"]
    assert not any(isinstance(each, OutboxRebuilt) for each in facts)


async def test_a_key_that_only_has_the_id_is_refused(tmp_path: Path) -> None:
    async with opened(tmp_path, cipher=a_cipher()):
        pass
    alike = EncryptionKey(b"alike" * 10)
    alike.id = NEW.id
    with pytest.raises(StateError, match=f"another key with the id {NEW.id}"):
        await Outbox.open(tmp_path, AUDIT, report=discard, cipher=a_cipher(alike))


# ── Damage ───────────────────────────────────────────────────────────────────

SWAPS = {
    "bodies of two records": "UPDATE log SET body = (SELECT body FROM log o WHERE o.seq <> log.seq)",
    "a body and the state before": "UPDATE log SET body = before WHERE before IS NOT NULL",
    "a cut body": "UPDATE log SET body = substr(body, 1, 40)",
}


@pytest.mark.parametrize("swap", SWAPS.values(), ids=SWAPS.keys())
async def test_content_that_was_changed_or_moved_is_damage(tmp_path: Path, swap: str) -> None:
    async with opened(tmp_path, retention=WITH_BEFORE, cipher=a_cipher()) as outbox:
        pods = await Informed().begin(outbox)
        await pods.exports(outbox, "added shop/a", "added shop/b")
        await pods.exports(outbox, "updated shop/b")
    connection = apsw.Connection(str(tmp_path / "outbox.db"), vfs="cksmvfs")
    connection.execute("DELETE FROM log WHERE FALSE")
    connection.execute(swap)
    connection.close()

    async with opened(tmp_path, retention=WITH_BEFORE, cipher=a_cipher()) as outbox:
        report = await outbox.check()
    assert any("cannot be read: an encrypted frame" in each for each in report.problems)


async def test_a_pass_over_older_content_is_made_once(tmp_path: Path) -> None:
    """A pass reads the whole log, so a start without a new key makes none."""
    async with opened(tmp_path) as outbox:
        await (await Informed().begin(outbox)).exports(outbox, "added shop/a")
    complete = "SELECT complete FROM encryption_keys"
    for keys, wanted in [((FORMER,), [(1,)]), ((FORMER,), [(1,)]), ((NEW, FORMER), [(0,), (1,)])]:
        async with opened(tmp_path, cipher=a_cipher(*keys)) as outbox:
            await maintained(outbox, 1)
        assert sorted(rows_of(tmp_path, complete)) == wanted
    async with opened(tmp_path, cipher=a_cipher(NEW, FORMER, encrypts=False)) as outbox:
        await maintained(outbox, 1)
    assert set(rows_of(tmp_path, complete)) == {(0,)}


async def test_a_full_disk_delays_the_pass_and_no_cursor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    look_for_room_often(monkeypatch)
    async with opened(tmp_path) as outbox:
        await (await Informed().begin(outbox)).exports(outbox, "added shop/a")
    free = [0]
    monkeypatch.setattr(StateDirectory, "free_bytes", lambda _: free[0])
    async with opened(tmp_path, retention=Retention(min_free=64 << 20), cipher=a_cipher()) as outbox:
        feed = feeds_of(outbox).feed("audit")
        while not feed.exhausted:
            feed.settle(await feed.take(10))
        for _ in range(3):
            await outbox.maintain()
        assert rows_of(tmp_path, "SELECT settled FROM cursors") == [(outbox.last,)]
        assert (await outbox.check()).bytes_by_key[""] > 0
        free[0] = 1 << 40
        assert (await maintained(outbox)).keys() == {NEW.id}
