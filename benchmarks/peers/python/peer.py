"""The official Python client's watch, and confluent-kafka: what it tells to Kafka as JSON, each acknowledged."""

from __future__ import annotations

import json
import os
import resource
import time
from typing import Any

from confluent_kafka import KafkaError, Message, Producer
from kubernetes import client, watch

OPS = {"ADDED": "added", "MODIFIED": "updated", "DELETED": "deleted"}


class Exporter:
    def __init__(self) -> None:
        self.acknowledged = 0
        self._topic = os.environ["TOPIC"]
        self._producer = Producer(
            {
                "bootstrap.servers": os.environ["BROKERS"],
                "enable.idempotence": True,
                "acks": "all",
                "compression.type": "lz4",
            }
        )

    def send(self, event: dict[str, Any]) -> None:
        op = OPS.get(event["type"])
        if op is None:
            return
        pod = event["raw_object"]
        meta = pod["metadata"]
        value = json.dumps(pod, separators=(",", ":"))
        headers = {"op": op, "uid": meta["uid"], "resourceversion": meta["resourceVersion"]}
        while True:
            try:
                self._producer.produce(
                    self._topic,
                    value,
                    f"{meta['namespace']}/{meta['name']}",
                    headers=headers,
                    on_delivery=self._delivered,
                )
                break
            except BufferError:
                self._producer.poll(0.1)
        self._producer.poll(0)

    def flush(self) -> None:
        self._producer.flush()

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            raise SystemExit(f"not delivered: {error}")
        self.acknowledged += 1


def main() -> None:
    began = time.monotonic()
    records = int(os.environ["RECORDS"])
    configuration = client.Configuration(host=os.environ["SERVER"])
    configuration.ssl_ca_cert = os.environ.get("CA_FILE")
    pods = client.CoreV1Api(client.ApiClient(configuration))
    exporter = Exporter()
    # Without a version the server begins with what there is.
    for sent, event in enumerate(watch.Watch().stream(pods.list_pod_for_all_namespaces), 1):
        exporter.send(event)
        if sent == records:
            break
    exporter.flush()
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(
        json.dumps(
            {
                "records": exporter.acknowledged,
                "cpu_seconds": used.ru_utime + used.ru_stime,
                "wall_seconds": time.monotonic() - began,
                "max_rss_bytes": used.ru_maxrss * 1024,
            }
        )
    )


if __name__ == "__main__":
    main()
