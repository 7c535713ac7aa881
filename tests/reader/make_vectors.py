"""Makes the vectors that sinks have encoded: ``python -m tests.reader.make_vectors``.

A history of the bridge's own records (changes, other uids, selections, gaps, snapshots, repetitions) is encoded as each
sink does it. What comes out is what the reader in Python says of it; a test compares the files with this, and the
reader in Go with the files.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from bridge.model.change import Evidence, Op
from bridge.model.record import Delta, Record, Snapshot, SnapshotEdge
from sinks.file.options import FileOptions
from sinks.file.sink import FileEncoder
from sinks.kafka.encode import KafkaEncoder
from sinks.kafka.options import KafkaOptions
from sinks.nats.encode import NatsEncoder
from sinks.nats.options import NatsOptions
from tests.kit.records import DEPLOYMENTS, PODS, TIME, a_delta, a_gap
from tests.reader.test_vectors import READER, outcome

CLUSTER = "prod"
OBJECTS = [(resource, f"shop/{name}") for resource in (PODS, DEPLOYMENTS) for name in "abc"]


class History:
    """What a bridge delivers, by chance."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._sequence = 0
        self._snapshots = 0
        self._present: dict[int, Delta] = {}
        """Number of an object → its newest record."""
        self.records: list[Record] = []

    def grow(self, steps: int) -> Sequence[Record]:
        for _ in range(steps):
            match self._chance.choices(["change", "lose", "snapshot", "again"], [14, 1, 1, 2])[0]:
                case "change":
                    self.records.append(self._change())
                case "lose":
                    lost = [self._change() for _ in range(self._chance.randint(1, 3))]
                    self.records.append(a_gap(lost[0].sequence, lost[-1].sequence))
                case "snapshot":
                    self.records += self._snapshot()
                case _:
                    self.records += self.records[-self._chance.randint(1, 6) :]
        return self.records

    def _change(self) -> Delta:
        self._sequence += 1
        number = self._chance.randrange(len(OBJECTS))
        resource, key = OBJECTS[number]
        known = self._present.get(number)
        kind = self._chance.choice(["updated", "updated", "deleted", "unselected", "replaced"])
        if known is None or kind == "replaced":
            found = a_delta(self._sequence, resource=resource, key=key, op=Op.ADDED, uid=f"uid-{self._sequence}")
        elif kind == "updated":
            found = a_delta(self._sequence, resource=resource, key=key, uid=known.uid)
        else:
            evidence = Evidence.UNSELECTED if kind == "unselected" else Evidence.WATCHED
            found = a_delta(self._sequence, resource=resource, key=key, uid=known.uid, op=Op.DELETED, evidence=evidence)
            del self._present[number]
            return found
        self._present[number] = found
        return found

    def _snapshot(self) -> Iterator[Record]:
        self._snapshots += 1
        began = Snapshot(
            edge=SnapshotEdge.BEGAN,
            sequence=self._sequence,
            sink="audit",
            count=len(self._present),
            time=TIME,
            number=self._snapshots,
        )
        yield began
        for known in self._present.values():
            yield replace(known, op=Op.SYNC, sequence=self._sequence, snapshot=began.snapshot, replay=self._snapshots)
        yield replace(began, edge=SnapshotEdge.ENDED)


def lines(records: Sequence[Record], form: str) -> Iterator[dict[str, Any]]:
    options = FileOptions.model_validate({"path": "audit.jsonl", "format": form})
    encoder = FileEncoder(options.events(CLUSTER), options.format)
    for line in map(encoder.encode, records):
        if line:
            yield json.loads(line)


def nats_messages(records: Sequence[Record]) -> Iterator[dict[str, Any]]:
    encoder = NatsEncoder(NatsOptions.model_validate({"servers": ["nats://127.0.0.1"], "stream": "K8S"}), CLUSTER)
    for message in map(encoder.encode, records):
        yield {"headers": message.headers, "payload": message.payload.decode()}


def kafka_messages(records: Sequence[Record]) -> Iterator[dict[str, Any]]:
    """A topic with one partition, and the topic of notices."""
    options = KafkaOptions.model_validate({"bootstrap_servers": "127.0.0.1:9092", "topic": "k8s.{resource}"})
    encoder = KafkaEncoder(options.events(CLUSTER), options, CLUSTER)
    for message in map(encoder.encode, records):
        headers = {name: value.decode() for name, value in message.headers.items()}
        for value in message.values:
            yield {"partition": f"{message.topic}/0", "headers": headers, "value": value and value.decode()}


def vectors() -> Iterator[dict[str, Any]]:
    """Without what the sinks send beside the records: markers, and the gap that rows and envelopes name."""
    made = [
        ("structured", "file", lines(History(1).grow(40), "cloudevents")),
        ("row", "rows", lines(History(2).grow(30), "row")),
        ("envelope", "envelopes", lines(History(3).grow(30), "envelope")),
        ("nats", "nats", nats_messages(History(4).grow(30))),
        ("kafka", "kafka", kafka_messages(History(5).grow(30))),
    ]
    for encoding, name, records in made:
        vector: dict[str, Any] = {
            "version": 1,
            "name": f"encoded-{name}",
            "why": "A history as the sink encodes it; python -m tests.reader.make_vectors made it.",
            "encoding": encoding,
            "partitioned": encoding == "kafka",
            "given": [{"record": record} for record in records],
        }
        found = outcome(vector)
        for each, steps in zip(vector["given"], found["steps"], strict=True):
            each["steps"] = steps
        yield vector | {"then": found["then"]}


def written() -> Iterator[tuple[Path, str]]:
    """Each file, with a line for each record."""
    for number, vector in enumerate(vectors(), 30):
        given = ",\n  ".join(json.dumps(each, ensure_ascii=False) for each in vector["given"])
        head = json.dumps({name: vector[name] for name in ("version", "name", "why", "encoding", "partitioned")})
        then = json.dumps(vector["then"], ensure_ascii=False)
        text = f'{head[:-1]},\n "given": [\n  {given}\n ],\n "then": {then}}}\n'
        yield READER / "vectors" / f"{number}-{vector['name']}.json", text


if __name__ == "__main__":
    for path, text in written():
        path.write_text(text, encoding="utf-8")
