"""The body codec: bodies survive packing, with a dictionary or without, and damage is noticed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from bridge.model.change import Change, ChangeBatch, Evidence, Op
from bridge.model.object import ApiObject
from bridge.model.policies import StartPolicy
from bridge.model.resource import Scope
from bridge.outbox import Outbox
from bridge.outbox import outbox as outbox_module
from bridge.outbox.encryption import Place
from bridge.outbox.log.body_codec import FIRST_NUMBER, BodyCodec, Dictionary, make_dictionary
from bridge.outbox.storage.database import one, open_reader
from bridge.outbox.storage.directory_lock import FILE
from bridge.telemetry.facts import discard
from tests.kit.deadlines import BUSY
from tests.kit.records import PODS

KIND, OTHER = 1, 2


def a_body(number: int) -> bytes:
    """An object's worth of JSON, 2 KB, alike but not the same."""
    lines = [f'{{"name":"VARIABLE_{each * each}","value":"{hash((number, each)) & 0xFFFF:x}"}}' for each in range(50)]
    return f'{{"metadata":{{"name":"web-{number}"}},"spec":{{"env":[{",".join(lines)}]}}}}'.encode()


BODIES = [a_body(number) for number in range(600)]


def learned(bodies: BodyCodec, kind: int = KIND, samples: Sequence[bytes] = tuple(BODIES)) -> Dictionary:
    dictionary = make_dictionary(kind, samples)
    assert dictionary is not None
    bodies.learn(dictionary)
    return dictionary


def test_enough_samples_of_a_kind_are_kept_and_given_once() -> None:
    bodies = BodyCodec()
    assert not bodies.sample(KIND, BODIES[:20])
    assert bodies.take_samples() is None

    assert bodies.sample(KIND, BODIES)
    assert not bodies.sample(OTHER, [b"{}"] * len(BODIES))
    found = bodies.take_samples()
    assert found is not None
    kind, samples = found
    assert kind == KIND
    assert set(samples) <= set(BODIES)
    assert 1 << 20 <= sum(map(len, samples)) < 2 << 20

    assert not bodies.sample(KIND, BODIES)
    assert bodies.take_samples() is None


def test_a_dictionary_makes_bodies_smaller_and_lossless() -> None:
    bodies = BodyCodec()
    plain = [bodies.pack(KIND, body) for body in BODIES]
    other = bodies.pack(OTHER, BODIES[0])
    learned(bodies)
    packed = [bodies.pack(KIND, body) for body in BODIES]

    assert sum(map(len, packed)) < 0.8 * sum(map(len, plain))
    assert [bodies.unpack(each, Place.body, 1) for each in packed] == BODIES
    assert [bodies.unpack(each, Place.body, 1) for each in plain] == BODIES, (
        "bodies packed before the dictionary stay readable"
    )
    assert bodies.pack(OTHER, BODIES[0]) == other, "another kind has no part in it"


def test_a_start_knows_the_dictionaries_of_the_one_before() -> None:
    bodies = BodyCodec()
    dictionary = learned(bodies)
    packed = bodies.pack(KIND, BODIES[0])

    assert BodyCodec([dictionary]).unpack(packed, Place.body, 1) == BODIES[0]
    with pytest.raises(ValueError, match=f"needs dictionary {FIRST_NUMBER + KIND}"):
        BodyCodec().unpack(packed, Place.body, 1)


@pytest.mark.parametrize("with_dictionary", [False, True])
def test_one_changed_byte_is_noticed(with_dictionary: bool) -> None:
    bodies = BodyCodec()
    if with_dictionary:
        learned(bodies)
    packed = bytearray(bodies.pack(KIND, BODIES[0]))
    packed[len(packed) // 2] ^= 1

    with pytest.raises(ValueError, match="damaged"):
        bodies.unpack(bytes(packed), Place.body, 1)


@pytest.mark.parametrize("packed", [b"", b"no frame", BODIES[0]])
def test_a_body_that_is_no_frame_is_an_error(packed: bytes) -> None:
    with pytest.raises(ValueError, match="not a packed body"):
        BodyCodec().unpack(packed, Place.body, 1)


def test_nothing_in_common_makes_no_dictionary() -> None:
    assert make_dictionary(KIND, [b""] * 100) is None


async def test_enough_samples_have_their_dictionary_long_before_a_tick(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox_module, "TICK", 3600)
    async with (
        await Outbox.open(tmp_path, {"copy": StartPolicy.NOW}, report=discard) as outbox,
        asyncio.timeout(3 * BUSY),
        asyncio.TaskGroup() as tasks,
    ):
        running = tasks.create_task(outbox.run())
        await outbox.ledger.adopt(PODS, [Scope()])
        await outbox.append(ChangeBatch(PODS, Scope(), added("web", 1), "600"))
        with closing(open_reader(tmp_path / FILE)) as database:
            while not one(database, "SELECT count(*) FROM dictionaries"):  # noqa: ASYNC110  # nothing announces it
                await asyncio.sleep(0.01)
        running.cancel()


def added(name: str, version: int) -> list[Change]:
    """Of all bodies, with versions from ``version`` on."""
    objects = [
        ApiObject(f"shop/{name}-{number}", f"{name}-{number}", str(version + number), body)
        for number, body in enumerate(BODIES)
    ]
    return [Change(Op.ADDED, Evidence.LISTED, thing) for thing in objects]


async def test_an_outbox_trains_a_dictionary_and_keeps_it_on_restart(tmp_path: Path) -> None:
    more = added("more", 1000)
    facts: list[object] = []
    async with await Outbox.open(tmp_path, {"copy": StartPolicy.NOW}, report=facts.append) as outbox:
        await outbox.ledger.adopt(PODS, [Scope()])
        await outbox.append(ChangeBatch(PODS, Scope(), added("web", 1), "600"))
        plain = outbox.size
        await outbox.maintain()
        await outbox.append(ChangeBatch(PODS, Scope(), more[:1], "1000"))  # Behind the dictionary, on its way to disk.
        await outbox.append(ChangeBatch(PODS, Scope(), more[1:], "1599"))
        assert outbox.size - plain < 0.8 * plain

    async with await Outbox.open(tmp_path, {"copy": StartPolicy.NOW}, report=facts.append) as outbox:
        assert [outbox.body(number) for number in range(1, 1201)] == BODIES * 2
        assert (await outbox.check()).problems == []
