"""A Kafka of three nodes goes on without any one of them."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from tests.cluster.servers import KafkaCluster

pytestmark = pytest.mark.long


def store(cluster: KafkaCluster, value: bytes) -> None:
    """In a transaction."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "test", "log_level": 0})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("topic", value)
    producer.commit_transaction(60)


def test_three_brokers_go_on_without_any_one_of_them(
    three_brokers: KafkaCluster,
) -> None:
    cluster = three_brokers
    cluster.create_topic("topic")
    store(cluster, b"with all")
    for role in (cluster.coordinator, cluster.controller):
        cluster.until_whole()
        node = role()
        node.kill9()
        store(cluster, b"without one")
        assert role() is not node
        node.start()
    cluster.until_whole()

    assert all(node.running for node in cluster.nodes.values())
    assert [each.value for each in cluster.read_all("topic")] == [b"with all", b"without one", b"without one"]
