"""Label and field selectors in the syntax of the Kubernetes API, e.g. ``tier=web,env in (prod, staging),!canary`` and
``spec.nodeName=worker-1,status.phase!=Running``.

The grammar of label selectors is apimachinery's ``pkg/labels/selector.go``: requirements joined by commas, all of which
must hold. Values are matched as text, but for ``>`` and ``<``, which compare integers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, TypeGuard

import msgspec

from bridge.model.object import ApiObject, is_bare, is_redacted
from bridge.model.resource import Scope


class SelectorError(ValueError):
    """The text is no label selector. The message has the token that was found, and the expected tokens."""


class Operator(StrEnum):
    EQUALS = "="
    NOT_EQUALS = "!="
    IN = "in"
    NOT_IN = "notin"
    EXISTS = "exists"
    NOT_EXISTS = "!"
    GREATER = "gt"
    LESS = "lt"


class Requirement(msgspec.Struct, frozen=True):
    """A condition on a label."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def holds(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case Operator.EQUALS | Operator.IN:
                return value in self.values
            case Operator.NOT_EQUALS | Operator.NOT_IN:
                # As in kubectl, a missing label differs from every value.
                return value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.NOT_EXISTS:
                return value is None
            case Operator.GREATER:
                return _is_integer(value) and all(int(value) > int(bound) for bound in self.values)
            case Operator.LESS:
                return _is_integer(value) and all(int(value) < int(bound) for bound in self.values)


class LabelSelector(msgspec.Struct, frozen=True):
    """Requirements that must all hold. A selector without requirements matches every object."""

    requirements: tuple[Requirement, ...] = ()

    @classmethod
    def parse(cls, text: str) -> LabelSelector:
        """Raises SelectorError."""
        return cls(tuple(_Parser(text).requirements()))

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(requirement.holds(labels) for requirement in self.requirements)

    def __bool__(self) -> bool:
        """False for the selector without requirements."""
        return bool(self.requirements)


def in_scope(scope: Scope, thing: ApiObject) -> bool:
    """Whether the selectors of a scope may match this state of an object, as the bridge keeps it. A selector that only
    the API server can read may match, and so may any of a bare object, or of a label or field that redaction replaced:
    a delete of such an object must not be taken for one that is none."""
    if not (scope.label_selector or scope.field_selector) or is_bare(thing.body):
        return True
    try:
        labels = LabelSelector.parse(scope.label_selector)
    except SelectorError:
        return True
    return (not labels or _may_match(labels, thing.labels())) and _has_fields(scope.field_selector, thing)


def _may_match(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    return all(
        requirement.holds(labels)
        or (requirement.operator is not Operator.NOT_EXISTS and is_redacted(labels.get(requirement.key, "")))
        for requirement in selector.requirements
    )


def _has_fields(selector: str, thing: ApiObject) -> bool:
    """Whether a field selector matches. A field is the member of its name, and as empty as a missing member; a field
    that the API server makes of something else matches."""
    terms = [term for term in selector.split(",") if term.strip()]
    manifest: Any = thing.manifest() if terms else None
    return all(_has_field(term, manifest) for term in terms)


_ELSEWHERE = frozenset({"source", "status.successful"})
"""Fields of Events and Jobs that are no members of the object."""


def _has_field(term: str, value: Any) -> bool:
    field, _, expected = term.partition("=")
    path = field.removesuffix("!").strip()
    if path in _ELSEWHERE:
        return True
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    if isinstance(value, dict | list):
        return True
    found = "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    return is_redacted(found) or (found == expected.removeprefix("=").strip()) is not field.endswith("!")


_TOKEN = re.compile(r"==|!=|[=!,()<>]|[^\s=!,()<>]++")
_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_PREFIX = re.compile(r"(?=.{1,253}$)[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")

_EQUALITY = {"=": Operator.EQUALS, "==": Operator.EQUALS, "!=": Operator.NOT_EQUALS}
_SET = {"in": Operator.IN, "notin": Operator.NOT_IN}
_ORDER = {">": Operator.GREATER, "<": Operator.LESS}
_OPERATORS = "in, notin, =, ==, !=, >, <"


class _Parser:
    """Reads tokens from left to right; the end of the text is the empty token."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _TOKEN.findall(text)
        self._at = 0

    def requirements(self) -> list[Requirement]:
        found: list[Requirement] = []
        if not self._peek():
            return found
        while True:
            found.append(self._requirement())
            mark = self._next()
            if not mark:
                return found
            if mark != ",":
                raise self._error(mark, "',' or the end")

    def _requirement(self) -> Requirement:
        negated = self._peek() == "!"
        if negated:
            self._next()
        key = self._key()
        if negated:
            return Requirement(key, Operator.NOT_EXISTS)
        if self._peek() in ("", ","):
            return Requirement(key, Operator.EXISTS)
        mark = self._next()
        if operator := _EQUALITY.get(mark):
            return Requirement(key, operator, frozenset({self._value()}))
        if operator := _SET.get(mark):
            return Requirement(key, operator, self._set_of_values())
        if operator := _ORDER.get(mark):
            return Requirement(key, operator, frozenset({self._integer()}))
        raise self._error(mark, _OPERATORS)

    def _key(self) -> str:
        key = self._next()
        prefix, slash, name = key.rpartition("/")
        if not _NAME.fullmatch(name) or (slash and not _PREFIX.fullmatch(prefix)):
            raise self._error(key, "a label key")
        return key

    def _value(self) -> str:
        """A value may be empty: ``a=`` asks for the label with an empty value."""
        if self._peek() in ("", ",", ")"):
            return ""
        value = self._next()
        if not _NAME.fullmatch(value):
            raise self._error(value, "a label value")
        return value

    def _integer(self) -> str:
        value = self._next()
        if not _is_integer(value):
            raise self._error(value, "an integer")
        return value

    def _set_of_values(self) -> frozenset[str]:
        if (mark := self._next()) != "(":
            raise self._error(mark, "'('")
        if self._peek() == ")":
            raise self._error(")", "a label value")
        values = {self._value()}
        while (mark := self._next()) == ",":
            values.add(self._value())
        if mark != ")":
            raise self._error(mark, "',' or ')'")
        return frozenset(values)

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        mark = self._peek()
        self._at += 1
        return mark

    def _error(self, found: str, expected: str) -> SelectorError:
        shown = f"'{found}'" if found else "the end"
        return SelectorError(f"label selector '{self._text}': found {shown}, expected {expected}")


def _is_integer(value: str | None) -> TypeGuard[str]:
    return value is not None and re.fullmatch(r"[+-]?[0-9]{1,63}", value) is not None
