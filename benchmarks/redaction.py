"""What redaction costs for each event: ``python -m benchmarks.redaction [--rounds N]``. CPU time, in turns.

First the transform alone, on a stripped pod; the best of several turns. Then whole bridges to Kafka, with the presets
(the default) and without them, and the median of their ratios.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from benchmarks.build import CannotBuild
from benchmarks.contenders import Bridge
from benchmarks.runs import Around, stream, turned
from benchmarks.servers import Load, brokers
from bridge.model.object import ApiObject
from bridge.model.policies import RedactionRule
from bridge.model.primitives.field_path import FieldPath
from bridge.model.resource import Resource
from bridge.transform.redaction import Redaction
from bridge.transform.redaction_key import RedactionKey
from bridge.transform.transform import transform_for

PODS = Resource("", "v1", "pods", "Pod", namespaced=True)
POD = Path(__file__).parent / "load" / "objects" / "pod.json"
TURNS, REPEATS = 200, 100
LOAD, EVENTS = Load(pods=10_000), 20_000
KEYS = (RedactionKey(bytes(32)),)

BRIDGES: Mapping[str, Bridge] = {
    "presets": Bridge("kafka"),
    "no presets": Bridge("kafka", options={"redaction": {"presets": []}}),
}


def a_pod(**secret: str) -> ApiObject:
    """The pod of the load server, with further variables."""
    manifest: dict[str, Any] = {"kind": "Pod", "apiVersion": "v1", **msgspec.json.decode(POD.read_bytes())}
    del manifest["metadata"]["managedFields"]
    manifest["spec"]["containers"][0]["env"] += [{"name": name, "value": value} for name, value in secret.items()]
    return ApiObject("shop/web", "uid-1", "7", msgspec.json.encode(manifest), stripped=True)


def transforming(redaction: Redaction, thing: ApiObject) -> Callable[[], object]:
    transform = transform_for(PODS, redaction)
    return lambda: transform(thing)


def microseconds(cases: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    best = dict.fromkeys(cases, float("inf"))
    for turn in range(TURNS):
        for name in turned(list(cases), turn):
            start = time.process_time()
            for _ in range(REPEATS):
                cases[name]()
            best[name] = min(best[name], (time.process_time() - start) / REPEATS * 1e6)
    return best


def bridges(rounds: int) -> Iterator[dict[str, float]]:
    """CPU per event in microseconds, of each round. Raises CannotBuild."""
    with TemporaryDirectory(prefix="kubedelta-bench-") as folder, brokers(Path(folder), print) as shared:
        for number in range(rounds):
            figures = {}
            for name in turned(list(BRIDGES), number):
                with TemporaryDirectory(dir=folder) as own:
                    figures[name] = stream(Around(Path(own), shared), BRIDGES[name], LOAD, EVENTS)["cpu_us"]
            yield figures


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.redaction")
    parser.add_argument("--rounds", type=int, default=5, help="of whole bridges; 0 for the transform alone")
    rounds = parser.parse_args().rounds
    without = Redaction(KEYS, frozenset())
    rule = RedactionRule((FieldPath.parsed("spec.containers[*].env[*].value"),))
    cases = {
        "no presets": transforming(without, a_pod()),
        "presets": transforming(Redaction(KEYS), a_pod()),
        "presets, two passwords": transforming(Redaction(KEYS), a_pod(DB_PASSWORD="a", API_TOKEN="b")),  # noqa: S106
        "a rule without a value": transforming(without.extended([RedactionRule((FieldPath(("a", "b")),))]), a_pod()),
        "a rule with three values": transforming(without.extended([rule]), a_pod()),
    }
    for name, cpu in microseconds(cases).items():
        print(f"{name:28} {cpu:7.1f} us")
    ratios = []
    try:
        for figures in bridges(rounds) if rounds else ():
            ratios.append(figures["presets"] / figures["no presets"])
            print(", ".join(f"{name} {cpu:.1f} us per event" for name, cpu in figures.items()), flush=True)
    except CannotBuild as error:
        print(f"left out: {error}")
    if ratios:
        print(f"presets cost {statistics.median(ratios):.3f} times an event without them")


if __name__ == "__main__":
    main()
