"""The outbox in memory: sequence, bounds, cursors."""

from __future__ import annotations

from bridge.model.change import Change, ChangeBatch, Evidence, Op
from bridge.model.object import ApiObject
from bridge.model.resource import Resource, Scope
from bridge.outbox.memory import MemoryOutbox, utc_now

PODS = Resource("", "v1", "pods", "Pod", namespaced=True)


def an_outbox(max_records: int = 100, max_bytes: int = 1 << 20) -> MemoryOutbox:
    return MemoryOutbox(max_records=max_records, max_bytes=max_bytes, clock=lambda: "2026-01-01T00:00:00.000000Z")


def a_batch(*names: str, body: bytes = b"{}", epoch: int = 1) -> ChangeBatch:
    changes = [Change(Op.ADDED, Evidence.WATCHED, ApiObject(f"shop/{name}", f"u-{name}", "7", body)) for name in names]
    return ChangeBatch(PODS, Scope(), changes, "7", epoch)


async def test_records_are_numbered_in_the_order_of_the_changes_and_carry_when_they_were_seen() -> None:
    outbox = an_outbox()
    outbox.register("audit")

    first = await outbox.append(a_batch("a", "b"))
    second = await outbox.append(a_batch("c", epoch=3))

    assert [(record.sequence, record.key) for record in (*first, *second)] == [
        (1, "shop/a"),
        (2, "shop/b"),
        (3, "shop/c"),
    ]
    assert second[0].id == "u-c/7/added"
    assert (second[0].epoch, second[0].time) == (3, "2026-01-01T00:00:00.000000Z")


async def test_what_every_sink_has_settled_is_dropped_and_what_one_has_not_is_kept() -> None:
    outbox = an_outbox()
    outbox.register("fast")
    outbox.register("slow")
    await outbox.append(a_batch("a", "b", "c"))

    outbox.settle("fast", 3)
    assert outbox.records == 3
    outbox.settle("slow", 2)

    assert [record.sequence for record in (await outbox.read(0, 10)).items] == [3]


async def test_a_sink_that_is_forgotten_holds_back_nothing() -> None:
    outbox = an_outbox()
    outbox.register("removed")
    outbox.register("here")
    await outbox.append(a_batch("a", "b"))
    outbox.forget("removed")

    outbox.settle("here", 2)

    assert outbox.records == 0


async def test_a_full_outbox_drops_its_oldest_records_and_a_reader_sees_where_it_begins() -> None:
    outbox = an_outbox(max_records=2)
    outbox.register("stuck")

    await outbox.append(a_batch("a", "b", "c", "d"))

    found = await outbox.read(0, 10)
    assert (found.first, [record.sequence for record in found.items]) == (3, [3, 4])


async def test_bytes_are_a_bound_as_well() -> None:
    outbox = an_outbox(max_bytes=1000)
    outbox.register("stuck")

    await outbox.append(a_batch("a", "b", "c", body=b"x" * 400))

    assert (outbox.records, outbox.bytes) == (2, 800)


async def test_without_any_sink_nothing_is_kept() -> None:
    outbox = an_outbox()

    await outbox.append(a_batch("a", "b"))

    assert (outbox.records, outbox.last) == (0, 2)


async def test_a_sink_that_registers_later_has_settled_what_was_before_it() -> None:
    outbox = an_outbox()
    await outbox.append(a_batch("a", "b"))

    assert outbox.register("late") == 2
    assert outbox.cursor("late") == 2


def test_a_cursor_never_moves_back() -> None:
    outbox = an_outbox()
    outbox.register("audit")
    outbox.settle("audit", 5)
    outbox.settle("audit", 3)

    assert outbox.cursor("audit") == 5


def test_times_are_utc_with_microseconds() -> None:
    assert len(utc_now()) == len("2026-01-01T00:00:00.000000Z")
    assert utc_now().endswith("Z")
