"""Rules between options of one section: each is declared once, judges a section that is loaded, and writes itself into
the JSON Schema."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol


class Condition(Protocol):
    def holds(self, section: Any) -> bool:
        """Of a section with its defaults."""
        ...

    def as_json_schema(self) -> dict[str, Any]:
        """The same of a mapping as it is written."""
        ...


@dataclass(frozen=True, slots=True)
class Given:
    """An option without a default is set."""

    name: str

    def holds(self, section: Any) -> bool:
        return getattr(section, self.name) is not None

    def as_json_schema(self) -> dict[str, Any]:
        return {"properties": {self.name: {"not": {"type": "null"}}}, "required": [self.name]}


class Is:
    """An option has one of these values. ``default``: so it has where it is not written."""

    def __init__(self, name: str, *values: str | bool, default: bool = False) -> None:
        self._name, self._values, self._default = name, values, default

    def holds(self, section: Any) -> bool:
        return getattr(section, self._name) in self._values

    def as_json_schema(self) -> dict[str, Any]:
        return {"properties": {self._name: {"enum": list(self._values)}}} | (
            {} if self._default else {"required": [self._name]}
        )


@dataclass(frozen=True, slots=True)
class Above:
    """A number is larger than its default allows it to be by itself."""

    name: str
    bound: int

    def holds(self, section: Any) -> bool:
        return bool(getattr(section, self.name) > self.bound)

    def as_json_schema(self) -> dict[str, Any]:
        return {"properties": {self.name: {"exclusiveMinimum": self.bound}}, "required": [self.name]}


class AnyOf:
    def __init__(self, *conditions: Condition) -> None:
        self._conditions = conditions

    def holds(self, section: Any) -> bool:
        return any(each.holds(section) for each in self._conditions)

    def as_json_schema(self) -> dict[str, Any]:
        return {"anyOf": [each.as_json_schema() for each in self._conditions]}


@dataclass(frozen=True, slots=True)
class Contains:
    """A text has this in it. ``default``: so it has where it is not written."""

    name: str
    part: str
    default: bool = False

    def holds(self, section: Any) -> bool:
        return self.part in getattr(section, self.name)

    def as_json_schema(self) -> dict[str, Any]:
        return {"properties": {self.name: {"pattern": re.escape(self.part)}}} | (
            {} if self.default else {"required": [self.name]}
        )


@dataclass(frozen=True, slots=True)
class Not:
    condition: Condition

    def holds(self, section: Any) -> bool:
        return not self.condition.holds(section)

    def as_json_schema(self) -> dict[str, Any]:
        return {"not": self.condition.as_json_schema()}


@dataclass(frozen=True, slots=True)
class Rule:
    """Where ``when`` holds, ``then`` must hold too."""

    when: Condition
    then: Condition
    message: str
    """What an operator is told, with the names of the options."""

    def as_json_schema(self) -> dict[str, Any]:
        return {"if": self.when.as_json_schema(), "then": self.then.as_json_schema()}


def needs(name: str, other: str) -> Rule:
    return Rule(Given(name), Given(other), f"{name} is of no use without {other}")


def together(name: str, other: str) -> tuple[Rule, Rule]:
    message = f"{name} and {other} belong together"
    return Rule(Given(name), Given(other), message), Rule(Given(other), Given(name), message)


def check(section: Any, rules: Sequence[Rule]) -> None:
    """Raises ValueError for the first rule that is broken."""
    for rule in rules:
        if rule.when.holds(section) and not rule.then.holds(section):
            raise ValueError(rule.message)
