"""The query of a list or a watch, validated as apimachinery's ``ValidateListOptions`` does."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from bridge.model.selector import LabelSelector, SelectorError
from bridge.playground.http.errors import StatusError, bad_request, invalid
from bridge.playground.objects.store import StoredObject

EXACT, NOT_OLDER_THAN = "Exact", "NotOlderThan"
_FIELDS = ("metadata.name", "metadata.namespace")


@dataclass(frozen=True, slots=True)
class Selection:
    """Selects objects by labels, ``metadata.name`` and ``metadata.namespace``."""

    labels: LabelSelector
    fields: tuple[tuple[str, bool, str], ...]
    """(field, whether it must be equal, value)."""

    def __call__(self, stored: StoredObject) -> bool:
        return self.labels.matches(stored.labels) and all(
            ((stored.name if field == "metadata.name" else stored.namespace) == value) is equal
            for field, equal, value in self.fields
        )

    def __bool__(self) -> bool:
        """False if it selects all objects."""
        return bool(self.labels or self.fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions:
    """The options of a client's list or watch."""

    watch: bool
    selection: Selection
    limit: int
    """0 for all."""
    next_page: str
    version: str
    """As sent: "" and "0" have special meanings."""
    match: str
    timeout: int
    """Seconds; 0 leaves the choice to the server."""
    bookmarks: bool
    initial_events: bool | None
    """sendInitialEvents; None if the query has no such parameter."""

    @classmethod
    def parse(cls, query: Mapping[str, str], *, watch: bool | None = None) -> ListOptions:
        """Raises StatusError: 400 for malformed parameters, 422 for parameters that exclude each other."""
        options = cls(
            watch=_flag(query, "watch") or False if watch is None else watch,
            selection=Selection(_labels(query.get("labelSelector", "")), _field_terms(query.get("fieldSelector", ""))),
            limit=max(0, _integer(query, "limit")),
            next_page=query.get("continue", ""),
            version=query.get("resourceVersion", ""),
            match=query.get("resourceVersionMatch", ""),
            timeout=max(0, _integer(query, "timeoutSeconds")),
            bookmarks=_flag(query, "allowWatchBookmarks") or False,
            initial_events=_flag(query, "sendInitialEvents"),
        )
        causes = _watch_mistakes(options) if options.watch else _list_mistakes(options)
        if causes:
            raise invalid("meta.k8s.io", "ListOptions", "", causes)
        return options

    def version_number(self) -> int:
        """The resourceVersion as a number; 0 if none was sent. Raises StatusError for a malformed version: 400 to a
        list, 500 to a watch, as the real server does."""
        if not self.version:
            return 0
        if re.fullmatch("[0-9]+", self.version):
            return int(self.version)
        unread = f'strconv.ParseUint: parsing "{self.version}": invalid syntax'
        why = f'resourceVersion: Invalid value: "{self.version}": {unread}'
        raise StatusError(500, "", why) if self.watch else bad_request(f"invalid resource version: {why}")


def _list_mistakes(options: ListOptions) -> list[tuple[str, str, str]]:
    causes = []
    if options.match:
        if not options.version:
            causes.append(_forbidden_match("is forbidden unless resourceVersion is provided"))
        if options.next_page:
            causes.append(_forbidden_match("is forbidden when continue is provided"))
        if options.match not in (EXACT, NOT_OLDER_THAN):
            causes.append(_unknown_match(options.match, f'"{EXACT}", "{NOT_OLDER_THAN}", ""'))
        if options.match == EXACT and options.version == "0":
            # The real server writes this value with a small letter here, and with a capital everywhere else.
            causes.append(_forbidden_match('"exact" is forbidden for resourceVersion "0"'))
    if options.initial_events is not None:
        causes.append(_forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    return causes


def _watch_mistakes(options: ListOptions) -> list[tuple[str, str, str]]:
    causes = []
    if options.initial_events is not None and options.match != NOT_OLDER_THAN:
        why = f"sendInitialEvents requires setting resourceVersionMatch to {NOT_OLDER_THAN}"
        causes.append(_forbidden("resourceVersionMatch", why))
    if options.match:
        if options.initial_events is None:
            causes.append(_forbidden_match("is forbidden for watch unless sendInitialEvents is provided"))
        if options.match != NOT_OLDER_THAN:
            causes.append(_unknown_match(options.match, f'"{NOT_OLDER_THAN}"'))
        if options.next_page:
            causes.append(_forbidden_match("is forbidden when continue is provided"))
    return causes


def _forbidden(field: str, why: str) -> tuple[str, str, str]:
    return ("FieldValueForbidden", f"Forbidden: {why}", field)


def _forbidden_match(why: str) -> tuple[str, str, str]:
    return _forbidden("resourceVersionMatch", f"resourceVersionMatch {why}")


def _unknown_match(found: str, known: str) -> tuple[str, str, str]:
    return (
        "FieldValueNotSupported",
        f'Unsupported value: "{found}": supported values: {known}',
        "resourceVersionMatch",
    )


def _flag(query: Mapping[str, str], name: str) -> bool | None:
    """All values but ``0`` and ``false`` mean True, the empty value too."""
    value = query.get(name)
    return None if value is None else value.lower() not in ("0", "false")


def _integer(query: Mapping[str, str], name: str) -> int:
    value = query.get(name, "") or "0"
    if re.fullmatch("[+-]?[0-9]+", value):
        return int(value)
    raise bad_request(f'strconv.ParseInt: parsing "{value}": invalid syntax')


def _labels(text: str) -> LabelSelector:
    try:
        return LabelSelector.parse(text)
    except SelectorError as error:
        raise bad_request(f"unable to parse requirement: {error}") from error


def _field_terms(text: str) -> tuple[tuple[str, bool, str], ...]:
    terms = []
    for term in filter(None, text.split(",")):
        found = re.fullmatch(r"([^=!]*)(==|!=|=)(.*)", term)
        if found is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        if found[1] not in _FIELDS:
            known = ", ".join(f'"{field}"' for field in _FIELDS)
            raise bad_request(f'"{found[1]}" is not a known field selector: only {known}')
        terms.append((found[1], found[2] != "!=", found[3]))
    return tuple(terms)
