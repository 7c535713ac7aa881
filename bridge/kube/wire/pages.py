"""Reads the objects of a list page from its bytes while they arrive. Pure. Hot.

A page is ``{…,"items":[{…},{…}],…}``, and is never held whole: items are cut off as they complete. The fast way
searches the text between two items of kube-apiserver, ``},{"metadata":{"name":"``; the decoder then confirms that the
item is complete. Otherwise, in other formats, and for items beyond the decoder's depth, brackets are counted
(``nesting``).
"""

from __future__ import annotations

import re

from bridge.kube.wire.list_text import ListMetadata, ListText, malformed
from bridge.kube.wire.nesting import Nesting, end_of_value, members
from bridge.kube.wire.objects import UNREADABLE, LeftBare, bare, decode_head, read_object, whole_object
from bridge.kube.wire.page_items import PageItems
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
_SEARCH_LIMIT = 2 << 20
"""Bytes without the beginning of a next item, after which brackets are counted instead."""
_MOST = 4 << 20
"""Upper bound in bytes for the text to be collected before it is read."""

_BEGINNING = re.compile(rb'\{"metadata":\{"name":"|\{"metadata":\{|\{"(?:apiVersion|kind)":"[^"\\]{1,300}","')
_LONGEST_BEGINNING = 400
_WHITE = re.compile(rb"\s*+")
_ITEMS = b'"items"'
_CLOSING = ord("]")


class PageReader(PageItems):
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
        super().__init__()
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
        self._final = False
        self._list = ListText()
        self._white = 0
        self._between: bytes | None = None
        """The text between two items; empty if items have no common beginning, None before the first item."""
        self._searched = 0
        """The next item begins at or behind this index."""
        self._nesting = Nesting()
        self._too_long: LeftBare | str = ""
        self._size = 0
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
        return self._take(secret=self._list.names_secrets)

    def end(self) -> Page | ErrorAnswer:
        """Ends the page. The Page has the objects that were not taken, the list's version and the unreadable items;
        Failed if the text is not a list with a version."""
        self._final = True
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
        if self._between is None:
            if len(self._text) - self._at < _LONGEST_BEGINNING and not self._final:
                return False
            beginning = _BEGINNING.match(self._text, self._at)
            self._between = b"}," + beginning[0] if beginning else b""
        if self._between and self._cut(self._between) and self._may_wait():
            return False
        self._nesting = Nesting()
        self._searched = self._at
        self._step = self._inside_item
        return True

    def _may_wait(self) -> bool:
        return len(self._text) - self._at <= _SEARCH_LIMIT and not self._final

    def _cut(self, between: bytes) -> bool:
        """Reads all items that are followed by another item. False if an item is not in kube-apiserver's format."""
        text, resource, managed_fields = self._text, self._resource, self._managed_fields
        view = memoryview(text)
        at, longest = self._at, self._longest_object
        while (found := text.find(between, max(at, self._searched))) >= 0:
            body = view[at : found + 1]
            # The same text may occur inside of a string or a nested list: decoding shows whether this is the end.
            try:
                head = decode_head(body)
            except UNREADABLE:
                self._at = at
                return False
            if len(body) > longest:
                self._at = at
                return False
            self._put(whole_object(head, body, resource, managed_fields=managed_fields))
            at = self._searched = found + 2
        self._at = at
        self._searched = max(at, len(text) - len(between))
        return True

    def _inside_item(self) -> bool:
        end = self._nesting.end(self._text, self._searched)
        if end >= 0:
            body = memoryview(self._text)[self._at : end]
            if len(body) > self._longest_object:
                self._put(self._bare())
            else:
                self._put(read_object(body, self._resource, managed_fields=self._managed_fields))
            self._at = self._searched = end
            self._step = self._behind_item
            return True
        self._searched = len(self._text)
        if self._searched - self._at > self._longest_object:
            self._too_long = self._bare()
            self._at = self._searched
            self._step = self._beyond_item
        return False

    def _beyond_item(self) -> bool:
        end = self._nesting.end(self._text, self._at)
        self._at = self._searched = len(self._text) if end < 0 else end
        if end < 0:
            return False
        self._put(self._too_long)
        self._step = self._behind_item
        return True

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
