"""What reading and transforming one object costs, by its shape: ``python -m benchmarks.reading``. CPU time, the best of
several rounds.

An object is read from the line of a watch, and from a page of a hundred. The transform has all presets. The last column
is what the reader and the transform take for each KB, against a pod as the load server has it. The ConfigMap of 200 KB
is left out: the load server makes it so long.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from benchmarks.shapes import SHAPES
from bridge.kube.wire.frames import Frames
from bridge.kube.wire.pages import PageReader
from bridge.model.answers import Announced
from bridge.model.resource import Resource
from bridge.transform.redaction import Redaction
from bridge.transform.redaction_key import RedactionKey
from bridge.transform.transform import transform_for

OBJECTS = Path(__file__).parent / "load" / "objects"
ROUNDS, SECONDS, PAGE = 7, 0.02, 100


def microseconds(work: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        began, times = time.process_time(), 0
        while (spent := time.process_time() - began) < SECONDS:
            work()
            times += 1
        best = min(best, spent / times)
    return best * 1e6


def compact(name: str, resource: Resource) -> tuple[bytes, bytes]:
    """The object as a watch has it, and as a list has it: its slots are filled with zeros."""
    text = re.sub(r"\{\{\w+\}\}", "0000001", (OBJECTS / f"{name}.json").read_text())
    listed = msgspec.json.decode(text)
    alone = {"kind": resource.kind, "apiVersion": resource.api_version, **listed}
    if resource.group.startswith("load."):
        alone = listed  # A custom resource names its kind everywhere, and its members are sorted.
    return msgspec.json.encode(alone), msgspec.json.encode(listed)


def read(name: str, resource: Resource) -> tuple[int, float, float, float]:
    """Bytes of a line, and µs from a watch, from a page, and in the transform."""
    alone, listed = compact(name, resource)
    line = b'{"type":"MODIFIED","object":%b}\n' % alone
    page = b'{"kind":"XList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[%b]}' % (
        b",".join([listed] * PAGE)
    )
    frames = Frames(resource, managed_fields=False)
    transform = transform_for(resource, Redaction((RedactionKey(b"k" * 32),)))
    objects = [thing for answer in frames.feed(line) if isinstance(answer, Announced) for _, thing in answer.events]

    def from_page() -> None:
        reader = PageReader(resource, managed_fields=False)
        reader.feed(page)
        reader.end()

    watched, paged = microseconds(lambda: frames.feed(line)), microseconds(from_page) / PAGE
    return len(line), watched, paged, microseconds(lambda: [transform(thing) for thing in objects])


def main() -> None:
    of_a_pod = 0.0
    for name, identity in {
        "pod": "/v1/pods/Pod",
        **{name: each.resource for name, each in SHAPES.items() if name != "configmap"},
    }.items():
        group, version, plural, kind = identity.split("/")
        size, watched, paged, transformed = read(name, Resource(group, version, plural, kind, namespaced=True))
        per_kb = (watched + transformed) / size
        of_a_pod = of_a_pod or per_kb
        print(
            f"{name:10} {size / 1000:6.1f} KB: from a watch {watched:5.1f} µs, from a page {paged:5.1f}, "
            f"transform {transformed:5.1f}; {per_kb / of_a_pod:.2f} of a pod for each KB"
        )


if __name__ == "__main__":
    main()
