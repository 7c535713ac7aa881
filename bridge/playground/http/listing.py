"""Lists: pages at a version, and the continue tokens between them (apiserver's ``storage/continue.go``)."""

from __future__ import annotations

import base64
import binascii
import posixpath
from dataclasses import dataclass
from itertools import islice

import msgspec

from bridge.playground.http.encoding import encode
from bridge.playground.http.errors import bad_request, expired
from bridge.playground.http.options import EXACT, ListOptions
from bridge.playground.objects.catalogue import Kind
from bridge.playground.objects.objects import list_item
from bridge.playground.objects.store import Forgotten, ObjectStore, Range, StoredObject

_FORMAT = "meta.k8s.io/v1"
_LATEST = -1
"""The version in a continue token that continues with the current objects, regardless of changes since the first
page."""


class _Token(msgspec.Struct):
    v: str = ""
    rv: int = 0
    start: str = ""


@dataclass(frozen=True, slots=True)
class ListPage:
    """Objects at a version."""

    version: int
    objects: list[StoredObject]
    next_page: str
    remaining: int | None
    """The number of objects behind this page; None if it is zero, or unknown because of a selector."""

    def body(self, kind: Kind, version: str) -> bytes:
        items = b",".join(list_item(kind, each, version) for each in self.objects)
        metadata = {"resourceVersion": str(self.version)}
        # Lists of custom kinds have an empty continue token on their last page; lists of built-in kinds have none.
        if self.next_page or kind.custom:
            metadata["continue"] = self.next_page
        if self.remaining is not None:
            metadata |= {"remainingItemCount": self.remaining}  # type: ignore[dict-item]
        api_version, list_kind = encode(kind.api_version(version)), encode(kind.list_kind)
        if kind.custom:
            parts = (api_version, items, list_kind, encode(metadata, sort=True))
            return b'{"apiVersion":%b,"items":[%b],"kind":%b,"metadata":%b}\n' % parts
        return b'{"kind":%b,"apiVersion":%b,"metadata":%b,"items":[%b]}\n' % (
            list_kind,
            api_version,
            encode(metadata),
            items,
        )


def wanted_version(options: ListOptions) -> int:
    """The version that the server must have reached before it answers; 0 for any. Raises StatusError."""
    if options.next_page and options.version != "0":
        return max(0, _decode(options.next_page).rv)
    return options.version_number()


def list_page(store: ObjectStore, kind: Kind, namespace: str, options: ListOptions) -> ListPage:
    """A page of a list, once the store has reached ``wanted_version``. Raises StatusError: 400 for a malformed token,
    410 for a version or a token that is too old."""
    version = options.version_number()
    after, limit = "", options.limit
    if options.next_page:
        if version:
            raise bad_request("specifying resource version is not allowed when using continue")
        token = _decode(options.next_page)
        after, version = _start(token, namespace), token.rv
        objects, version = _continued(store, kind, token) if options.version != "0" else _now(store, kind)
    # A version with a limit and without resourceVersionMatch means Exact: the API's rule from before that parameter.
    elif options.match == EXACT or (version and options.limit and not options.match):
        objects = _exact(store, kind, version)
    else:
        objects, version = _now(store, kind)
    if options.version == "0":
        # The watch cache answers lists at "0", and ignores the limit.
        limit = 0
    return _cut(objects, version, namespace, after, limit, options)


def _cut(objects: Range, version: int, namespace: str, after: str, limit: int, options: ListOptions) -> ListPage:
    behind = objects.under(namespace, after)
    if not limit:
        return ListPage(version, [each for each in behind if options.selection(each)], "", None)
    chosen = list(islice((each for each in behind if options.selection(each)), limit))
    # A page that ends where the collection ends needs no next one.
    more = len(chosen) == limit and any(options.selection(each) for each in objects.under(namespace, chosen[-1].key))
    if not more:
        return ListPage(version, chosen, "", None)
    remaining = None if options.selection else sum(1 for _ in objects.under(namespace, chosen[-1].key))
    return ListPage(version, chosen, _encode(version, chosen[-1].key, namespace), remaining)


def _now(store: ObjectStore, kind: Kind) -> tuple[Range, int]:
    collection = store.collection(kind.collection)
    return Range(collection.keys, collection.objects), store.version


def _exact(store: ObjectStore, kind: Kind, version: int) -> Range:
    try:
        return store.collection(kind.collection).at(version)
    except Forgotten:
        raise expired("The resourceVersion for the provided list is too old.") from None


def _continued(store: ObjectStore, kind: Kind, token: _Token) -> tuple[Range, int]:
    if token.rv == _LATEST:
        return _now(store, kind)
    try:
        return store.collection(kind.collection).at(token.rv), token.rv
    except Forgotten:
        raise expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a new list "
            "without the continue parameter, or use the continue token in this response to retrieve the remainder of "
            "the results. Continuing with the provided token results in an inconsistent list - objects that were "
            "created, modified, or deleted between the time the first chunk was returned and now may show up in the "
            "list.",
            next_page=_token(_LATEST, token.start.removeprefix("/")),
        ) from None


def _encode(version: int, last: str, namespace: str) -> str:
    relative = last.removeprefix(f"{namespace}/") if namespace else last
    return _token(version, f"/{relative}\0")


def _token(version: int, start: str) -> str:
    text = encode(_Token(_FORMAT, version, start))
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def _decode(text: str) -> _Token:
    try:
        token = msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=_Token)
    except (binascii.Error, UnicodeError, msgspec.DecodeError) as error:
        raise bad_request(f"invalid continue token: continue key is not valid: {error}") from error
    why = ""
    if token.v != _FORMAT:
        why = f"server does not recognize this encoded version {token.v}"
    elif token.rv == 0:
        why = f"incorrect encoded start resourceVersion (version {_FORMAT})"
    elif not token.start:
        why = f"encoded start key empty (version {_FORMAT})"
    elif posixpath.normpath(path := "/" + token.start.removeprefix("/")) != path:
        why = token.start
    if why:
        raise bad_request(f"invalid continue token: continue key is not valid: {why}")
    return token


def _start(token: _Token, namespace: str) -> str:
    """The key of the last object on the pages before."""
    relative = token.start.removeprefix("/").rstrip("\0")
    return f"{namespace}/{relative}" if namespace else relative
