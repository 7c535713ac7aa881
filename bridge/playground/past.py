"""Serves the objects of another time, to be read alone: lists, single objects, and watches of what happened next."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

import msgspec

from bridge.model.formats.object_paths import ObjectName
from bridge.model.versions import number_of
from bridge.playground.http.errors import StatusError, decode, qualified
from bridge.playground.http.front import FrontSettings
from bridge.playground.http.handlers import ListOptions
from bridge.playground.http.requests import ACCESS_REVIEWS
from bridge.playground.http.streams import Faults
from bridge.playground.objects import crds
from bridge.playground.objects.builtin import BUILT_IN
from bridge.playground.objects.catalogue import Kind
from bridge.playground.objects.objects import pack
from bridge.playground.objects.state import State
from bridge.playground.objects.store import StoredObject
from bridge.playground.server import ApiServer

_READING = ("get", "list", "watch")
_BUILT_IN = {kind.name: kind for kind in BUILT_IN}
_EVENTS = {name for name, kind in _BUILT_IN.items() if kind.collection == "events"}


class _ReadOnly(Faults):
    """Clients that review their rights first are told that they may read."""

    def forbids(self, resource: str, verb: str, *, spend: bool) -> bool:
        return not spend and verb not in _READING


class PastObject(NamedTuple):
    """A state of an object, or (``state`` None) its end."""

    name: ObjectName
    version: str
    """Its resourceVersion then. A later change of its resource with a smaller version, as a restored cluster has it, is
    served with a larger one, and so is one whose version is no number."""
    state: bytes | None


class PastCluster(ApiServer):
    """``load`` is called before the block, ``change`` in it. Writes are refused with 405."""

    def __init__(self, kinds: Iterable[Kind], *, token: str, tls: ssl.SSLContext, now: Callable[[], datetime]) -> None:
        """``kinds``: made by ``past_kind``. ``token``: that of every request. ``now``: for ages."""
        served = {kind.name: kind for kind in kinds}
        if not served.keys().isdisjoint(_EVENTS):
            served |= {name: _to_read(_BUILT_IN[name], "v1") for name in _EVENTS}
        state = State([*served.values(), _BUILT_IN[ACCESS_REVIEWS]], now=now)
        super().__init__(state, _ReadOnly(), FrontSettings(tokens={token: "reader"}, recorded=0), tls=tls)

    def load(self, objects: Iterable[PastObject]) -> None:
        """All objects at the beginning, without states that are no objects."""
        found: dict[str, dict[str, StoredObject]] = {kind.collection: {} for kind in self._state.catalogue}
        for each in objects:
            kind = self._state.catalogue.named(each.name.resource)
            if (stored := _stored(kind, each, number_of(each.version) or 1)) is not None:
                found[kind.collection][stored.key] = stored
        for name, stored_objects in found.items():
            self._state.store.load(name, stored_objects)

    def change(self, change: PastObject) -> None:
        """Makes a change, of which watches hear; none for a state that is no object."""
        kind = self._state.catalogue.named(change.name.resource)
        store = self._state.store
        key = change.name.key
        version = max(number_of(change.version) or 0, store.version_of(kind.collection) + 1)
        if change.state is not None:
            if (stored := _stored(kind, change, version)) is not None:
                store.replay(kind.collection, key, version, stored)
        elif key in store.collection(kind.collection).objects:
            store.replay(kind.collection, key, version, None)


def past_selection(kind: Kind, labels: str, fields: str) -> Callable[[PastObject], bool]:
    """Whether an object of the kind has these labels and fields, as kubectl writes them. Raises ValueError, with what
    was found and what is known."""
    try:
        query = {"labelSelector": labels, "fieldSelector": fields}
        selection = ListOptions.parse(kind, query, watch=False).selection
    except StatusError as error:
        raise ValueError(str(error)) from error

    def is_chosen(found: PastObject) -> bool:
        stored = _stored(kind, found, 1)
        return stored is not None and selection(stored)

    return is_chosen


def _stored(kind: Kind, found: PastObject, version: int) -> StoredObject | None:
    """Under its name in the stream. None for a state that is no object, as another program may have written it."""
    try:
        manifest = decode(found.state or b"null")
        names = {"namespace": found.name.namespace, "name": found.name.name}
        stored = pack(kind, {**manifest, "metadata": {"uid": "", **manifest["metadata"], **names}}, version)
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError, msgspec.MsgspecError):
        return None
    return stored if all(isinstance(each, str) for each in stored.labels.values()) else None


def past_kind(
    group: str, plural: str, kind: str, version: str, *, namespaced: bool, definition: Mapping[str, object] | None
) -> Kind:
    """A resource of Kubernetes, or of a CustomResourceDefinition, or, where that is not known, of its names alone."""
    known = _BUILT_IN.get(qualified(group, plural))
    if known is None and definition is not None:
        # The stream may have only the definition's name: it was too large, or not readable.
        with suppress(StatusError, AttributeError, LookupError, TypeError, ValueError):
            known = crds.kind_of(dict(definition))
    if known is None:
        known = Kind(
            group=group,
            plural=plural,
            kind=kind,
            singular=kind.lower(),
            list_kind=f"{kind}List",
            namespaced=namespaced,
            custom=True,
        )
    return _to_read(known, version)


def _to_read(kind: Kind, version: str) -> Kind:
    return replace(kind, versions=(version,), verbs=_READING, subresources=())
