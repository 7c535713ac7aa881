"""The text of a list page beside its items: kind, version, and the token of the next page. Pure."""

from __future__ import annotations

import msgspec

from bridge.kube.wire.bounds import Version
from bridge.kube.wire.objects import UNREADABLE
from bridge.kube.wire.status import error_answer, read_status, shortened
from bridge.model.answers import ErrorAnswer, Failed, Page
from bridge.model.object import ApiObject


class _ShardInfo(msgspec.Struct):
    selector: str = ""


class ListMetadata(msgspec.Struct):
    """The metadata of a list."""

    resource_version: Version = msgspec.field(name="resourceVersion", default="")
    next_page: str | None = msgspec.field(name="continue", default=None)
    shard_info: _ShardInfo | None = msgspec.field(name="shardInfo", default=None)

    def page(self, objects: list[ApiObject], unreadable: tuple[str, ...], size: int) -> Page:
        """The page with this metadata."""
        selector = "" if self.shard_info is None else self.shard_info.selector
        return Page(objects, self.resource_version, self.next_page or None, unreadable, size, selector)


class _List(msgspec.Struct):
    kind: str = ""
    api_version: str = msgspec.field(name="apiVersion", default="")
    metadata: ListMetadata = msgspec.field(default_factory=ListMetadata)
    items: list[msgspec.Raw] | None = None


_decode_list = msgspec.json.Decoder(_List).decode


class ListText:
    """Collected by a PageReader while it cuts the items out."""

    def __init__(self) -> None:
        self._begins = b""
        self._ends = b""
        self.version = ""
        """The list's resourceVersion, as soon as it was read: kube-apiserver writes it before the items of its own
        kinds, and behind the items of custom resources."""
        self.names_secrets = False
        """The list's kind is SecretList. It counts for its items, into which kube-apiserver writes no kind."""

    def __len__(self) -> int:
        """Bytes collected so far."""
        return len(self._begins) + len(self._ends)

    def begin(self, text: bytes) -> Failed | None:
        """Takes the text before the items, with their opening bracket. Failed if it is no JSON."""
        self._begins = text
        try:
            found = _decode_list(text + b"[]}")
        except UNREADABLE as error:
            return malformed(str(error))
        if found.kind.endswith("List"):
            self.version = found.metadata.resource_version
            self.names_secrets = _lists_secrets(found)
        return None

    def append(self, text: bytes) -> None:
        """Takes text behind the items and their closing bracket."""
        self._ends += text

    def end(self, text: bytes | None = None) -> ListMetadata | ErrorAnswer:
        """Reads the whole text, or ``text`` in its place if no items were found. Failed if it is not a list with a
        version; the failure of a Status that stands in its place."""
        text = b"".join((self._begins, b"[]", self._ends)) if text is None else text
        try:
            found = _decode_list(text)
        except UNREADABLE as error:
            return malformed(str(error))
        if found.kind == "Status" and (status := read_status(text)):
            return error_answer(status.code, status)
        if found.items:
            return malformed("it has two lists of items")
        if not found.kind.endswith("List"):
            return Failed(shortened(f"the answer is a {found.kind or 'nameless thing'}, not a list"))
        if not found.metadata.resource_version:
            return Failed("the list has no metadata.resourceVersion, from which a watch could start")
        self.names_secrets = self.names_secrets or _lists_secrets(found)
        return found.metadata


def malformed(reason: str) -> Failed:
    return Failed(shortened(f"the list could not be read: {reason}"))


def _lists_secrets(found: _List) -> bool:
    """By the list's kind, because an aggregated API server may give the resource any name."""
    return found.kind == "SecretList" and "/" not in found.api_version
