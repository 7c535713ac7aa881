"""The contenders of a benchmark: a command, its arguments, and the place where its records arrive."""

from __future__ import annotations

import re
import struct
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml

from benchmarks.build import CLIENT_GO, FSYNCS, KUBE_RS, PYTHON_CLIENT, Program, provide
from benchmarks.destinations import Destination, File, Hook, KafkaTopics, NatsStream, SinkDestination, Tally
from benchmarks.processes import Child
from benchmarks.servers import Brokers, LoadServer
from tests.cluster.servers.ports import reserve_port


@dataclass(frozen=True, slots=True)
class Place:
    """Where a contender runs."""

    folder: Path
    server: LoadServer
    brokers: Brokers


class Contender(ABC):
    @abstractmethod
    def destinations(self, place: Place) -> Sequence[Destination]:
        """Fresh ones, for one run."""

    @abstractmethod
    def command(self, place: Place, destinations: Sequence[Destination]) -> Sequence[str | Path]:
        """To be called once for each run: it may write files."""

    @abstractmethod
    def environ(self, place: Place, destinations: Sequence[Destination], records: int) -> Mapping[str, str]:
        """``records``: after how many it may end."""

    ends_itself = True
    """The contender ends by itself after all records; otherwise the harness ends it."""

    def waited(self, place: Place) -> tuple[float, float] | None:
        """For how many seconds it waited until now, from handing records over to their acknowledgement, in how many
        times; None for one that does not say."""
        return None

    def fsyncs(self, place: Place) -> int | None:
        """Calls of fsync until now; None for a contender that is not counted."""
        return None

    def close(self) -> None:  # noqa: B027 (most start a single process)
        """Called when the run is over: ends what was started beside the process that is measured."""

    def start(self, place: Place, destinations: Sequence[Destination], records: int) -> Child:
        environ = self.environ(place, destinations, records)
        return Child(self.command(place, destinations), environ, place.folder / "contender.log")


class Bridge(Contender):
    """`kubedelta run` as a user runs it: a file that names cluster, resources, state and sinks, and these options; all
    else by default."""

    ends_itself = False

    def __init__(
        self,
        *sinks: str,
        tls: bool = False,
        flags: Sequence[str] = (),
        count_fsyncs: bool = False,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._sinks = sinks
        self._options = options or {}
        self._tls = tls
        self._flags = flags
        self._count_fsyncs = count_fsyncs

    def destinations(self, place: Place) -> Sequence[Destination]:
        return [self._destination(name, place) for name in self._sinks]

    @staticmethod
    def _destination(name: str, place: Place) -> SinkDestination:
        match name:
            case "kafka":
                return KafkaTopics(place.brokers.kafka, place.server.load)
            case "nats":
                return NatsStream(place.brokers.nats)
            case "file":
                return File(place.folder)
            case "webhook":
                return Hook(place.server, batch=1)
            case "webhook-100":
                return Hook(place.server, batch=100)
        raise LookupError(name)

    def command(self, place: Place, destinations: Sequence[Destination]) -> Sequence[str | Path]:
        config = place.folder / "kubedelta.yaml"
        config.write_text(yaml.safe_dump(dict(self.configuration(place, destinations))))
        return [Path(sys.executable).with_name("kubedelta"), "run", "-c", config, *self._flags]

    def configuration(self, place: Place, destinations: Sequence[Destination]) -> Mapping[str, Any]:
        """What the file says. Makes the state directory that it names."""
        (place.folder / "state").mkdir(exist_ok=True)
        load = place.server.load
        first = [load.name] if load.pods else []
        widgets = [f"widgets{number:03d}.load.kubedelta.test" for number in range(load.widgets)]
        cluster = {"server": place.server.url}
        if self._tls:
            cluster = {"server": place.server.tls_url, "ca_file": str(place.server.ca_file)}
        named = zip(self._sinks, destinations, strict=True)
        return {
            "cluster": {"name": "load", **cluster},
            "resources": [*first, *widgets],
            "state": {"directory": "./state"},
            "sinks": {name: each.sink() for name, each in named if isinstance(each, SinkDestination)},
            "telemetry": {"listen": f"127.0.0.1:{reserve_port()}"},
            **self._options,
        }

    def waited(self, place: Place) -> tuple[float, float] | None:
        listen = yaml.safe_load((place.folder / "kubedelta.yaml").read_text())["telemetry"]["listen"]
        metrics = httpx.get(f"http://{listen}/metrics", trust_env=False).raise_for_status().text
        seconds, times = (
            sum(map(float, re.findall(rf"^kubedelta_sink_delivery_seconds_{each}{{.*}} (.*)$", metrics, re.MULTILINE)))
            for each in ("sum", "count")
        )
        return seconds, times

    def fsyncs(self, place: Place) -> int | None:
        counter = _fsync_counter(place)
        return struct.unpack("<Q", counter.read_bytes())[0] if counter.exists() else None

    def environ(self, place: Place, destinations: Sequence[Destination], records: int) -> Mapping[str, str]:
        if not self._count_fsyncs:
            return {}
        _fsync_counter(place).write_bytes(bytes(8))
        return {"LD_PRELOAD": str(provide(FSYNCS, print) / "fsyncs.so"), "FSYNCS": str(_fsync_counter(place))}


class Peer(Contender):
    """What somebody would write who needs a resource in Kafka, and no more: see `peers`. Without Kafka the JSON is
    discarded."""

    def __init__(self, program: Program, *command: str, kafka: bool = True) -> None:
        self._program = program
        self._command = command
        self._kafka = kafka

    def destinations(self, place: Place) -> Sequence[Destination]:
        return [KafkaTopics(place.brokers.kafka, place.server.load) if self._kafka else Tally(place.folder)]

    def command(self, place: Place, destinations: Sequence[Destination]) -> Sequence[str | Path]:
        built = provide(self._program, print)
        return [built / self._command[0], *(self._program.sources / each for each in self._command[1:])]

    def environ(self, place: Place, destinations: Sequence[Destination], records: int) -> Mapping[str, str]:
        return _received(place, records) | _brokers(destinations) | _tally(destinations)


class Floor(Contender):
    """See `floor/stream.py`."""

    def __init__(self, *, kafka: bool) -> None:
        self._kafka = kafka

    def destinations(self, place: Place) -> Sequence[Destination]:
        topics = [KafkaTopics(place.brokers.kafka, place.server.load)] if self._kafka else []
        return [*topics, Tally(place.folder)]

    def command(self, place: Place, destinations: Sequence[Destination]) -> Sequence[str | Path]:
        return [sys.executable, Path(__file__).parent / "floor" / "stream.py"]

    def environ(self, place: Place, destinations: Sequence[Destination], records: int) -> Mapping[str, str]:
        return _received(place, records) | _brokers(destinations) | _tally(destinations)


def _fsync_counter(place: Place) -> Path:
    """See `fsyncs/fsyncs.c`."""
    return place.folder / "fsyncs"


def _received(place: Place, records: int) -> dict[str, str]:
    return {"SERVER": place.server.url, "RESOURCE": place.server.load.resource, "RECORDS": str(records)}


def _brokers(destinations: Sequence[Destination]) -> dict[str, str]:
    kafka = [each for each in destinations if isinstance(each, KafkaTopics)]
    return {"BROKERS": kafka[0].kafka.bootstrap, "TOPIC": kafka[0].first} if kafka else {}


def _tally(destinations: Sequence[Destination]) -> dict[str, str]:
    tallies = [each for each in destinations if isinstance(each, Tally)]
    return {"TALLY": str(tallies[0].path)} if tallies else {}


PEERS: Mapping[str, Contender] = {
    "client-go dynamic": Peer(CLIENT_GO, "dynamic"),
    "client-go typed": Peer(CLIENT_GO, "typed"),
    "kube-rs": Peer(KUBE_RS, "bin/kube-rs-peer"),
    "python client": Peer(PYTHON_CLIENT, "bin/python", "peer.py"),
}
KUBE_RS_ALONE: Mapping[str, Contender] = {"kube-rs without Kafka": Peer(KUBE_RS, "bin/kube-rs-peer", kafka=False)}
