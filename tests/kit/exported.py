"""What a destination was told, in one form whatever the destination, and what can be asked of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import unquote

from tests.cluster.kube_client import Manifest
from tests.cluster.servers import KafkaRecord, NatsRecord

GAP = "kubedelta.gap.v1"
SNAPSHOT_EDGES = {"kubedelta.snapshot.began.v1": "began", "kubedelta.snapshot.ended.v1": "ended"}
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class Version(NamedTuple):
    """One thing that happened to one object."""

    uid: str
    resource_version: str
    op: str


@dataclass(frozen=True, slots=True)
class Told:
    id: str
    op: str
    subject: str
    uid: str
    resource_version: str
    sequence: int
    evidence: str
    data: Manifest
    epoch: int = 1

    @property
    def version(self) -> Version:
        return Version(self.uid, self.resource_version, self.op)

    @property
    def unique_id(self) -> tuple[int, str]:
        return (self.epoch, self.id)

    def __str__(self) -> str:
        """Never the object: it may be a Secret."""
        return f"#{self.sequence} {self.op} {self.subject} @{self.resource_version} uid {self.uid} ({self.evidence})"

    __repr__ = __str__


@dataclass(frozen=True, slots=True)
class ToldGap:
    """Records that a sink says it will never get: from ``first`` to ``last``, both included."""

    first: int
    last: int
    count: int | None


@dataclass(frozen=True, slots=True)
class ToldEdge:
    """Here a snapshot began or ended, which is of all there was up to the record ``through``."""

    edge: str
    sink: str
    through: int
    count: int


AnyTold: TypeAlias = Told | ToldGap | ToldEdge
Stream: TypeAlias = Sequence[AnyTold]
"""In the order of arrival; of Kafka, by partition."""

# ── Readers ──────────────────────────────────────────────────────────────────


def from_kafka(records: Iterable[KafkaRecord]) -> list[AnyTold]:
    """Binary CloudEvents: attributes in `ce_…` headers. The key must be the event's partition key. Notices that are
    told in every partition beside their own topic are left out."""
    stream = []
    for record in records:
        headers = {name: (value or b"").decode() for name, value in record.headers}
        attributes = {name.removeprefix("ce_"): value for name, value in headers.items() if name.startswith("ce_")}
        assert headers["content-type"] == "application/json", headers["content-type"]
        if record.key is None and attributes["id"].endswith(f"/p{record.partition}"):
            continue
        assert (record.key or b"").decode() == attributes["partitionkey"]
        stream.append(_told(attributes, json.loads(record.value or b"")))
    return stream


def from_nats(records: Iterable[NatsRecord]) -> list[AnyTold]:
    """Binary CloudEvents: attributes in `ce-…` headers, percent-encoded. The message id must be the event's."""
    stream = []
    for record in records:
        headers = {name: unquote(value) for name, value in record.headers.items()}
        attributes = {name.removeprefix("ce-"): value for name, value in headers.items() if name.startswith("ce-")}
        later = "" if attributes.get("epoch", "1") == "1" else f"{attributes['epoch']}/"
        assert headers["Nats-Msg-Id"] == later + attributes["id"], headers["Nats-Msg-Id"]
        stream.append(_told(attributes, json.loads(record.data)))
    return stream


def from_events(events: Iterable[Mapping[str, Any]]) -> list[AnyTold]:
    """Structured CloudEvents, as webhooks get them."""
    return [_told({name: value for name, value in each.items() if name != "data"}, each["data"]) for each in events]


def from_file(path: Path) -> list[AnyTold]:
    """Structured CloudEvents, one a line. A last line without its end is not there yet."""
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    return from_events(json.loads(line) for line in lines)


def _told(attributes: Mapping[str, Any], data: Any) -> AnyTold:
    """Raises AssertionError where the attributes contradict each other or the object."""
    assert attributes["specversion"] == "1.0"
    if attributes["type"] == GAP:
        return ToldGap(data["first"], data["last"], data["count"])
    if edge := SNAPSHOT_EDGES.get(attributes["type"]):
        assert int(attributes["sequence"]) == data["through"]
        return ToldEdge(edge, data["sink"], data["through"], data["count"])
    told = Told(
        id=attributes["id"],
        op=attributes["op"],
        subject=attributes["subject"],
        uid=attributes["uid"],
        resource_version=attributes["resourceversion"],
        sequence=int(attributes["sequence"]),
        evidence=attributes["evidence"],
        data=data,
        epoch=int(attributes["epoch"]),
    )
    _, _, later_epoch = attributes["source"].partition("/epochs/")
    assert (later_epoch or "1") == str(attributes["epoch"]), f"{attributes['source']} in epoch {attributes['epoch']}"
    metadata = data["metadata"]
    assert told.id == "/".join(told.version), f"the id {told.id} is not made of what happened: {told}"
    assert attributes["type"] == f"kubedelta.object.{told.op}.v1", f"{attributes['type']} for {told}"
    assert told.version[:2] == (metadata["uid"], metadata["resourceVersion"]), f"{told} carries another version"
    assert told.subject.endswith(f"/{metadata['name']}"), f"{told} is called {metadata['name']}"
    return told


def tolds(stream: Stream) -> list[Told]:
    """The objects in the stream, in which there must be no gap."""
    gaps = [each for each in stream if isinstance(each, ToldGap)]
    assert not gaps, f"{len(gaps)} gaps, the first of them {gaps[0]}"
    return [each for each in stream if isinstance(each, Told)]


# ── Questions ────────────────────────────────────────────────────────────────


def rebuilt(stream: Iterable[Told], through: int | None = None) -> dict[str, Manifest]:
    """The objects, by subject, of who applied what it was told in the order of arrival. With ``through``, what that
    was when the cluster was at this version."""
    objects: dict[str, Manifest] = {}
    for told in stream:
        if through is not None and int(told.resource_version) > through:
            continue
        if told.op == "deleted":
            objects.pop(told.subject, None)
        else:
            objects[told.subject] = told.data
    return objects


def as_told(listed: Manifest, collection: str, kind: str) -> dict[str, Manifest]:
    """What a list answered, by subject, in the form in which objects leave the bridge. ``collection`` is the path of
    the resource without a namespace."""
    root, _, plural = collection.rpartition("/")
    objects: dict[str, Manifest] = {}
    for item in listed["items"]:
        thing = as_it_leaves({**item, "kind": kind, "apiVersion": listed["apiVersion"]})
        metadata = thing["metadata"]
        inside = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
        objects[f"{root}{inside}/{plural}/{metadata['name']}"] = thing
    return objects


def as_it_leaves(thing: Manifest) -> Manifest:
    """Without what the bridge strips by default. What it redacts is another matter: see `without_secrets`."""
    metadata = {name: value for name, value in thing["metadata"].items() if name != "managedFields"}
    annotations = {name: value for name, value in metadata.pop("annotations", {}).items() if name != LAST_APPLIED}
    if annotations:
        metadata["annotations"] = annotations
    return {**thing, "metadata": metadata}


def without_secrets(thing: Manifest) -> Manifest:
    """The names alone of what a Secret holds, and of its labels and annotations: the values do not leave the bridge."""
    if thing["kind"] != "Secret":
        return thing
    metadata = dict(thing["metadata"])
    for name in metadata.keys() & {"labels", "annotations"}:
        metadata[name] = sorted(metadata[name])
    return {**thing, "metadata": metadata, "data": sorted(thing.get("data", ()))}


def assert_same_state(have: Mapping[str, Manifest], want: Mapping[str, Manifest], who: str) -> None:
    """Names the objects that are missing, extra or different; never what is in them."""
    __tracebackhide__ = True  # A traceback would print the objects.
    missing, extra = sorted(want.keys() - have.keys()), sorted(have.keys() - want.keys())
    different = [
        f"{subject} in {where_different(have[subject], want[subject])}"
        for subject in sorted(want.keys() & have.keys())
        if have[subject] != want[subject]
    ]
    assert_none(who, missing_objects=missing, extra_objects=extra, different_objects=different)


def assert_each_once(stream: Iterable[Told], want: Iterable[Version], who: str) -> None:
    """Exactly these versions were told, each of them once."""
    have, wanted = Counter(told.version for told in stream), set(want)
    assert_none(
        who,
        missing=sorted(wanted - have.keys()),
        extra=sorted(have.keys() - wanted),
        told_more_than_once=[version for version, count in have.items() if count > 1],
    )


def assert_in_order(stream: Iterable[Told], who: str) -> None:
    """Of each object, versions ascend; of each name, sequences do. What is told again with an equal id is left out."""
    newest: dict[str, Told] = {}
    by_subject: dict[str, Told] = {}
    wrong = []
    for told in without_repeats(stream):
        sooner = newest.get(told.uid, told), by_subject.get(told.subject, told)
        if any(_is_after(before, told) for before in sooner):
            wrong.append(f"{told}, and before it {sooner[0]} and {sooner[1]}")
        newest[told.uid] = by_subject[told.subject] = told
    assert_none(who, out_of_order=wrong)


def _is_after(before: Told, told: Told) -> bool:
    if before.uid == told.uid and before.epoch == told.epoch:
        return int(before.resource_version) > int(told.resource_version) or before.sequence > told.sequence
    return before.sequence > told.sequence


def without_repeats(stream: Iterable[Told]) -> list[Told]:
    """As a consumer sees it that forgets what it has seen, by id and source."""
    first: dict[tuple[int, str], Told] = {}
    for told in stream:
        first.setdefault(told.unique_id, told)
    return list(first.values())


def repeats(stream: Iterable[Told]) -> int:
    """How many were told again."""
    return sum(count - 1 for count in Counter(told.unique_id for told in stream).values())


def assert_none(who: str, **wrongs: Sequence[object]) -> None:
    """Fails with the count and a few examples of each kind of wrong that has any."""
    __tracebackhide__ = True
    found = [f"{len(examples)} {name.replace('_', ' ')}" for name, examples in wrongs.items() if examples]
    examples = [f"  {name.replace('_', ' ')}: {each}" for name, all_ in wrongs.items() for each in islice(all_, 5)]
    assert not found, "\n".join([f"{who}: {', '.join(found)}, such as", *examples])


def where_different(have: Any, want: Any, path: str = "") -> str:
    """The path of the first difference."""
    if isinstance(have, Mapping) and isinstance(want, Mapping):
        for name in sorted(have.keys() | want.keys()):
            if have.get(name) != want.get(name):
                return where_different(have.get(name), want.get(name), f"{path}.{name}")
    return path.lstrip(".") or "its whole"
