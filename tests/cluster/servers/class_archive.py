"""Java's class data sharing for Kafka: what a broker loads at its start is read, checked and laid out once for all."""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import Producer

from tests.cluster.servers.kafka import Kafka, class_archive


class _Archivist(Kafka):
    """Writes the archive when it ends."""

    stop_timeout = 120.0

    def __init__(self, folder: Path, build: Path, archive: Path) -> None:
        super().__init__(folder, build)
        self._archive = archive

    def sharing(self) -> Sequence[str]:
        return [f"-XX:ArchiveClassesAtExit={self._archive}"]


def share_classes(build: Path) -> None:
    """Puts an archive of classes beside the jars, unless it is there: brokers then start in half the CPU time. Takes
    seconds. Two processes that ask at once make it once."""
    with (build / "classes.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        archive = class_archive(build)
        if archive.exists():
            return
        draft = archive.with_suffix(".partial")
        with tempfile.TemporaryDirectory() as folder, _Archivist(Path(folder) / "kafka", build, draft) as broker:
            _use(broker)
        if draft.exists():
            draft.rename(archive)


def _use(broker: Kafka) -> None:
    """What tests do first is in the archive, too."""
    broker.create_topic("first")
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce("first", b"value")
    producer.flush(30)
    broker.read_all("first")
