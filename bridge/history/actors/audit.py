"""What an audit event of the API server says about who changed an object, as an ``Actor``.

Only two fields of bodies are read, the uid and the resourceVersion of the answer's metadata; nothing of a body is kept,
since bodies are full of secrets. Pure: it reads no clock and no file.

Which step of the object's history a request made is known from, in this order:

- the answer's uid and resourceVersion, at level RequestResponse: ``Join.VERSION``. An object that is deleted at once is
  answered with its uid alone, and is deleted once.
- the annotations of the admission policy of ``deploy/audit``: the uid, and the version *before* the change:
  ``Join.BEFORE``. ``objectRef`` cannot say either: its uid and resourceVersion are those that the client sent.
- the object and the time of the request: ``Join.WINDOW``.
- nothing, where a request names no object: ``Join.NONE``.

Source: staging/src/k8s.io/apiserver/pkg/apis/audit/v1/types.go, and pkg/audit/request.go (LogRequestObject).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from urllib.parse import parse_qs, urlsplit

import msgspec
from msgspec.structs import replace

from bridge.model.formats.object_paths import partition_key

UID_ANNOTATION = "audit.kubedelta.dev/uid"
"""Of the object, by the admission policy: ``<policy>/<key>``."""
BEFORE_ANNOTATION = "audit.kubedelta.dev/before"
"""resourceVersion of the object before the change; empty for a new object."""
_CHANGES = ("create", "update", "patch", "delete", "deletecollection")
_CHANGE_NOTHING = ("attach", "exec", "log", "portforward", "proxy", "token")
"""Subresources whose requests change no object."""
_LONGEST = 1024
"""Characters of a text that a client chose. The API server cuts user agents at the same length."""
_MOST_GROUPS = 100


class NotAnAuditEvent(Exception):
    """The line is no audit event. The message says what it lacks."""


class Join(StrEnum):
    """By what a reader finds the step that the request made."""

    VERSION = "version"
    """``uid`` and ``version``; without a version it is the delete of ``uid``."""
    BEFORE = "before"
    """``uid``, and ``before``: the version in front of the step."""
    WINDOW = "window"
    """The object, and the time between ``received`` and ``completed``."""
    NONE = "none"
    """The request names no object."""


class Person(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who made a request, or in whose name."""

    name: str = ""
    groups: tuple[str, ...] = ()


class Actor(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request that changed an object, or may have."""

    id: str
    """The audit id, and when the request was received and completed: a client may choose one audit id (``Audit-ID``)
    for several requests. Of a request that deleted several objects, with the uid of each behind it."""
    key: str
    """The partition key of the object; its name is empty where the request names none."""
    verb: str
    subresource: str = ""
    join: Join
    uid: str = ""
    version: str = ""
    before: str = ""
    received: str
    """RFC 3339: when the API server received the request."""
    completed: str
    user: Person = Person()
    impersonated: Person | None = None
    """In whose name ``user`` acted."""
    agent: str = ""
    """The client's own word."""
    address: str = ""
    """The last hop: what is before it is the client's own word."""


class _Metadata(msgspec.Struct):
    uid: str = ""
    resourceVersion: str = ""
    namespace: str = ""
    name: str = ""


class _Item(msgspec.Struct):
    metadata: _Metadata | None = None


class _Details(msgspec.Struct):
    uid: str = ""


class _Answer(msgspec.Struct):
    kind: str = ""
    metadata: _Metadata | None = None
    details: _Details | None = None
    items: list[_Item] | None = None


class _User(msgspec.Struct):
    username: str = ""
    groups: list[str] | None = None


class _Reference(msgspec.Struct):
    resource: str = ""
    namespace: str = ""
    name: str = ""
    apiGroup: str = ""
    subresource: str = ""


class _Status(msgspec.Struct):
    code: int = 0


class _Event(msgspec.Struct):
    kind: str
    auditID: str
    stage: str
    verb: str
    requestReceivedTimestamp: str
    stageTimestamp: str
    requestURI: str = ""
    user: _User = msgspec.field(default_factory=_User)
    impersonatedUser: _User | None = None
    sourceIPs: list[str] | None = None
    userAgent: str = ""
    objectRef: _Reference | None = None
    responseStatus: _Status | None = None
    responseObject: _Answer | None = None
    annotations: dict[str, str] | None = None


_decode = msgspec.json.Decoder(_Event).decode
_UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)


def actors_of(line: bytes, cluster: str, named: Callable[[str], str]) -> Sequence[Actor]:
    """The actors of an audit event (``audit.k8s.io/v1``); empty for a request that changed nothing: it was refused, or
    a trial (``dryRun``), or has not ended. ``named``: what takes the place of a name (see ``names``). Raises
    NotAnAuditEvent."""
    try:
        event = _decode(line)
    except _UNREADABLE as error:
        raise NotAnAuditEvent(f"no audit event: {error}") from error
    if event.kind != "Event":
        raise NotAnAuditEvent(f"no audit event: kind is {event.kind[:100]!r}")
    reference = event.objectRef
    if reference is None or not _changes(event, reference):
        return ()

    def key(namespace: str, name: str) -> str:
        return partition_key(cluster, reference.apiGroup, reference.resource, namespace, name)

    request = Actor(
        id=f"{event.auditID[:_LONGEST]}/{event.requestReceivedTimestamp}/{event.stageTimestamp}",
        key=key(reference.namespace, reference.name),
        verb=event.verb,
        subresource=reference.subresource,
        join=Join.WINDOW if reference.name else Join.NONE,
        received=event.requestReceivedTimestamp,
        completed=event.stageTimestamp,
        user=_person(event.user, named),
        impersonated=None if event.impersonatedUser is None else _person(event.impersonatedUser, named),
        agent=event.userAgent[:_LONGEST],
        address=named((event.sourceIPs or [""])[-1][:_LONGEST]),
    )
    # Each object of a collection has an actor; they share what is said of the people, which may be long.
    found = [*_of_objects(event, reference, request, key)]
    return found if len(found) == 1 else [replace(each, id=f"{each.id}/{each.uid}") for each in found]


def _changes(event: _Event, reference: _Reference) -> bool:
    status = event.responseStatus
    if event.stage != "ResponseComplete" or event.verb not in _CHANGES:
        return False
    if reference.subresource in _CHANGE_NOTHING or status is None or not 200 <= status.code < 300:
        return False
    try:
        return "dryRun" not in parse_qs(urlsplit(event.requestURI).query)
    except ValueError:
        return True


def _of_objects(
    event: _Event, reference: _Reference, request: Actor, key: Callable[[str, str], str]
) -> Iterator[Actor]:
    """The request with what is known of each of its objects. ``key``: of namespace and name."""
    answer, annotations = event.responseObject, event.annotations or {}
    if answer is not None and answer.items is not None:
        # deletecollection answers with what it listed, before it deleted one after another.
        for each in answer.items:
            if (found := each.metadata) is not None and found.uid:
                named = key(found.namespace, found.name)
                yield replace(request, key=named, join=Join.BEFORE, uid=found.uid, before=found.resourceVersion)
    elif answer is not None and (found := answer.metadata) is not None and found.uid:
        # A generated name is in the answer alone.
        named = key(reference.namespace, found.name or reference.name)
        join = Join.VERSION if found.resourceVersion else Join.WINDOW
        yield replace(request, key=named, join=join, uid=found.uid, version=found.resourceVersion)
    elif answer is not None and answer.details is not None and answer.details.uid and event.verb == "delete":
        yield replace(request, join=Join.VERSION, uid=answer.details.uid)
    elif reference.name and UID_ANNOTATION in annotations and event.verb != "deletecollection":
        before = annotations.get(BEFORE_ANNOTATION, "")
        yield replace(request, join=Join.BEFORE, uid=annotations[UID_ANNOTATION], before=before)
    else:
        yield request


def _person(user: _User, named: Callable[[str], str]) -> Person:
    groups = [named(each[:_LONGEST]) for each in (user.groups or ())[:_MOST_GROUPS]]
    return Person(named(user.username[:_LONGEST]), tuple(each for each in groups if each))
