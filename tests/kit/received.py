"""The records of a destination, in one form whatever the destination, and assertions about them."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import unquote

import msgspec

from tests.cluster.kube_client import Manifest
from tests.cluster.servers import KafkaRecord, NatsRecord

GAP = "kubedelta.gap.v1"
SNAPSHOT_EDGES = {f"kubedelta.snapshot.{edge}.v1": edge for edge in ("began", "ended", "cancelled")}
TERM = "kubedelta.term.began.v1"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class Version(NamedTuple):
    """One thing that happened to one object."""

    uid: str
    resource_version: str
    op: str


@dataclass(frozen=True, slots=True)
class Received:
    id: str
    op: str
    subject: str
    uid: str
    resource_version: str
    sequence: int
    evidence: str
    data: Manifest
    epoch: int = 1
    term: int = 0
    """0: without an election."""

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
class ReceivedGap:
    """Records that a sink says it will never get: from ``first`` to ``last``, both included."""

    first: int
    last: int
    count: int | None


@dataclass(frozen=True, slots=True)
class ReceivedEdge:
    """Here a snapshot began, ended or was cancelled."""

    edge: str


_ONCE_MORE = re.compile("(?:/snapshot)?/[1-9][0-9]*")

AnyReceived: TypeAlias = Received | ReceivedGap | ReceivedEdge
Stream: TypeAlias = Sequence[AnyReceived]
"""In the order of arrival; of Kafka, by partition."""

# ── Readers ──────────────────────────────────────────────────────────────────


def from_kafka(records: Iterable[KafkaRecord]) -> list[AnyReceived]:
    """Binary CloudEvents: attributes in `ce_…` headers. The key must be the event's partition key. Notices that are
    stored in every partition beside their own topic are left out."""
    stream = []
    for record in records:
        headers = {name: (value or b"").decode() for name, value in record.headers}
        attributes = {name.removeprefix("ce_"): value for name, value in headers.items() if name.startswith("ce_")}
        assert headers["content-type"] == "application/json", headers["content-type"]
        if record.key is None and attributes["id"].endswith(f"/p{record.partition}"):
            continue
        assert (record.key or b"").decode() == attributes["partitionkey"]
        stream.append(_received(attributes, msgspec.json.decode(record.value or b"")))
    return stream


def from_nats(records: Iterable[NatsRecord]) -> list[AnyReceived]:
    """Binary CloudEvents: attributes in `ce-…` headers, percent-encoded. The message id must be the event's. Notices
    of a leader's term are left out."""
    stream = []
    for record in records:
        headers = {name: unquote(value) for name, value in record.headers.items()}
        attributes = {name.removeprefix("ce-"): value for name, value in headers.items() if name.startswith("ce-")}
        later = "" if attributes.get("epoch", "1") == "1" else f"{attributes['epoch']}/"
        assert headers["Nats-Msg-Id"] == later + attributes["id"], headers["Nats-Msg-Id"]
        if attributes["type"] != TERM:
            stream.append(_received(attributes, msgspec.json.decode(record.data)))
    return stream


def from_events(events: Iterable[Mapping[str, Any]]) -> list[AnyReceived]:
    """Structured CloudEvents, as webhooks get them."""
    return [_received({name: value for name, value in each.items() if name != "data"}, each["data"]) for each in events]


def from_file(path: Path) -> list[AnyReceived]:
    """Structured CloudEvents, one a line. A last line without its end is not there yet."""
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    return from_events(msgspec.json.decode(line) for line in lines)


def _received(attributes: Mapping[str, Any], data: Any) -> AnyReceived:
    """Raises AssertionError where the attributes contradict each other or the object."""
    assert attributes["specversion"] == "1.0"
    if attributes["type"] == GAP:
        return ReceivedGap(data["first"], data["last"], data["count"])
    if edge := SNAPSHOT_EDGES.get(attributes["type"]):
        assert int(attributes["sequence"]) == data["through"]
        return ReceivedEdge(edge)
    received = Received(
        id=attributes["id"],
        op=attributes["op"],
        subject=attributes["subject"],
        uid=attributes["uid"],
        resource_version=attributes["resourceversion"],
        sequence=int(attributes["sequence"]),
        evidence=attributes["evidence"],
        data=data,
        epoch=int(attributes["epoch"]),
        term=int(attributes.get("term", 0)),
    )
    _, _, later_epoch = attributes["source"].partition("/epochs/")
    assert (later_epoch or "1") == str(attributes["epoch"]), f"{attributes['source']} in epoch {attributes['epoch']}"
    metadata = data["metadata"]
    happened = received.version._replace(op="unselected") if received.evidence == "unselected" else received.version
    made = "/".join(happened)
    once_more = (received.evidence != "watched" or received.op == "sync") and _ONCE_MORE.fullmatch(
        received.id.removeprefix(made)
    )
    is_made_of_it = received.id.startswith(made) and (received.id == made or once_more)
    assert is_made_of_it, f"the id {received.id} is not made of what happened: {received}"
    assert attributes["type"] == f"kubedelta.object.{received.op}.v1", f"{attributes['type']} for {received}"
    assert received.version[:2] == (metadata["uid"], metadata["resourceVersion"]), f"{received} carries another version"
    assert received.subject.endswith(f"/{metadata['name']}"), f"{received} is called {metadata['name']}"
    return received


def received_lists(stream: Stream) -> list[Received]:
    """The objects in the stream, in which there must be no gap."""
    gaps = [each for each in stream if isinstance(each, ReceivedGap)]
    assert not gaps, f"{len(gaps)} gaps, the first of them {gaps[0]}"
    return [each for each in stream if isinstance(each, Received)]


# ── Questions ────────────────────────────────────────────────────────────────


def rebuilt(stream: Iterable[Received], through: int | None = None) -> dict[str, Manifest]:
    """The objects, by subject, of a consumer that applied the records in the order of arrival. With ``through``, what
    that was when the cluster was at this version."""
    objects: dict[str, Manifest] = {}
    for received in stream:
        if through is not None and int(received.resource_version) > through:
            continue
        if received.op == "deleted":
            objects.pop(received.subject, None)
        else:
            objects[received.subject] = received.data
    return objects


def as_received(listed: Manifest, collection: str, kind: str) -> dict[str, Manifest]:
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


def assert_each_once(stream: Iterable[Received], want: Iterable[Version], who: str) -> None:
    """Exactly these versions were delivered, each of them once."""
    have, wanted = Counter(received.version for received in stream), set(want)
    assert_none(
        who,
        missing=sorted(wanted - have.keys()),
        extra=sorted(have.keys() - wanted),
        delivered_more_than_once=[version for version, count in have.items() if count > 1],
    )


def assert_in_order(stream: Iterable[Received], who: str) -> None:
    """Raises AssertionError, as the next ones do."""
    assert_none(who, out_of_order=disordered(stream))


def by_uid(versions: Iterable[Version]) -> dict[str, list[Version]]:
    """The versions of each object, in their order."""
    found: dict[str, list[Version]] = defaultdict(list)
    for each in versions:
        found[each.uid].append(each)
    return found


def disordered(stream: Iterable[Received]) -> list[str]:
    """Of each object, versions ascend; of each name, sequences do: the records that break this. A repeated record with
    an equal id is left out."""
    newest: dict[str, Received] = {}
    by_subject: dict[str, Received] = {}
    wrong = []
    for received in without_repeats(stream):
        sooner = newest.get(received.uid, received), by_subject.get(received.subject, received)
        if any(_is_after(before, received) for before in sooner):
            wrong.append(f"{received}, and before it {sooner[0]} and {sooner[1]}")
        newest[received.uid] = by_subject[received.subject] = received
    return wrong


def _is_after(before: Received, received: Received) -> bool:
    if before.uid == received.uid and before.epoch == received.epoch:
        return int(before.resource_version) > int(received.resource_version) or before.sequence > received.sequence
    return before.sequence > received.sequence


def without_repeats(stream: Iterable[Received]) -> list[Received]:
    """As a consumer sees it that forgets what it has seen, by id and source."""
    first: dict[tuple[int, str], Received] = {}
    for received in stream:
        first.setdefault(received.unique_id, received)
    return list(first.values())


def repeats(stream: Iterable[Received]) -> int:
    """How many were delivered again."""
    return sum(count - 1 for count in Counter(received.unique_id for received in stream).values())


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
