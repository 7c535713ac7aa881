"""Two replicas under load, and the rounds of a fault."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.faults.arrivals import Arrivals, kind_of, remembered
from benchmarks.faults.counting import Counts, Round, counted
from benchmarks.faults.destinations import Destinations, Lines, Ports
from tests.cluster.kube_client import KubeClient
from tests.cluster.servers import KafkaTopics, KubeApiServer
from tests.cluster.servers.ports import reserve_port
from tests.kit.breakable import Breakable
from tests.kit.bridge_process import BridgeProcess
from tests.kit.churn import KINDS, an_object, churning
from tests.kit.etcd_history import Happened, history
from tests.kit.replicas import Replicas
from tests.kit.rerouted import Rerouted
from tests.kit.small_disk import MEBIBYTE, SmallDisk, mounted_small_disk
from tests.kit.tcp_line import Line
from tests.kit.webhook_receiver import WebhookReceiver

NAMES = ("pod-0", "pod-1")
WRITERS, OBJECTS, PAUSE = 6, 4, 0.25
"""Of the load: its writers, the objects of each kind that each changes, and the seconds of its rest after a change.
That makes some 22 changes a second."""

_CAUGHT_UP_SECONDS = 300
_MARKER = "marker-"
_DISK = 160 * MEBIBYTE
"""More than the bridge keeps free, with room for a copy of the state."""


@dataclass(slots=True)
class Stage:
    servers: Breakable
    destinations: Destinations
    replicas: Replicas
    lines: Mapping[str, Lines]
    """Of each replica, by its name; empty if they reach the servers directly."""
    links: Mapping[str, Line]
    """To each replica while it leads, by its name; empty like ``lines``."""
    disks: Mapping[str, SmallDisk]
    """Of the state of each replica, by its name; empty if they are on the disk of all."""
    arrivals: Mapping[str, Arrivals]
    namespace: str
    load: AsyncExitStack
    """Closing it ends the load."""
    say: Callable[[str], None]
    judged: Sequence[str] = KINDS
    """See ``Fault.judged``."""
    reduced: Sequence[str] = ()
    """See ``Fault.reduced``."""
    rounds: dict[str, list[Round]] = field(default_factory=lambda: defaultdict(list))
    """Of each destination, by its name."""
    _happened: list[Happened] = field(default_factory=list)
    _since: int = 1
    _marks: int = 0

    # ── Rounds ───────────────────────────────────────────────────────────────

    async def ready(self) -> BridgeProcess:
        """Waits until one replica leads and both are ready. Returns the leader."""
        leader = await self.replicas.until_live(*KINDS)
        await self.replicas.until_ready()
        return leader

    def lines_of(self, replica: BridgeProcess) -> Lines:
        return self.lines[replica.folder.name]

    def link_to(self, replica: BridgeProcess) -> Line:
        return self.links[replica.folder.name]

    def disk_of(self, replica: BridgeProcess) -> SmallDisk:
        return self.disks[replica.folder.name]

    @asynccontextmanager
    async def round(self, *gone: str) -> AsyncIterator[Callable[[], None]]:
        """From the fault until all that happened is delivered. What it yields is called before a leader is ended, where
        that is later than the fault. ``gone``: destinations that take nothing until the last leader has ended."""
        began, ends = time.time(), list[float]()
        yield lambda: ends.append(time.time())
        await self.catch_up()
        ended = time.time()
        for name in self.arrivals:
            self.rounds[name].append(Round.of(began, ended, () if name in gone else ends))

    async def catch_up(self) -> None:
        """Waits until every destination has all that happened by now; one with a compacted backlog never gets an object
        that is deleted in there, and has the markers behind all others. If one has not after five minutes, the counts
        show it."""
        await self._mark()
        await self._remember()
        by = time.monotonic() + _CAUGHT_UP_SECONDS
        whole = list({each.uid: each for each in self._happened}.values())
        markers = [each for each in whole if each.subject.rpartition("/")[2].startswith(_MARKER)]
        owed = {name: markers if name in self.reduced else whole for name in self.arrivals}
        while behind := [name for name, each in self.arrivals.items() if not each.have(owed[name])]:
            if time.monotonic() > by:
                self.say(f"{', '.join(behind)}: not caught up after {_CAUGHT_UP_SECONDS} s")
                break
            await asyncio.sleep(0.2)
            await asyncio.gather(*(each.read_on() for each in self.arrivals.values()))

    async def _mark(self) -> None:
        """Makes one object of each kind, behind everything else."""
        self._marks += 1
        async with KubeClient(self.servers.api) as kube:
            for kind in self.judged:
                await kube.create(
                    f"/api/v1/namespaces/{self.namespace}/{kind}", an_object(kind, f"{_MARKER}{self._marks}")
                )

    async def _remember(self) -> None:
        prefixes = [f"{kind}/{self.namespace}/" for kind in self.judged]
        newest = await asyncio.to_thread(self.servers.etcd.revision)
        if newest >= self._since:
            found = await history(self.servers.etcd, *prefixes, since=self._since, through=newest)
            self._happened += remembered(found)
            self._since = newest + 1

    def keep(self, folder: Path) -> None:
        """Copies the logs of the replicas, and lists all arrivals."""
        folder.mkdir(parents=True, exist_ok=True)
        for replica in self.replicas.both:
            shutil.copy(replica.log, folder / f"{replica.folder.name}.log")
        for name, arrivals in self.arrivals.items():
            lines = (
                f"{each.at:.3f} term {each.record.term} {each.record} {each.record.id}" for each in arrivals.records
            )
            (folder / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines))
        (folder / "rounds.txt").write_text(
            "".join(f"{each} in {name}\n" for name, rounds in self.rounds.items() for each in rounds)
        )
        (folder / "history.txt").write_text("".join(f"{each}\n" for each in self._happened))

    async def compare(self) -> None:
        """Waits until both replicas are ready. Raises AssertionError unless they have equal rows in all tables at the
        same commit."""
        await self.ready()
        await self.replicas.until_equal()

    # ── The result ───────────────────────────────────────────────────────────

    async def counts(self) -> dict[str, Counts]:
        """By destination, after the load and the replicas have ended."""
        await self.load.aclose()
        await self.catch_up()
        leader = await self.replicas.leader()
        for each in (self.replicas.other(leader), leader):
            await asyncio.to_thread(each.stop)
        await self._remember()
        found = {}
        for name, arrivals in self.arrivals.items():
            await arrivals.read_on()
            judged = [each for each in arrivals.records if kind_of(each.record) in self.judged]
            others = [each for each in arrivals.records if kind_of(each.record) not in self.judged]
            found[name] = await asyncio.to_thread(
                counted, judged, arrivals.gaps, self._happened, self.rounds[name], others, reduced=name in self.reduced
            )
        return found


@asynccontextmanager
async def staged(
    servers: Breakable,
    kafka: KafkaTopics,
    folder: Path,
    name: str,
    say: Callable[[str], None],
    *,
    lines: bool,
    disks: bool = False,
    judged: Sequence[str] = KINDS,
    reduced: Sequence[str] = (),
) -> AsyncIterator[Stage]:
    """Two replicas that lead and follow under load, with topics in this ``kafka``. ``name`` is used once. ``lines``:
    between them and all servers, and between each other. The others: see ``Fault``."""
    await servers.heal()
    since = await asyncio.to_thread(servers.etcd.revision)
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        receiver = await enter(WebhookReceiver())
        destinations = Destinations(kafka, servers.nats, receiver, name)
        await destinations.prepare()
        async with KubeClient(servers.api) as kube:
            await kube.create_namespace(name)
        ways = await enter(destinations.lines(servers.api, NAMES)) if lines else {}
        direct = destinations.ports(servers.api)
        ports = {name: ways[name].ports if lines else direct for name in NAMES}
        links = {name: await enter(Line(reserve_port())) for name in NAMES} if lines else {}
        both = _replicas(servers.api, folder, destinations, ports, links)
        mounted = {each.folder.name: stack.enter_context(_on_a_small_disk(each)) for each in both if disks}
        arrivals = await enter(destinations.arrivals())
        stack.callback(_kill, both)
        for each in both:
            await asyncio.to_thread(each.start)
        replicas = Replicas(both)
        await replicas.until_live(*KINDS)
        load = await enter(AsyncExitStack())
        await load.enter_async_context(churning(servers.api, name, pause=PAUSE, writers=WRITERS, objects=OBJECTS))
        stage = Stage(
            servers,
            destinations,
            replicas,
            ways,
            links,
            mounted,
            arrivals,
            name,
            load,
            say,
            judged,
            reduced,
            _since=since,
        )
        await stage.catch_up()
        yield stage
    shutil.rmtree(folder, ignore_errors=True)


def _kill(both: Sequence[BridgeProcess]) -> None:
    for each in both:
        each.kill9()


@contextmanager
def _on_a_small_disk(replica: BridgeProcess) -> Iterator[SmallDisk]:
    with mounted_small_disk(replica.folder / "disk", _DISK) as disk:
        replica.state = disk.folder
        yield disk


def _replicas(
    api: KubeApiServer,
    folder: Path,
    destinations: Destinations,
    ports: Mapping[str, Ports],
    links: Mapping[str, Line],
) -> Sequence[BridgeProcess]:
    folder.mkdir()
    key = folder / "redaction.key"
    key.write_text("k" * 64)
    both = []
    for name, where in ports.items():
        own = folder / name
        own.mkdir()
        kubeconfig = api.kubeconfig(own / "kubeconfig")
        kubeconfig.write_text(kubeconfig.read_text().replace(f":{api.port}", f":{where.api}"))
        config = {
            "cluster": {"name": destinations.name, "kubeconfig": str(kubeconfig)},
            "resources": [resource(kind, destinations.name) for kind in KINDS],
            "sinks": destinations.section(where),
            "redaction": {"key_file": str(key)},
            "election": {
                "enabled": True,
                "namespace": destinations.name,
                "identity": name,
                "port": links[name].targets[0] if links else 0,
            },
        }
        routes = {each.targets[0]: each.port for each in links.values()}
        both.append(Rerouted(own, config, routes, waits=False))
    return both


def resource(kind: str, namespace: str) -> dict[str, object]:
    """Of the `resources` of a configuration."""
    return {"resource": kind, "namespaces": [namespace]}
