"""How large a history is, and how long it takes: ``python -m benchmarks.history [--steps N] [--out FILE]``.

A simulated day of a cluster of 500 nodes, 3,000 deployments, 3,000 custom resources and some 10,000 pods that come and
go, each with the objects of the load server without their ``managedFields``. A million steps by default, of which 60%
are of pods, 15% of deployments, 15% of custom resources and 10% heartbeats of nodes. Names, uids, addresses, versions
and times differ, as in real clusters. The lines are those of a file sink.

All times are CPU time, which a busy machine does not change much; one thread works, so on a free machine it is the time
that passes. That of the build is without the making of the lines; an answer is the median of several, each from a file
that is opened anew.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from kubedelta_reader import structured

from bridge.history import HistoryFile, PastPoint
from bridge.history.points import in_words
from bridge.history.recorder import HistoryBounds, Recorder

OBJECTS = Path(__file__).parent / "load" / "objects"
BEGIN = 1_700_000_000_000_000
"""Microseconds since 1970."""
DAY = 86_400_000_000
BATCH = 1000
NODES, DEPLOYMENTS, WIDGETS, PODS = 500, 3_000, 3_000, 10_000
_encode = msgspec.json.Encoder().encode


class Day:
    """Lines of a stream, in their order."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._chance = random.Random(1)
        self._templates = {name: _template(name) for name in ("pod", "deployment", "node", "widget")}
        self._known: dict[tuple[str, int], tuple[str, dict[str, Any], int]] = {}
        """Kind and place → uid, state and the number of steps."""
        self.bytes = 0

    def lines(self) -> Iterator[bytes]:
        kinds = ("pods", "deployments", "widgets", "nodes")
        counts = dict(zip(kinds, (PODS, DEPLOYMENTS, WIDGETS, NODES), strict=True))
        for number, kind in enumerate(self._chance.choices(kinds, weights=(60, 15, 15, 10), k=self._steps), 1):
            place = self._chance.randrange(counts[kind])
            line = self._pod(place, number) if kind == "pods" else self._other(kind, place, number)
            self.bytes += len(line)
            yield line

    def _pod(self, place: int, number: int) -> bytes:
        """Of seven steps: pending, scheduled, starting, running, ready, ending, gone."""
        uid, state, age = self._known.get(("pods", place)) or self._new("pod", number)
        moment = self._moment(number)
        if age == 1:
            state["spec"]["nodeName"] = f"node-{place % NODES}"
        elif age == 2:
            state["status"]["phase"] = "Running"
            state["status"]["podIP"] = f"10.{place % 250}.{number % 250}.{self._chance.randrange(250)}"
        elif age in (3, 4):
            for condition in state["status"].get("conditions", ()):
                condition["lastTransitionTime"] = moment
        elif age == 5:
            state["metadata"]["deletionTimestamp"] = moment
        op = "added" if age == 0 else "deleted" if age == 6 else "updated"
        if op == "deleted":
            del self._known["pods", place]
        else:
            self._known["pods", place] = uid, state, age + 1
        return self._line("core", "pods", f"orders-{place}-{uid[:5]}", uid, state, op, number)

    def _other(self, kind: str, place: int, number: int) -> bytes:
        uid, state, age = self._known.get((kind, place)) or self._new(kind.removesuffix("s"), number)
        self._known[kind, place] = uid, state, age + 1
        status = state.setdefault("status", {})
        for condition in status.get("conditions", ()):
            condition["lastHeartbeatTime" if kind == "nodes" else "lastUpdateTime"] = self._moment(number)
        if kind != "nodes":
            status["observedGeneration"] = age
        if kind == "deployments":
            status["readyReplicas"] = self._chance.randrange(10)
        group = {"deployments": "apps", "widgets": "example.com", "nodes": "core"}[kind]
        op = "added" if age == 0 else "updated"
        return self._line(group, kind, f"{kind[:-1]}-{place}", uid, state, op, number)

    def _new(self, kind: str, number: int) -> tuple[str, dict[str, Any], int]:
        uid = f"{self._chance.getrandbits(32):08x}-aaaa-bbbb-cccc-{number:012}"
        return uid, msgspec.json.decode(self._templates[kind].replace(b"{{uid}}", uid.encode())), 0

    def _line(self, group: str, plural: str, name: str, uid: str, state: dict[str, Any], op: str, number: int) -> bytes:
        state["metadata"] |= {"name": name, "resourceVersion": str(number), "uid": uid}
        namespace = "_" if plural == "nodes" else "shop"
        return _encode(
            {
                "specversion": "1.0",
                "id": f"{uid}/{number}/{op}",
                "source": "/clusters/prod",
                "type": f"kubedelta.object.{op}.v1",
                "time": self._moment(number),
                "partitionkey": f"prod/{group}/{plural}/{namespace}/{name}",
                "sequence": f"{number:020}",
                "uid": uid,
                "resourceversion": str(number),
                "op": op,
                "evidence": "watched",
                "epoch": 1,
                "data": state,
            }
        )

    def _moment(self, number: int) -> str:
        return in_words(BEGIN + DAY * number // self._steps)


def _template(name: str) -> bytes:
    kinds = {"pod": ("v1", "Pod"), "deployment": ("apps/v1", "Deployment"), "node": ("v1", "Node")}
    version, kind = kinds.get(name, ("example.com/v1", "Widget"))
    state: dict[str, Any] = {"apiVersion": version, "kind": kind}
    state |= msgspec.json.decode((OBJECTS / f"{name}.json").read_bytes())
    state["metadata"].pop("managedFields", None)
    return _encode(state)


def build(path: Path, day: Day, bounds: HistoryBounds) -> float:
    """Returns seconds of CPU time."""
    spent = 0.0
    lines = day.lines()
    with closing(Recorder(path, "a simulated day", bounds)) as recorder:
        number = 0
        while batch := list(islice(lines, BATCH)):
            begin = time.process_time()
            number += len(batch)
            with recorder.batch(b"%d" % number):
                for line in batch:
                    recorder.record(structured(line))
            spent += time.process_time() - begin
    return spent


def answered(path: Path, ask: Callable[[HistoryFile], object], *, rounds: int = 5) -> float:
    """Seconds."""
    times = []
    for _ in range(rounds):
        begin = time.process_time()
        with HistoryFile.open(path) as history:
            ask(history)
        times.append(time.process_time() - begin)
    return statistics.median(times)


def point(share: float) -> PastPoint:
    """A time of the day."""
    return PastPoint.parsed(in_words(BEGIN + int(DAY * share)))


def _count(found: Iterator[object]) -> int:
    return sum(1 for _ in found)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.history")
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--out", type=Path, help="write the report here, too")
    chosen = parser.parse_args()
    with TemporaryDirectory(prefix="kubedelta-history-") as folder:
        path = Path(folder) / "k8s.db"
        day = Day(chosen.steps)
        spent = build(path, day, HistoryBounds(30 * 86_400.0, 1 << 40))
        with HistoryFile.open(path) as history:
            size = history.size()
        rows = [
            ("steps", f"{size.steps:,}"),
            ("objects, with those that are gone", f"{size.objects:,}"),
            ("the stream", f"{day.bytes / 1e6:,.0f} MB"),
            ("the file", f"{size.bytes / 1e6:,.0f} MB"),
            ("for 1,000 steps", f"{size.bytes / 1e3 / size.steps:.2f} MB"),
            ("build, CPU time for a step", f"{spent / size.steps * 1e6:.0f} µs"),
            ("build", f"{spent:,.0f} s"),
        ]
        answers: dict[str, Callable[[HistoryFile], object]] = {
            "the steps of a deployment": lambda history: _count(history.steps("deploy", "deployment-7")),
            "a deployment at noon": lambda history: list(
                history.at(point(0.5), resource="deploy", name="deployment-7")
            ),
            "all pods at noon": lambda history: _count(history.at(point(0.5), resource="po")),
            "all pods now": lambda history: _count(history.at(PastPoint.parsed("now"), resource="po")),
            "everything at noon": lambda history: _count(history.at(point(0.5))),
            "what changed in the last hour": lambda history: _count(
                history.compared(point(23 / 24), PastPoint.parsed("now"))
            ),
            "all pods at a version": lambda history: _count(
                history.at(PastPoint.parsed(f"pods={chosen.steps // 2}"), resource="po")
            ),
        }
        rows += [(name, f"{answered(path, ask) * 1000:,.1f} ms") for name, ask in answers.items()]
    report = "\n".join(["| | |", "|---|---|", *(f"| {name} | {figure} |" for name, figure in rows)])
    print(report)
    if chosen.out is not None:
        chosen.out.write_text(f"# A history of a simulated day\n\n`python -m benchmarks.history`\n\n{report}\n")


if __name__ == "__main__":
    main()
