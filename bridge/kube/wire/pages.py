"""Reads the objects of a list page from its bytes while they arrive.

A page is ``{…,"items":[{…},{…}],…}``, and is never held whole: items are cut off as they complete, and the text beside
them, with kind, version and the token of the next page, is collected (``ListText``). Where an item ends is guessed
first, from the beginning of the next one (``},{"metadata":{"name":"``), since that costs a search, and the decoder
reads the item anyway: it fails where the guess was wrong, because the item holds objects that begin like itself. Then
the decoder is asked for the end (``end_of_whole``), at the price of reading the item twice, whatever its format.
Brackets are counted (``Nesting``) only in items that no decoder can read, and beyond the longest object.

Held whole, a page of 500 objects of 1 MB took 1.1 GiB, and a server that answers from its cache sends all objects as a
single page, whatever the limit. Items that are passed on as they complete let the bound of the queue slow the server
down. A limit that suits the largest objects would cost eight times as many requests for all others.

An item that cannot be read is reported with the page, up to MOST_UNREADABLE of them; text that is no list makes the
whole page Failed.
"""

from __future__ import annotations

import re

import msgspec

from bridge.kube.wire.objects import (
    UNREADABLE,
    LeftBare,
    Nesting,
    Version,
    bare,
    decode_head,
    end_of_value,
    end_of_whole,
    members,
    read_object,
    whole_object,
)
from bridge.kube.wire.status import error_answer, read_status, shortened
from bridge.model.answers import ErrorAnswer, Failed, Page
from bridge.model.object import ApiObject
from bridge.model.resource import Resource

LEAST = 256 * 1024
"""Bytes to be collected before they are read."""
LONGEST_OBJECT = 16 << 20
"""Bytes. etcd takes 1.5 MiB by default, and kube-apiserver 3 MiB per request; managed fields and conversion may
double that. Only the identity of a longer object is kept."""
LONGEST_AROUND = 1 << 20
"""Bytes of a list beside its items, white space included."""
_MOST = 4 << 20
"""Upper bound in bytes for the text to be collected before it is read."""

MOST_UNREADABLE = 100
"""Unreadable items that are reported, per page."""

_BEGINNING = re.compile(rb'\{(?:"(?:apiVersion|kind)":"[^"\\]{1,300}",){0,2}"metadata":\{"(?:name":")?')
_WHITE = re.compile(rb"\s*+")
_ITEMS = b'"items"'
_CLOSING = ord("]")


class PageReader:
    """Reads a page in pieces of any length. Used by a single task."""

    def __init__(
        self,
        resource: Resource,
        *,
        managed_fields: bool = True,
        longest_object: int = LONGEST_OBJECT,
        least: int = LEAST,
    ) -> None:
        """If ``managed_fields`` is False, they are cut out. ``longest_object`` and ``least`` are in bytes."""
        self._resource = resource
        self._managed_fields = managed_fields
        self._longest_object = longest_object
        self._least = least
        self._step = self._before_items
        """The state, as the method that reads the text from ``_at`` on. It returns False when it needs more text."""
        self._text = b""
        self._at = 0
        self._pending: list[bytes] = []
        self._pending_size = 0
        self._list = ListText()
        self._white = 0
        self._between = b""
        """The text between two items, from the first one that begins in kube-apiserver's format."""
        self._searched = 0
        """``_between`` occurs at or behind this index."""
        self._counted = 0
        """Brackets were counted up to this index."""
        self._nesting = Nesting()
        self._too_long: LeftBare | str = ""
        self._size = 0
        self._objects: list[ApiObject] = []
        self._unreadable: list[str] = []
        self.left_bare: list[str] = []
        """Objects reduced to their identity: name and reason. The reader of this list may clear it."""
        self.held = 0
        """Bytes of the objects that were not taken yet."""
        self.failed: Failed | None = None
        """The text cannot be a list. Later text is ignored."""

    @property
    def version(self) -> str:
        """The list's resourceVersion, as soon as it was read; empty before that."""
        return self._list.version

    def feed(self, piece: bytes) -> int:
        """Reads further bytes of the page. Returns the number of objects read. Memory holds the text of one object, and
        the objects that ``take`` has not returned yet."""
        before = len(self._objects)
        self._pending.append(piece)
        self._pending_size += len(piece)
        self._size += len(piece)
        # Small pieces are collected first, because every step copies the text of an unfinished object.
        if self._pending_size >= max(self._least, min(len(self._text), _MOST)):
            self._advance()
        return len(self._objects) - before

    def take(self) -> list[ApiObject]:
        """Removes and returns the complete objects."""
        objects, self._objects, self.held = self._objects, [], 0
        if not self._list.names_secrets:
            return objects
        return [msgspec.structs.replace(each, secret=True) for each in objects]

    def end(self) -> Page | ErrorAnswer:
        """Ends the page. The Page has the objects that were not taken, the list's version and the unreadable items;
        Failed if the text is not a list with a version."""
        self._advance()
        if self.failed is not None:
            return self.failed
        if self._step not in (self._before_items, self._behind_items):
            return malformed("it ends before its items do")
        read = self._list.end(self._text if self._step == self._before_items else None)
        if not isinstance(read, ListMetadata):
            return read
        return read.page(self.take(), tuple(self._unreadable), self._size)

    def _advance(self) -> None:
        self._text = b"".join((self._text, *self._pending))
        self._pending.clear()
        self._pending_size = 0
        while self.failed is None and self._step():
            pass
        self._text = b"" if self.failed is not None else self._text[self._at :]
        self._searched = max(0, self._searched - self._at)
        self._counted -= self._at
        self._at = 0

    # ── Around the items ─────────────────────────────────────────────────────

    def _before_items(self) -> bool:
        begin = len(self._text) - len(self._text.lstrip())
        for key, start, _ in members(self._text, begin, last=_ITEMS):
            if key == _ITEMS and self._text.startswith(b"[", start):
                self.failed = self._list.begin(self._text[:start])
                self._at = start + 1
                self._step = self._next_item
                return True
        self._check_around(len(self._text))
        return False

    def _behind_item(self) -> bool:
        if not self._skip_white():
            return False
        mark = self._text[self._at]
        if mark not in b",]":
            self.failed = malformed("its items are not a list")
        self._at += 1
        self._step = self._behind_items if mark == _CLOSING else self._next_item
        return True

    def _behind_items(self) -> bool:
        self._list.append(self._text[self._at :])
        self._at = len(self._text)
        self._check_around(len(self._list))
        return False

    def _skip_white(self) -> bool:
        """Skips white space. Whether other text follows it."""
        white = _WHITE.match(self._text, self._at)
        end = white.end() if white else self._at
        self._white += end - self._at
        self._at = end
        self._check_around(self._white)
        return end < len(self._text) and self.failed is None

    def _check_around(self, size: int) -> None:
        if size > LONGEST_AROUND:
            self.failed = malformed(f"it has more than {LONGEST_AROUND} bytes beside its items")

    # ── Items ────────────────────────────────────────────────────────────────

    def _next_item(self) -> bool:
        if not self._skip_white():
            return False
        first = self._text[self._at]
        if first == _CLOSING:
            self._at += 1
            self._step = self._behind_items
            return True
        if first not in b"{[":
            return self._scalar()
        if not self._between and (beginning := _BEGINNING.match(self._text, self._at)) is not None:
            self._between = b"}," + beginning[0]
        if self._between:
            self._cut()
        return self._whole_item()

    def _cut(self) -> None:
        """Reads the items up to the first one that does not end where another one seems to begin."""
        text, between, resource, managed_fields = self._text, self._between, self._resource, self._managed_fields
        view = memoryview(text)
        at, longest = self._at, self._longest_object
        while (found := text.find(between, max(at, self._searched))) >= 0:
            self._searched = found
            body = view[at : found + 1]
            if len(body) > longest:
                break
            try:
                head = decode_head(body)
            except UNREADABLE:
                break
            self._put(whole_object(head, body, resource, managed_fields=managed_fields))
            at = found + 2
        else:
            self._searched = max(at, len(text) - len(between))
        self._at = at

    def _whole_item(self) -> bool:
        """Reads an item by its end. False if the end may come with more text."""
        rest = memoryview(self._text)[self._at :]
        try:
            size = end_of_whole(rest[: self._longest_object + 1])
        except UNREADABLE:
            size = -1
        else:
            if size < 0 and len(rest) <= self._longest_object:
                return False
        if not 0 < size <= self._longest_object:
            self._nesting = Nesting()
            self._counted = self._at
            self._step = self._inside_item
            return True
        self._put(read_object(rest[:size], self._resource, managed_fields=self._managed_fields))
        self._at += size
        self._step = self._behind_item
        return True

    def _inside_item(self) -> bool:
        end = self._nesting.end(self._text, self._counted)
        if end >= 0:
            body = memoryview(self._text)[self._at : end]
            if len(body) > self._longest_object:
                self._put(self._bare())
            else:
                self._put(read_object(body, self._resource, managed_fields=self._managed_fields))
            self._at = end
            self._step = self._behind_item
            return True
        self._counted = len(self._text)
        if self._counted - self._at > self._longest_object:
            self._too_long = self._bare()
            self._at = self._counted
            self._step = self._beyond_item
        return False

    def _beyond_item(self) -> bool:
        end = self._nesting.end(self._text, self._at)
        self._at = len(self._text) if end < 0 else end
        if end < 0:
            return False
        self._put(self._too_long)
        self._step = self._behind_item
        return True

    def _put(self, thing: ApiObject | LeftBare | str) -> None:
        if isinstance(thing, LeftBare):
            self.left_bare.append(shortened(thing.reason))
            if thing.object is None:
                return
            thing = thing.object
        if isinstance(thing, ApiObject):
            self._objects.append(thing)
            self.held += len(thing.body)
        elif len(self._unreadable) < MOST_UNREADABLE:
            self._unreadable.append(shortened(thing))

    def _bare(self) -> LeftBare | str:
        return bare(self._text, self._resource, f"it is longer than {self._longest_object} bytes", at=self._at)

    def _scalar(self) -> bool:
        end = end_of_value(self._text, self._at)
        if end < 0:
            self._check_around(len(self._text) - self._at)
            return False
        self._put(read_object(self._text[self._at : end], self._resource))
        self._at = end
        self._step = self._behind_item
        return True


# ── The text beside the items ─────────────────────────────────────────────────


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
    """Decides by the list's kind, because an aggregated API server may give the resource any name."""
    return found.kind == "SecretList" and "/" not in found.api_version
