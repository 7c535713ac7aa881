"""The order of resourceVersions, and what is known of many objects, in rows."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.model.change import ObjectVersion
from bridge.model.versions import VersionTable, is_older, newest_of

numbers = st.integers(0, 10**40)


@given(numbers, numbers)
def test_integers_of_any_length_are_ordered_as_numbers(one: int, other: int) -> None:
    assert is_older(str(one), str(other)) == (one < other)


@pytest.mark.parametrize("text", ["", "abc", "1a", "-1", "1.5", " 7", "7 ", "0x7"])
def test_nothing_is_claimed_of_text(text: str) -> None:
    assert not is_older(text, "9")
    assert not is_older("0", text)


@given(numbers, numbers)
def test_numbers_of_a_fixed_width_are_ordered_as_well(one: int, other: int) -> None:
    assert is_older(f"{one:050}", f"{other:050}") == (one < other)


@given(st.lists(st.one_of(st.none(), numbers.map(str)), max_size=5))
def test_the_newest_is_the_largest_of_those_that_are_known(versions: list[str | None]) -> None:
    known = [int(each) for each in versions if each is not None]
    assert newest_of(versions) == (str(max(known)) if known else None)


def test_of_versions_without_an_order_the_first_counts() -> None:
    assert newest_of([None, "b", "a"]) == "b"


# ── Known versions ───────────────────────────────────────────────────────────

UID = "0b6fb3a5-6d9f-4c1e-9d0a-3f1f0c5a7e11"
ODD_VERSIONS = (
    "",
    "0",
    "007",
    "-1",
    "+1",
    "1_000",
    " 7",
    "v12",
    "\x00",
    "7\x00",
    "１２",
    "é" * 9,
    "é" * 10,
    "9" * 18,
    "9223372036854775807",
    "9223372036854775808",
    "9" * 300,
)
ODD_UIDS = ("", "\x00", UID, UID + "-", UID[:-1] + "é", UID[:-2] + "é", "u" * 300)


@pytest.mark.parametrize("version", ODD_VERSIONS)
@pytest.mark.parametrize("uid", ODD_UIDS)
def test_any_version_and_any_uid_come_back_as_the_same_text(uid: str, version: str) -> None:
    others = {"shop/before": ObjectVersion(UID, "1", 1), "shop/after": ObjectVersion(UID, "2", 2)}
    table = VersionTable({"shop/before": others["shop/before"], "shop/web": ObjectVersion(UID, "3", 3), **others})

    table["shop/web"] = ObjectVersion(uid, version, b"{}")
    assert table["shop/web"] == ObjectVersion(uid, version, b"{}")
    table.offload("shop/web", 2**63 - 1)
    assert table["shop/web"] == ObjectVersion(uid, version, 2**63 - 1)
    table["shop/web"] = ObjectVersion(UID, "4", 4)
    assert dict(table) == others | {"shop/web": ObjectVersion(UID, "4", 4)}


@pytest.mark.parametrize("exported", ["", "7", "\x00", "é" * 9, "é" * 10, "9" * 300])
def test_a_digest_and_an_exported_version_come_back(exported: str) -> None:
    table = VersionTable({"shop/before": ObjectVersion(UID, "1", 1), "shop/web": ObjectVersion(UID, "2", 2, members=5)})
    ignoring = ObjectVersion(UID, "3", 3, 0, b"0123456789abcdef", exported)

    table["shop/web"] = ignoring
    table["shop/after"] = ObjectVersion(UID, "4", 4, 6, b"\x00" * 15 + b"\x01")

    assert table["shop/web"] == ignoring
    table.offload("shop/web", 5, 7)
    assert table["shop/web"] == ObjectVersion(UID, "3", 5, 7, b"0123456789abcdef", exported)
    assert table["shop/before"] == ObjectVersion(UID, "1", 1)
    assert table["shop/after"] == ObjectVersion(UID, "4", 4, 6, b"\x00" * 15 + b"\x01")
    del table["shop/web"]
    table["shop/heir"] = ObjectVersion(UID, "6", 6)
    assert table["shop/heir"] == ObjectVersion(UID, "6", 6)


@pytest.mark.parametrize("version", ["1", "1" * 300])
def test_what_rests_already_may_rest_elsewhere(version: str) -> None:
    table = VersionTable({"shop/web": ObjectVersion(UID, version, 1)})
    table.offload("shop/web", 2)

    assert table["shop/web"] == ObjectVersion(UID, version, 2)


def test_what_is_not_known_is_missing_and_cannot_rest() -> None:
    table = VersionTable({"shop/web": ObjectVersion(UID, "1", 1)})
    table.offload("shop/db", 2)

    assert (table.get("shop/db"), "shop/db" in table, len(table)) == (None, False, 1)
    with pytest.raises(KeyError, match="shop/db"):
        table["shop/db"]
    with pytest.raises(KeyError, match="shop/db"):
        del table["shop/db"]


@pytest.mark.parametrize(
    "left", [ObjectVersion(UID, "1", b"{}"), ObjectVersion(UID, "1", 1), ObjectVersion("u" * 300, "v" * 300, 1)]
)
def test_an_object_in_the_row_of_another_inherits_nothing(left: ObjectVersion) -> None:
    table = VersionTable({"shop/web": left, "shop/db": ObjectVersion("db", "2", 2)})
    del table["shop/web"]
    table["blog/web"] = ObjectVersion("web", "3", 3)

    assert list(table.items()) == [("shop/db", ObjectVersion("db", "2", 2)), ("blog/web", ObjectVersion("web", "3", 3))]


def test_objects_that_come_and_go_leave_nothing_in_memory() -> None:
    table = VersionTable({"shop/web": ObjectVersion(UID, "1", 1)})
    tracemalloc.start()
    try:
        for number in range(5_000):
            table[f"shop/job-{number}"] = ObjectVersion(f"uid-{number}", f"{number}", b"{}")
            table.offload(f"shop/job-{number}", number)
            del table[f"shop/job-{number}"]
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert size < 10_000


def test_an_update_leaves_no_new_allocation_in_the_heap() -> None:
    """Not even in place of something: what is made in a hole among many is slow to reach, and so are its neighbours."""
    numbers = range(10_000)
    table = VersionTable(
        {f"shop/web-{number}": ObjectVersion(f"{number:036}", f"{number}", number) for number in numbers}
    )
    tracemalloc.start()
    try:
        for number in numbers:
            table[f"shop/web-{number}"] = ObjectVersion(f"{number + 1:036}", f"{number + 10**9}", b"{}")
            table.offload(f"shop/web-{number}", number + 10**9)
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert table["shop/web-7"] == ObjectVersion(f"{8:036}", f"{7 + 10**9}", 7 + 10**9)
    assert size < 10_000


def test_the_newest_are_found_wherever_they_are_kept() -> None:
    table = VersionTable({f"shop/{number}": ObjectVersion(UID, str(number), number) for number in range(95, 106)})
    table["shop/bare"] = ObjectVersion(UID, "103", b"not at rest")
    table["shop/odd"] = ObjectVersion(UID, "no number", 7)
    del table["shop/105"]

    assert table.newest(4) == ["shop/104", "shop/bare", "shop/103", "shop/102"]
    assert len(table.newest(99)) == 12
    assert VersionTable().newest(1) == []
