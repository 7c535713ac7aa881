"""What redaction costs for each event: ``python -m benchmarks.redaction [--rounds N]``. CPU time, in turns.

First the transform alone, on a stripped pod; the best of several turns. Then whole bridges to Kafka, with the presets
(the default) and without them, and the median of their ratios.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.contenders import Bridge
from benchmarks.turns import print_bridges, print_calls
from bridge.model.object import ApiObject
from bridge.model.policies import RedactionRule
from bridge.model.primitives.field_path import FieldPath
from bridge.model.resource import Resource
from bridge.transform.redaction import Redaction
from bridge.transform.redaction_key import RedactionKey
from bridge.transform.transform import transform_for

PODS = Resource("", "v1", "pods", "Pod", namespaced=True)
POD = Path(__file__).parent / "load" / "objects" / "pod.json"
KEYS = (RedactionKey(bytes(32)),)

BRIDGES: Mapping[str, Bridge] = {
    "no presets": Bridge("kafka", options={"redaction": {"presets": []}}),
    "presets": Bridge("kafka"),
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
    print_calls(cases)
    ratio = print_bridges(lambda _: BRIDGES, rounds)
    if ratio is not None:
        print(f"presets cost {ratio:.3f} times an event without them")


if __name__ == "__main__":
    main()
