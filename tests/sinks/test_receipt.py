"""What sinks make their receipts with."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bridge.model.record import Record
from sinks.base import ALL_STORED, Receipt, RetryLater, encode_each, not_following, receipt_of
from tests.contracts.rules import checked
from tests.kit.records import a_delta

DOWN = RetryLater("down")


def records(names: str) -> list[Record]:
    return [a_delta(n, key=f"shop/{name}") for n, name in enumerate(names, 1)]


def even(record: Record) -> int:
    if record.sequence % 2:
        raise ValueError(f"{record.sequence} is odd")
    return record.sequence


def test_what_follows_a_record_without_a_form_is_not_encoded() -> None:
    forms, rejected = encode_each(records("abaab"), even)

    assert forms == {1: 2}
    assert rejected == {0: "1 is odd", 4: "5 is odd"}
    assert encode_each(records("aa"), str) == ({n: str(each) for n, each in enumerate(records("aa"))}, {})


def test_records_behind_a_rejected_one_are_separated_from_before() -> None:
    assert not_following(records("abaab"), [0, 1, 2, 3, 4], {2: ""}) == [0, 1, 2, 4]
    assert not_following(records("ab"), [1], {}) == [1]


def test_everything_behind_an_objects_first_failure_is_pending() -> None:
    receipt = receipt_of(records("abcabc"), pending=[1], trouble=DOWN, rejected={0: "large", 4: "large"})

    assert receipt == Receipt([1, 3, 4], DOWN, {0: "large"})


def test_only_rejected_records_in_the_way_are_no_failure() -> None:
    assert receipt_of(records("aab"), trouble=DOWN, rejected={0: "large"}) == Receipt([1], None, {0: "large"})
    assert receipt_of(records("ab"), trouble=None) is ALL_STORED


@given(
    names=st.text("abc", min_size=1, max_size=20),
    failed=st.sets(st.integers(0, 19)),
    refused=st.sets(st.integers(0, 19)),
)
def test_whatever_failed_the_receipt_keeps_its_promise(names: str, failed: set[int], refused: set[int]) -> None:
    batch = records(names)
    rejected = {place: "large" for place in refused - failed if place < len(batch)}
    pending = not_following(batch, [place for place in sorted(failed) if place < len(batch)], rejected)

    receipt = checked(batch, receipt_of(batch, pending=pending, trouble=DOWN, rejected=rejected))

    assert set(pending) <= set(receipt.pending)
    assert receipt.rejected.keys() <= rejected.keys() <= receipt.rejected.keys() | set(receipt.pending)
