"""The bytes of a list page, turned into a Page. Pure."""

from __future__ import annotations

import msgspec

from bridge.kube.status import read_status, shortened, trouble
from bridge.kube.wire import UNREADABLE, read_object
from bridge.model.answers import Failed, Page, Trouble
from bridge.model.object import ApiObject
from bridge.model.resource import Resource


class _ListMetadata(msgspec.Struct):
    resource_version: str = msgspec.field(name="resourceVersion", default="")
    next_page: str | None = msgspec.field(name="continue", default=None)


class _List(msgspec.Struct):
    kind: str = ""
    metadata: _ListMetadata = msgspec.field(default_factory=_ListMetadata)
    items: list[msgspec.Raw] | None = None


_decode_list = msgspec.json.Decoder(_List).decode


def read_page(body: bytes, resource: Resource, *, managed_fields: bool = True) -> Page | Trouble:
    """The objects of a page, each with bytes of its own; Failed for anything but a list that a watch can follow.
    Without ``managed_fields`` these are cut out."""
    try:
        page = _decode_list(body)
    except UNREADABLE as error:
        return Failed(shortened(f"the list could not be read: {error}"))
    if page.kind == "Status" and (status := read_status(body)):
        return trouble(status.code, status)
    if not page.kind.endswith("List"):
        return Failed(shortened(f"the answer is a {page.kind or 'nameless thing'}, not a list"))
    if not page.metadata.resource_version:
        return Failed("the list has no metadata.resourceVersion: it cannot be watched from here")
    objects: list[ApiObject] = []
    unreadable: list[str] = []
    for item in page.items or ():
        thing = read_object(item, resource, managed_fields=managed_fields)
        if isinstance(thing, str):
            unreadable.append(shortened(thing))
        else:
            objects.append(thing)
    return Page(objects, page.metadata.resource_version, page.metadata.next_page or None, tuple(unreadable))
