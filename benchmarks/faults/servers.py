"""The servers of all faults, and the three brokers of one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.build import CannotBuild
from benchmarks.faults.stage import NAMES
from tests.cluster import build as testbed
from tests.cluster.recipes import ETCD, KAFKA, KUBERNETES, Recipe
from tests.cluster.servers import KafkaBehindALine, KafkaCluster, Nats
from tests.kit.breakable import Breakable, breakable_servers

_TIMES = {"log.message.timestamp.type": "LogAppendTime"}
"""Records have the time at which the broker appended them."""


@contextmanager
def servers(folder: Path, say: Callable[[str], None]) -> Iterator[Breakable]:
    """Raises CannotBuild where one cannot be had; so does the next one."""
    with (
        KafkaBehindALine(folder / "kafka", _built(KAFKA, say), _TIMES, lines=len(NAMES)) as kafka,
        Nats(folder / "nats") as nats,
        breakable_servers(folder, _built(ETCD, say), _built(KUBERNETES, say), kafka, nats) as found,
    ):
        yield found


@contextmanager
def three_brokers(folder: Path, say: Callable[[str], None]) -> Iterator[KafkaCluster]:
    with KafkaCluster(folder, _built(KAFKA, say), _TIMES) as kafka:
        yield kafka


def _built(recipe: Recipe, say: Callable[[str], None]) -> Path:
    match testbed.provide(recipe, say):
        case testbed.Built(_, folder, _):
            return folder
        case testbed.ToolchainMissing(_, reason) | testbed.BuildFailed(_, reason):
            raise CannotBuild(reason)
