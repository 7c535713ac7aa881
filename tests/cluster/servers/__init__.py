"""One class per server. Each runs a real process of its own folder and ports, and ends it by its process id."""

from tests.cluster.servers.controller_manager import ControllerManager
from tests.cluster.servers.etcd import Etcd
from tests.cluster.servers.kafka import AuthorizingKafka, Kafka, KafkaBehindALine
from tests.cluster.servers.kafka_cluster import KafkaCluster, KafkaNode
from tests.cluster.servers.kafka_topics import KafkaRecord, KafkaTopics
from tests.cluster.servers.kube_apiserver import KubeApiServer
from tests.cluster.servers.nats import Nats, NatsRecord
from tests.cluster.servers.process import Server, ServerFailed
from tests.cluster.servers.secured_kafka import SecuredKafka

__all__ = [
    "AuthorizingKafka",
    "ControllerManager",
    "Etcd",
    "Kafka",
    "KafkaBehindALine",
    "KafkaCluster",
    "KafkaNode",
    "KafkaRecord",
    "KafkaTopics",
    "KubeApiServer",
    "Nats",
    "NatsRecord",
    "SecuredKafka",
    "Server",
    "ServerFailed",
]
