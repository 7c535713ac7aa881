"""What selection costs for each record: ``python -m benchmarks.selection``. CPU time, the best of several rounds.

Expressions are evaluated on a stripped pod: on the part that they read, as the bridge does it, and on the whole pod.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from bridge.model.change import Evidence, Op
from bridge.model.primitives.field_path import FieldPath
from bridge.model.record import Delta
from bridge.model.resource import Resource
from bridge.transform.digest import IgnoredPaths
from bridge.transform.transform import stripped
from bridge.views.decisions import Decisions, Views
from bridge.views.language import Cel
from bridge.views.selection import SelectorText, compile_selection

PODS = Resource("", "v1", "pods", "Pod", namespaced=True)
OBJECTS = Path(__file__).parent / "load" / "objects"
PATHS = "object.metadata.namespace == 'pay' || object.spec.nodeName != '' && object.status.phase == 'Running'"
LABELS = "has(object.metadata.labels) && 'team' in object.metadata.labels"
IMAGES = "object.spec.containers.exists(c, c.image.endsWith(':latest'))"
REPLACED = "object.spec.nodeName != oldObject.spec.nodeName"
HEARTBEATS = ("status.conditions[*].lastProbeTime", "metadata.annotations['example.com/at']")
ROUNDS, REPEATS = 5, 4000


def microseconds(work: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.process_time()
        for _ in range(REPEATS):
            work()
        best = min(best, (time.process_time() - start) / REPEATS)
    return best * 1e6


def matching(body: bytes, *entries: SelectorText) -> Callable[[], object]:
    """Decides on an update of a known object for as many sinks as there are entries."""
    language = Cel()
    selections = {
        f"sink-{index}": compile_selection([entry], "select", lambda: language) for index, entry in enumerate(entries)
    }
    masks = {sink: 1 << index for index, sink in enumerate(selections)}
    decide, everywhere = Decisions(Views(selections, "prod"), masks), sum(masks.values())
    delta = Delta(
        1, Op.UPDATED, Evidence.WATCHED, PODS, "shop/web", "a-uid", "2", "2026-11-21T08:30:00.000001Z", 1, body
    )

    return lambda: decide(delta, everywhere, lambda: body)


def where(text: str) -> SelectorText:
    return SelectorText(resource="pods", where=text)


def whole(body: bytes, text: str) -> Callable[[], object]:
    expression = compile_selection([where(text)], "select", Cel).selectors[0].where
    assert expression is not None  # noqa: S101

    def evaluate() -> bool:
        return expression.evaluate(expression.bind({"object": msgspec.json.decode(body)}))

    return evaluate


def main() -> None:
    # The list of managed fields is cut out before selection.
    body = stripped((OBJECTS / "pod.json").read_bytes(), None)
    body = msgspec.json.encode(msgspec.json.decode(body))
    print(f"a pod of {len(body)} bytes")
    digest = IgnoredPaths(map(FieldPath.parsed, HEARTBEATS)).digest
    cases = {
        "decode the whole pod": lambda: msgspec.json.decode(body),
        "namespaces alone": matching(body, SelectorText(resource="pods", namespaces=["shop"])),
        "a label selector": matching(body, SelectorText(resource="pods", label_selector="team=a")),
        "where: three paths": matching(body, where(PATHS)),
        "where: three paths, on the whole pod": whole(body, PATHS),
        "where: a label": matching(body, where(LABELS)),
        "where: every container": matching(body, where(IMAGES)),
        "when: against the old object": matching(body, SelectorText(resource="pods", when=REPLACED)),
        "six sinks, the same where": matching(body, *[where(PATHS)] * 6),
        "six sinks, six of them": matching(body, *(where(PATHS.replace("pay", f"pay-{each}")) for each in range(6))),
        "a digest without heartbeats": lambda: digest(body),
    }
    for name, work in cases.items():
        print(f"{name:40} {microseconds(work):7.1f} us")


if __name__ == "__main__":
    main()
