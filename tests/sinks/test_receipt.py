"""The receipt that a sink makes of its results."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bridge.model.record import Record
from sinks.base import ALL_STORED, BatchResult, Receipt, RetryLater
from tests.contracts.rules import checked
from tests.kit.records import a_delta
from tests.kit.sinks import receipt_of

DOWN = RetryLater("down")


def records(names: str) -> list[Record]:
    return [a_delta(n, key=f"shop/{name}") for n, name in enumerate(names, 1)]


def even(record: Record) -> int:
    if record.sequence % 2:
        raise ValueError(f"{record.sequence} is odd")
    return record.sequence


def test_no_record_is_encoded_behind_a_record_without_a_form() -> None:
    result = BatchResult(records("abaab"))

    assert result.encode(even) == {1: 2}
    assert result.rejected == {0: "1 is odd", 4: "5 is odd"}
    assert BatchResult(records("aa")).encode(str) == {n: str(each) for n, each in enumerate(records("aa"))}


def test_no_record_is_sendable_at_or_behind_a_rejected_record() -> None:
    result = BatchResult(records("abaab"))
    assert result.sendable([0, 1, 2, 3, 4]) == [0, 1, 2, 3, 4]

    result.reject(3, "large")
    result.reject(2, "large")

    assert result.sendable([0, 1, 2, 3, 4]) == [0, 1, 4]


def test_all_records_of_an_object_behind_a_failure_are_pending() -> None:
    receipt = receipt_of(records("abcabc"), pending=[1], failure=DOWN, rejected={0: "large", 4: "large"})

    assert receipt == Receipt([1, 3, 4], DOWN, {0: "large"})


def test_records_blocked_by_a_rejection_alone_are_no_failure() -> None:
    assert receipt_of(records("aab"), failure=DOWN, rejected={0: "large"}) == Receipt([1], None, {0: "large"})
    assert receipt_of(records("ab")) is ALL_STORED


def test_the_answer_to_a_rejected_record_is_kept() -> None:
    result = BatchResult(records("ab"))
    result.reject(0, "large", "413")
    result.reject(1, "large")

    assert result.receipt().answers == {0: "413"}
    assert result.receipt([0], DOWN).answers == {}, "its rejection is reported again, in its turn"


@given(
    names=st.text("abc", min_size=1, max_size=20),
    failed=st.sets(st.integers(0, 19)),
    refused=st.sets(st.integers(0, 19)),
)
def test_every_receipt_keeps_its_promised_order(names: str, failed: set[int], refused: set[int]) -> None:
    batch = records(names)
    result = BatchResult(batch)
    for index in refused - failed:
        if index < len(batch):
            result.reject(index, "large")
    pending = result.sendable(index for index in sorted(failed) if index < len(batch))

    receipt = checked(batch, result.receipt(pending, DOWN))

    assert set(pending) <= set(receipt.pending)
    rejected = result.rejected.keys()
    assert receipt.rejected.keys() <= rejected <= receipt.rejected.keys() | set(receipt.pending)
