"""The way of one watched update through the bridge, as a tracer sees it, and ARCHITECTURE's table of it.

``python -m tests.bridge.app.test_way_of_one_delta`` prints it.

**Counted** is every function of ``bridge``, ``sinks`` and ``config`` that is entered, in any thread, between the
arrival of the line's bytes and the moment when the sink's saved cursor covers the update. Comprehensions belong to the
function around them. Four rules leave functions out:

- A quiet bridge enters it too, without any update: it is a timer. So is what the mark of the log's end calls, which
  timers make before or after the saved cursor.
- It is a coroutine that began before the line came and only goes on: it is resumed, not entered.
- It runs inside a report: a fact is about a batch, and its observers see no change.
- It is of ``bridge.model``: values and their forms are no station.

The playground is the API server here, and librdkafka's own mock cluster the broker; the bridge has its telemetry.

**A type carries the change** if an instance is an argument (``self`` apart) or a result on the way, and its fields hold
the text of the update, directly or in lists, tuples, maps and other carriers. What is there longer than one update is
no carrier.
"""

from __future__ import annotations

import asyncio
import inspect
import re
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType, FrameType
from typing import Any

import apsw

from bridge.app.bridge import Bridge
from bridge.kube import ClusterAccess
from bridge.outbox import Retention
from bridge.plan.plan import Plan, SinkPlan, Wanted
from bridge.playground import Playground
from bridge.telemetry.logs import Logs
from bridge.telemetry.metrics import Metrics
from bridge.telemetry.observers import Telemetry
from sinks import registry
from sinks.kafka.options import KafkaOptions
from tests.kit.deadlines import until

FUNCTIONS, MODULES, CARRIERS = 60, 20, 9

ROOT = Path(__file__).parents[3]
_OURS = tuple(f"{ROOT / folder}/" for folder in ("bridge", "sinks", "config"))
_SERVER = f"{ROOT / 'bridge' / 'playground'}/"
_MODEL = "bridge/model/"
_MARK = "LogEnd.mark"
_PARTS = {"<genexpr>", "<listcomp>", "<setcomp>", "<dictcomp>"}
_RESUMABLE = inspect.CO_COROUTINE | inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR
_OBJECTS = 120
"""Enough for a dictionary of their bodies, which a warm outbox has."""
_QUIET = 1.2
"""Seconds: more than two ticks of the outbox, the slowest timer of a quiet bridge."""


@dataclass(frozen=True)
class Station:
    """A function of ours."""

    module: str
    """Its path: ``bridge/kube/wire/frames.py``."""
    name: str

    def __str__(self) -> str:
        return f"{self.module.removesuffix('.py')}: {self.name}"


@dataclass(frozen=True)
class Walk:
    entered: Sequence[Station]
    """All functions, in the order in which each was entered first, without timers."""
    stations: Sequence[Station]
    """Those that count."""
    carriers: frozenset[str]


@dataclass(slots=True)
class _Tracer:
    marker: bytes | None = None
    """The text of the update that is on its way; None while no update is."""
    entered: dict[Station, bool] = field(default_factory=dict)
    """Function → whether it was entered, not only resumed, and outside of reports."""
    carriers: dict[int, Any] = field(default_factory=dict)
    _stations: dict[CodeType, Station | None] = field(default_factory=dict)
    _begun: dict[int, FrameType] = field(default_factory=dict)
    """Coroutines that began before the update. Held, so that no other frame has their id."""

    def __call__(self, frame: FrameType, event: str, result: Any) -> None:
        if event not in {"call", "return"} or (station := self._station(frame.f_code)) is None:
            return
        resumable = frame.f_code.co_flags & _RESUMABLE
        if self.marker is None:
            if resumable and event == "call":
                self._begun[id(frame)] = frame
            return
        above = list(_callers(frame))
        if any(each.startswith(_SERVER) or name == _MARK for each, name in above):
            return
        if event == "call":
            reported = any(name == "Telemetry.report" for _, name in above)
            counts = not reported and id(frame) not in self._begun
            self.entered[station] = self.entered.get(station, False) or counts
            code = frame.f_code
            values = [frame.f_locals.get(name) for name in code.co_varnames[: code.co_argcount] if name != "self"]
        else:
            values = [result]
        for value in values:
            self._look(value)

    def _station(self, code: CodeType) -> Station | None:
        if code not in self._stations:
            ours = code.co_filename.startswith(_OURS) and code.co_name not in _PARTS
            name = str(Path(code.co_filename).relative_to(ROOT)) if ours else ""
            self._stations[code] = Station(name, code.co_qualname) if ours else None
        return self._stations[code]

    def _look(self, value: Any) -> None:
        for each in value if isinstance(value, list | tuple) else (value,):
            if _is_ours(each) and self.marker is not None and _holds(each, self.marker):
                self.carriers[id(each)] = each


def _callers(frame: FrameType | None) -> Iterator[tuple[str, str]]:
    while frame is not None:
        yield frame.f_code.co_filename, frame.f_code.co_qualname
        frame = frame.f_back


def _is_ours(value: Any) -> bool:
    return type(value).__module__.startswith(("bridge.", "sinks.", "config."))


def _holds(value: Any, marker: bytes, depth: int = 5) -> bool:
    if isinstance(value, bytes):
        return marker in value
    if isinstance(value, Mapping):
        return depth > 0 and any(_holds(each, marker, depth - 1) for each in value.values())
    if isinstance(value, list | tuple | set | frozenset):
        return depth > 0 and any(_holds(each, marker, depth - 1) for each in value)
    if depth == 0 or not _is_ours(value):
        return False
    fields = ("__struct_fields__", "__slots__", "__dict__")
    names = next((found for each in fields if (found := getattr(value, each, None))), ())
    return any(_holds(getattr(value, name, None), marker, depth - 1) for name in names)


@contextmanager
def _tracing() -> Iterator[_Tracer]:
    tracer = _Tracer()
    threading.setprofile(tracer)
    sys.setprofile(tracer)
    try:
        yield tracer
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type, unused-ignore]  # the stub lacks None in some versions


@asynccontextmanager
async def _bridge(state: Path) -> AsyncIterator[tuple[Playground, Callable[[], bool]]]:
    """Of ConfigMaps, to Kafka. Yields also whether it is ready. No timer of its own server or resync stirs it."""
    options = KafkaOptions(
        bootstrap_servers="mock:9092",
        topic="k8s",
        properties={"test.mock.num.brokers": 1, "allow.auto.create.topics": True, "log_level": 0},
    )
    make = partial(registry.create, "audit", "kafka", options, cluster="test")
    telemetry = Telemetry(Logs())
    metrics = Metrics(version="", failures=telemetry.failures)
    metrics.expect_sinks("audit")
    telemetry.add(metrics)
    async with Playground(bookmark_interval=3600) as cluster:
        plan = Plan(
            cluster="test",
            access=ClusterAccess(server=cluster.url),
            wanted=(Wanted("configmaps"),),
            sinks=(SinkPlan(name="audit", type="kafka", make=make, max_batch=500),),
            retention=Retention(retain_bytes=1 << 30),  # Trimming comes behind the way.
            discovery_seconds=3600,
            state=state,
        )
        bridge = Bridge(plan, telemetry.report)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(bridge.run())
            yield cluster, lambda: bridge.status().ready
            bridge.stop()
            await running


def _numbers(state: Path) -> tuple[int, int]:
    """The newest record and the sink's cursor, on disk."""
    last, settled = _question(state, "SELECT last, (SELECT settled FROM cursors) FROM meta")
    return last, settled


def _question(state: Path, query: str) -> tuple[Any, ...]:
    # With the bridge's own SQLite: another one in the same process would not see its locks.
    with closing(apsw.Connection(f"{state}/outbox.db", flags=apsw.SQLITE_OPEN_READONLY)) as database:
        return next(database.execute(query))


async def _update(cluster: Playground, state: Path, value: str) -> None:
    """Returns when the saved cursor covers it."""
    before, _ = _numbers(state)
    cluster.update("configmaps", _config_map(value))
    await until(lambda: before < _numbers(state)[0] == _numbers(state)[1])


def _config_map(value: str, name: str = "object-0") -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default"}, "data": {"value": value}}


async def walk() -> Walk:
    """Of the second of two updates, in a warm bridge; every function is of both."""
    with TemporaryDirectory() as directory, _tracing() as tracer:
        state = Path(directory)
        async with _bridge(state) as (cluster, is_ready):
            for number in range(_OBJECTS):
                cluster.create("configmaps", _config_map(f"{number} " * 4000, f"object-{number}"))
            await until(is_ready)
            await until(lambda: _question(state, "SELECT count(*) FROM dictionaries")[0])
            await _update(cluster, state, "warm")
            await asyncio.sleep(_QUIET)
            tracer.marker = b"none"
            await asyncio.sleep(_QUIET)
            timers, tracer.entered = tracer.entered, {}
            found: list[tuple[dict[Station, bool], dict[int, Any]]] = []
            for value in ("marked-one", "marked-two"):
                tracer.marker = value.encode()
                await _update(cluster, state, value)
                tracer.marker = None
                found.append((tracer.entered, tracer.carriers))
                tracer.entered, tracer.carriers = {}, {}
    (one, held), (two, carriers) = found
    entered = [station for station in two if station in one and station not in timers]
    return Walk(
        entered,
        [each for each in entered if one[each] and two[each] and not each.module.startswith(_MODEL)],
        frozenset(type(each).__name__ for number, each in carriers.items() if number not in held),
    )


def table() -> dict[str, set[str]]:
    """Module → functions, as ARCHITECTURE.md has them."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    section = text.partition("\n## The way of one delta\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([^`]+)` \| ([^|]+) \|", section, re.MULTILINE)
    return {module: set(re.findall(r"`([^`]+)`", functions)) for module, functions in rows}


def documented_carriers() -> set[str]:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    return set(re.findall(r"`([A-Za-z]+)`", text.partition("types carry the change:")[2].partition("\n\n")[0]))


def met(found: Walk) -> dict[str, set[str]]:
    modules: dict[str, set[str]] = {}
    for each in found.stations:
        name = each.name.replace(".<locals>", "")
        modules.setdefault(each.module.removesuffix(".py"), set()).add(name)
    return modules


async def test_a_delta_meets_few_functions_modules_and_types() -> None:
    found = await walk()
    modules = met(found)
    assert len(found.stations) <= FUNCTIONS, found.stations
    assert len(modules) <= MODULES, sorted(modules)
    assert len(found.carriers) <= CARRIERS, sorted(found.carriers)
    assert table() == modules, "python -m tests.bridge.app.test_way_of_one_delta prints the way"
    assert documented_carriers() == found.carriers


def main() -> None:
    found = asyncio.run(walk())
    for station in found.entered:
        print(f"{'' if station in found.stations else '  (not counted) '}{station}")
    print(f"\n{len(found.stations)} functions in {len({each.module for each in found.stations})} modules count")
    print(f"{len(found.entered)} in {len({each.module for each in found.entered})} without the rules")
    print(f"{len(found.carriers)} carriers: {', '.join(sorted(found.carriers))}")


if __name__ == "__main__":
    main()
