"""Reads the values of an election's Lease, and makes the objects that an elector writes.

Whoever may update the Lease chooses its content, so sizes and forms are checked here.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from math import ceil
from typing import Annotated, Any

import msgspec

from bridge.model.resource import LEASES

TERM = "kubedelta/term"
"""The annotation with the term of the holder, a decimal number."""
PUBLISHED = "kubedelta/replication"
"""The annotation with what the leader publishes: see ``Published``."""
_LARGEST_PUBLISHED = 16_384
"""Bytes."""
_MOST_FOLLOWERS = 64
LAST_TERM = (1 << 53) - 1
"""Terms are in events, and all readers of JSON hold this number. No election comes so far: see ``is_possible``."""
_FIRST_DOUBTED = 1 << 52
"""An election that takes the Lease every second comes to this term in 140 million years."""
_MOST_STEPS = 1 << 16
"""Terms that other replicas can have tried meanwhile, once somebody has written a term beyond that."""

_LARGEST = 1 << 20
_LONGEST_HOLDER = 512
_LONGEST_DURATION = 3600
_RELEASED_SECONDS = 1
"""As client-go's release: zero would be refused, and a client that ignores the empty holder waits no longer."""


class MalformedLease(Exception):
    """The object is no Lease that an elector can use. The message names the member, and has no content."""


class _Spec(msgspec.Struct, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: str
    annotations: dict[str, str] | None = None


class _Object(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec
    """Demanded: an object that was reduced to its identity would look like a free Lease."""


_Text = Annotated[str, msgspec.Meta(max_length=_LONGEST_HOLDER)]


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """What the leader of a term says of itself. Whoever can write the Lease chooses it, so that a follower believes no
    address before the server there has proven that it has the redaction key."""

    leader: _Text
    """Its identity. It stays when the Lease is released."""
    term: int
    address: _Text = ""
    """Host and port for followers; empty where none can follow."""
    fingerprint: _Text = ""
    """SHA-256 of the certificate of that server."""
    in_sync: Annotated[tuple[_Text, ...], msgspec.Meta(max_length=_MOST_FOLLOWERS)] = ()
    """Identities of the followers that have everything that any destination can have."""


_decode_published = msgspec.json.Decoder(Published).decode


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """A Lease that the API server sent."""

    holder: str
    """Empty if nobody holds the Lease."""
    duration: float
    """Seconds that the holder asks for; at least 1, at most an hour."""
    term: int
    """0 without a term, and for a text of another form: the elector's own highest term counts then. May not be
    possible."""
    published: Published | None
    """None if nobody has published anything, and for a text of another form."""
    version: str
    """resourceVersion."""
    acquired: str
    renewed: str
    """RFC 3339 by the holder's clock. Compared with the renewTime before, and with no other clock."""
    transitions: int
    whole: Mapping[str, Any]
    """The object as received: members that we do not know stay as they are."""

    @property
    def proves_the_last_write(self) -> bool:
        """False for a Lease as a create made it: the create may have come late, after the delete of the Lease of
        another holder, who still works. An update has replaced exactly the version that its writer knew."""
        return self.transitions > 0 or self.renewed != self.acquired

    @property
    def record(self) -> tuple[object, ...]:
        """Changes with every renewal, and not with labels or other annotations."""
        return self.holder, self.duration, self.term, self.acquired, self.renewed, self.transitions


def lease_of(body: bytes) -> Lease:
    """Raises MalformedLease."""
    if len(body) > _LARGEST:
        raise MalformedLease(f"the Lease has {len(body)} bytes; allowed: {_LARGEST}")
    try:
        read = msgspec.json.decode(body, type=_Object)
        whole = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedLease(f"the Lease cannot be read: {error}") from error
    spec, annotations = read.spec, read.metadata.annotations or {}
    holder = spec.holder_identity or ""
    if len(holder) > _LONGEST_HOLDER:
        raise MalformedLease(f"spec.holderIdentity has {len(holder)} characters; allowed: {_LONGEST_HOLDER}")
    return Lease(
        holder=holder,
        duration=float(max(1, min(spec.lease_duration_seconds or 1, _LONGEST_DURATION))),
        term=_term(annotations.get(TERM, "")),
        published=_published(annotations.get(PUBLISHED, "")),
        version=read.metadata.resource_version,
        acquired=spec.acquire_time or "",
        renewed=spec.renew_time or "",
        transitions=max(0, min(spec.lease_transitions or 0, 2**31 - 2)),
        whole=whole,
    )


class LeaseHolder(msgspec.Struct, frozen=True, kw_only=True):
    """A holder, in the Lease that it writes."""

    holder: str
    """Empty for nobody."""
    seconds: float
    """The duration; the Lease has whole seconds, at least as many."""
    term: int


def created(claim: LeaseHolder, namespace: str, name: str, published: Published | None, now: datetime) -> bytes:
    """A new object, for a create."""
    metadata = {"namespace": namespace, "name": name, "annotations": _annotations(claim.term, published)}
    spec = {**_claimed(claim, now), "leaseTransitions": 0}
    head = {"apiVersion": LEASES.api_version, "kind": LEASES.kind}
    return msgspec.json.encode({**head, "metadata": metadata, "spec": spec})


def taken(lease: Lease, claim: LeaseHolder, now: datetime, *, clean: bool) -> bytes:
    """The object with another holder, for an update: the API server refuses it with 409 if another version is current.
    What the leader before published stays: until the new one publishes, and it delivers nothing before, whoever was in
    sync with the leader before is in sync. Behind a holder that is not ``clean`` nobody is, until it publishes: what
    the Lease said may have been of a backup."""
    spec = {**_claimed(claim, now), "leaseTransitions": lease.transitions + 1}
    return _changed(lease, spec, {TERM: str(claim.term)} if clean else _annotations(claim.term, None))


def _claimed(claim: LeaseHolder, now: datetime) -> Mapping[str, Any]:
    return {
        "holderIdentity": claim.holder or None,  # Empty text may be refused: client-go leaves the member out.
        "leaseDurationSeconds": max(1, ceil(claim.seconds)),
        "acquireTime": _micro_time(now),
        "renewTime": _micro_time(now),
    }


def renewed(lease: Lease, term: int, published: Published | None, now: datetime) -> bytes:
    """The object with a later renewTime, with the holder's term, whatever somebody else has written there, and with
    this publication."""
    return _changed(lease, {"renewTime": _later(lease.renewed, now)}, _annotations(term, published))


def released(lease: Lease, term: int, published: Published | None, now: datetime) -> bytes:
    """The object without a holder, and with the last publication: one compare-and-swap changes both. ``term``: as for
    ``renewed``."""
    spec = {
        "holderIdentity": None,
        "leaseDurationSeconds": _RELEASED_SECONDS,
        "renewTime": _later(lease.renewed, now),
    }
    return _changed(lease, spec, _annotations(term, published))


def _annotations(term: int, published: Published | None) -> dict[str, str]:
    text = "" if published is None else msgspec.json.encode(published).decode()
    return {TERM: str(term), PUBLISHED: text}


def is_possible(term: int, newest: int) -> bool:
    """Whether a term of the Lease may come from an election. One that cannot is passed over: with ``LAST_TERM``, nobody
    could take the Lease any more. ``newest``: of all terms that the elector knows."""
    return term <= max(_FIRST_DOUBTED, newest + _MOST_STEPS)


def _published(text: str) -> Published | None:
    if not text or len(text) > _LARGEST_PUBLISHED:
        return None
    try:
        return _decode_published(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def _changed(lease: Lease, spec: Mapping[str, Any], annotations: Mapping[str, str]) -> bytes:
    whole, before = lease.whole, lease.whole["metadata"]
    # The API server keeps managedFields itself; they would only make the request longer.
    metadata = {name: value for name, value in before.items() if name != "managedFields"}
    metadata["annotations"] = {**(before.get("annotations") or {}), **annotations}
    return msgspec.json.encode({**whole, "metadata": metadata, "spec": {**whole["spec"], **spec}})


def _term(text: str) -> int:
    # Not isdecimal alone: that accepts digits of every script.
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(LAST_TERM))):
        return 0
    return min(int(text), LAST_TERM)


def _later(before: str, now: datetime) -> str:
    """``now``, or a microsecond after the time before if the wall clock was set back: watchers must see a change."""
    try:
        return _micro_time(max(now, datetime.fromisoformat(before) + timedelta(microseconds=1)))
    except (ValueError, TypeError, OverflowError):  # Another form, a time without a zone, the end of the year 9999.
        return _micro_time(now)


def _micro_time(when: datetime) -> str:
    """metav1.MicroTime: RFC 3339 with exactly six digits of a second."""
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
