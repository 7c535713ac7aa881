"""What stands on both sides of a contender: the load server, and the brokers of the testbed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from benchmarks.build import LOAD, CannotBuild, provide
from tests.cluster import build as testbed
from tests.cluster.recipes import KAFKA, Recipe
from tests.cluster.servers import Kafka, Nats, Server
from tests.cluster.servers.ports import reserve_port
from tests.cluster.servers.process import says_ok


@dataclass(frozen=True, slots=True)
class Load:
    """What an API server has, and how it tells it."""

    pods: int = 10_000
    """Objects of the first resource."""
    size: str = "8"
    """KB of a pod, or mixed, or the name of another object in `load/objects`."""
    resource: str = "/v1/pods/Pod"
    """The first resource: group/version/plural/kind."""
    widgets: int = 0
    """Further resources."""
    widget_objects: int = 1
    """Objects of each of these."""

    @property
    def plural(self) -> str:
        return self.resource.split("/")[2]

    @property
    def name(self) -> str:
        """As a configuration names the first resource."""
        return f"{self.plural}.{self.resource.split('/')[0]}".rstrip(".")

    @property
    def objects(self) -> int:
        return self.pods + self.widgets * self.widget_objects


class LoadServer(Server):
    """The API server that is measured against, over plain HTTP and TLS at once. It also receives webhooks."""

    def __init__(self, folder: Path, load: Load) -> None:
        super().__init__(folder)
        self.load = load
        address = f"127.0.0.1:{reserve_port()}"
        self.url = f"http://{address}"
        secured = f"127.0.0.1:{reserve_port()}"
        self.tls_url = f"https://{secured}"
        self.ca_file = folder / "ca.pem"
        self.hook_url = f"{self.url}/load/hook"
        self._flags = ["-listen", address, "-tls-listen", secured, "-ca-file", str(self.ca_file)]
        self._binary = provide(LOAD, print) / "load"

    def command(self) -> Sequence[str | Path]:
        has = {
            "pods": self.load.pods,
            "resource": self.load.resource,
            "size": self.load.size,
            "widgets": self.load.widgets,
            "widget-objects": self.load.widget_objects,
        }
        return [self._binary, *self._flags, *(f"-{name}={value}" for name, value in has.items())]

    def is_ready(self) -> bool:
        return says_ok(f"{self.url}/load/stats")

    def stats(self) -> dict[str, Any]:
        """What it did until now, and what that cost it; see load/stats.go."""
        found: dict[str, Any] = self._ask("GET", "stats").json()
        return found

    def arrivals(self) -> list[tuple[int, int]]:
        """When each object was written that a webhook has brought back since the last ``go``, and when it arrived, in
        nanoseconds since 1970."""
        found: list[tuple[int, int]] = self._ask("GET", "arrivals").json() or []
        return found

    def go(self, events: int, rate: float = 0) -> None:
        """Give so many objects a new version: all at once, or so many a second."""
        self._ask("POST", f"go?events={events}&rate={rate}")

    def forget_requests(self) -> None:
        self._ask("POST", "forget")

    def _ask(self, method: str, path: str) -> httpx.Response:
        answer = httpx.request(method, f"{self.url}/load/{path}", trust_env=False, verify=False, timeout=30)
        return answer.raise_for_status()


@dataclass(slots=True)
class Brokers:
    """Started when they are first needed, and kept for all runs."""

    folder: Path
    say: Callable[[str], None]
    _kafka: Kafka | None = field(default=None, init=False)
    _nats: Nats | None = field(default=None, init=False)

    @property
    def kafka(self) -> Kafka:
        """Raises CannotBuild where it cannot be had."""
        if self._kafka is None:
            # What was measured is deleted at once, or the disk fills.
            properties = {"log.segment.delete.delay.ms": "1000", "log.retention.check.interval.ms": "5000"}
            self._kafka = Kafka(self.folder / "kafka", self._built(KAFKA), properties).start()
        return self._kafka

    @property
    def nats(self) -> Nats:
        if self._nats is None:
            self._nats = Nats(self.folder / "nats").start()
        return self._nats

    def _built(self, recipe: Recipe) -> Path:
        match testbed.provide(recipe, self.say):
            case testbed.Built(_, folder, _):
                return folder
            case testbed.ToolchainMissing(_, reason) | testbed.BuildFailed(_, reason):
                raise CannotBuild(reason)

    def stop(self) -> None:
        for server in (self._kafka, self._nats):
            if server is not None:
                server.stop()


@contextmanager
def brokers(folder: Path, say: Callable[[str], None]) -> Iterator[Brokers]:
    """Stopped at the end, whichever were started."""
    made = Brokers(folder, say)
    try:
        yield made
    finally:
        made.stop()
