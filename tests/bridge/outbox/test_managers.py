"""The field managers of a step: kept beside the bodies of records, across restarts, where a sink asks for them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from bridge.model.change import Change, Evidence, ObjectVersion, Op
from bridge.model.formats.content import behind, changed_in, entries_in, managers_of, parted, step
from bridge.model.object import ApiObject
from bridge.model.record import Delta
from bridge.outbox import Outbox, Retention
from tests.bridge.outbox.opened import everything, opened, rows_of
from tests.kit.informed import Informed

NAMING = Retention(managers=True, retain_age=3600)


def an_object(*entries: tuple[str, str]) -> bytes:
    """As the API server sends it: each entry is a manager and the second of its last change."""
    managed = [
        {"manager": name, "operation": "Update", "apiVersion": "v1", "time": second, "fieldsV1": {"f:spec": {}}}
        for name, second in entries
    ]
    return json.dumps({"metadata": {"name": "web", "managedFields": managed}}).encode()


def names(managers: bytes | None) -> list[str] | None:
    return None if managers is None else [each["manager"] for each in json.loads(managers)]


def test_an_entry_has_who_how_where_and_when() -> None:
    entry = {"manager": "kubelet", "operation": "Update", "subresource": "status", "time": "T"}
    fields = {"apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:status": {}}}
    body = json.dumps({"metadata": {"managedFields": [entry | fields]}}).encode()
    assert json.loads(managers_of(body)) == [entry]


def test_unusual_objects_have_no_managers() -> None:
    for body in (b"{}", b"[", b'{"metadata":{"managedFields":7}}', b'{"metadata":{"managedFields":[{"manager":7}]}}'):
        assert managers_of(body) == b""
    many = an_object(*[("m" * 1000, str(n)) for n in range(1000)])
    assert len(managers_of(many)) < 40_000, "untrusted sizes are bounded"


def test_a_step_names_the_entries_that_the_state_before_lacks() -> None:
    before = managers_of(an_object(("kubectl", "1"), ("kubelet", "1")))
    after = managers_of(an_object(("kubectl", "1"), ("kubelet", "2"), ("scaler", "2")))

    assert names(changed_in(step(before, after))) == ["kubelet", "scaler"]
    assert names(changed_in(step(after, after))) == [], "no manager is known to have changed anything"
    assert changed_in(step(None, after)) is None
    assert entries_in(step(before, after)) == after


@given(st.binary(max_size=50), st.text(max_size=50))
def test_managers_stand_behind_any_body(noise: bytes, name: str) -> None:
    body = msgspec.json.encode({"noise": noise, "name": name})
    managers = step(None, managers_of(an_object((name, "1"))))

    assert parted(behind(body, managers)) == (body, managers)
    assert parted(body) == (body, None)


@asynccontextmanager
async def informed(directory: Path) -> AsyncIterator[tuple[Outbox, Informed]]:
    async with opened(directory, retention=NAMING) as outbox:
        yield outbox, await Informed().begin(outbox)


async def export(outbox: Outbox, informer: Informed, *steps: tuple[str, str]) -> Sequence[Delta]:
    """A step is an op with a key, and the managers after it: ``updated shop/web``, ``kubectl=1 kubelet=2``."""
    changes: list[Change] = []
    for what, managers in steps:
        change = informer.change(what)
        entries: Any = [tuple(entry.split("=")) for entry in managers.split()]
        thing = msgspec.structs.replace(change.object, managers=managers_of(an_object(*entries)))
        changes.append(msgspec.structs.replace(change, object=thing))
    batch = informer.batch(changes, "100")
    deltas = await outbox.append(batch)
    informer.offload(batch, deltas)
    return deltas


def changed(deltas: Sequence[Any]) -> list[list[str] | None]:
    return [None if each.managers is None else names(changed_in(each.managers)) for each in deltas]


async def test_steps_are_compared_across_batches_and_restarts(tmp_path: Path) -> None:
    async with informed(tmp_path) as (outbox, informer):
        first = await export(outbox, informer, ("added shop/web", "a=1"), ("updated shop/web", "a=1 b=2"))
        second = await export(outbox, informer, ("updated shop/web", "a=3 b=2"))
        bodies = [each.body for each in (*first, *second)]
    async with informed(tmp_path) as (outbox, informer):
        third = await export(outbox, informer, ("updated shop/web", "a=3 b=2 c=4"), ("deleted shop/web", ""))
        found = await everything(outbox)
        assert outbox.body(3) == bodies[2], "a body is read without them"

    assert changed([*first, *second, *third]) == [None, ["b"], ["a"], ["c"], None]
    assert changed(found) == [None, ["b"], ["a"], ["c"], None]
    assert [each.body for each in found[:3] if isinstance(each, Delta)] == bodies


async def test_a_state_that_was_stored_without_managers_is_unknown(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        informer = await Informed().begin(outbox)
        await informer.exports(outbox, "added shop/web")
    async with informed(tmp_path) as (outbox, informer):
        assert changed(await export(outbox, informer, ("updated shop/web", "a=1"))) == [None]
        assert changed(await export(outbox, informer, ("updated shop/web", "a=2"))) == [["a"]]


async def test_without_a_wish_the_file_is_the_same(tmp_path: Path) -> None:
    bodies = []
    for number, managers in enumerate((b"", managers_of(an_object(("a", "1"))))):
        directory = tmp_path / str(number)
        directory.mkdir()  # a folder of the test
        async with opened(directory) as outbox:
            informer = await Informed().begin(outbox)
            thing = ApiObject("shop/web", "u", "1", b'{"a":1}', managers=managers)
            await outbox.append(informer.batch([Change(Op.ADDED, Evidence.WATCHED, thing)], "100"))
        bodies.append(rows_of(directory, "SELECT body FROM log"))

    assert bodies[0] == bodies[1]


async def test_a_new_object_of_a_name_knows_no_state_before(tmp_path: Path) -> None:
    async with informed(tmp_path) as (outbox, informer):
        await export(outbox, informer, ("added shop/web", "a=1"))
        known = informer.known["shop/web"]
        assert isinstance(known, ObjectVersion)
        deltas = await export(outbox, informer, ("deleted shop/web", ""), ("added shop/web", "a=1"))

    assert [each.managers is None for each in deltas] == [True, False]
    assert changed(deltas) == [None, None]
