"""What a Kafka sink knows again after a restart."""

from __future__ import annotations

from sinks.kafka.memory import MAX_MARKED_PARTITIONS, KafkaMemory


def test_what_is_saved_is_known_again() -> None:
    memory = KafkaMemory()
    memory.add_gap("gap/1/5", marked=False)
    memory.add_gap("gap/7/9", marked=True)
    for partition in (0, 0, 3):
        memory.count("snapshot/audit/9", "k8s.pods", partition)
    again = KafkaMemory.read(memory.saved())

    assert (again.newest_gap, again.unmarked_gap) == ("gap/7/9", "gap/1/5")
    assert again.counts_of("snapshot/audit/9") == {"k8s.pods": {0: 2, 3: 1}}
    assert again.counts_of("snapshot/audit/10") == {}, "of another snapshot"


def test_an_older_gap_that_comes_again_is_not_the_newest() -> None:
    memory = KafkaMemory()
    for gap in ("gap/1/5", "gap/90/100", "gap/7/9"):
        memory.add_gap(gap, marked=False)

    assert memory.newest_gap == memory.unmarked_gap == "gap/90/100"


def test_more_partitions_than_get_a_marker_are_not_counted() -> None:
    memory = KafkaMemory()
    for partition in range(MAX_MARKED_PARTITIONS):
        memory.count("snapshot/audit/9", "k8s.pods", partition)
    assert memory.counts_of("snapshot/audit/9") is not None
    memory.count("snapshot/audit/9", "k8s.nodes", 0)

    assert memory.counts_of("snapshot/audit/9") is None
    assert KafkaMemory.read(memory.saved()).counts_of("snapshot/audit/9") is None
    assert len(memory.saved()) < 200


def test_an_unreadable_checkpoint_is_an_unknown_gap() -> None:
    for damaged in (b"{", b'{"newest":5}', b"\xff"):
        memory = KafkaMemory.read(damaged)
        assert memory.newest_gap == memory.unmarked_gap != ""
