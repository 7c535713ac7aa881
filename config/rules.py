"""Rules between options of one section. A rule is declared once: the loader checks a section with it, and the JSON
Schema has it as ``if`` and ``then``."""

from __future__ import annotations

import re
from typing import Any, ClassVar, Protocol, Self

import msgspec
from pydantic import GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from config.values import Section


class Condition(Protocol):
    def holds(self, section: Any) -> bool:
        """Whether a loaded section (with its defaults) satisfies the condition."""
        ...

    def as_json_schema(self) -> dict[str, Any]:
        """The condition for a written section, where defaults are absent."""
        ...


class Given(msgspec.Struct, frozen=True):
    """The option ``name``, whose default is null, is set."""

    name: str

    def holds(self, section: Any) -> bool:
        return getattr(section, self.name) is not None

    def as_json_schema(self) -> dict[str, Any]:
        return {"properties": {self.name: {"not": {"type": "null"}}}, "required": [self.name]}


class Is:
    """An option has one of ``values``. ``default``: its default is among them."""

    def __init__(self, name: str, *values: str | bool, default: bool = False) -> None:
        self._name, self._values, self._default = name, values, default

    def holds(self, section: Any) -> bool:
        return getattr(section, self._name) in self._values

    def as_json_schema(self) -> dict[str, Any]:
        # In a JSON Schema ``properties`` also accepts a missing option. That is right only where the default satisfies
        # the condition.
        return {"properties": {self._name: {"enum": list(self._values)}}} | (
            {} if self._default else {"required": [self._name]}
        )


class OfEverySink(Is):
    """An option that a sink of any type has (``DeliverySettings``) has one of ``values``, of which none is the default.
    Does not hold for the options of the type alone, as tests and other programs make them."""

    def holds(self, section: Any) -> bool:
        return getattr(section, self._name, None) in self._values


class Above(msgspec.Struct, frozen=True):
    """A number is larger than ``bound``. Its default is not."""

    name: str
    bound: int

    def holds(self, section: Any) -> bool:
        return bool(getattr(section, self.name) > self.bound)

    def as_json_schema(self) -> dict[str, Any]:
        return {"properties": {self.name: {"exclusiveMinimum": self.bound}}, "required": [self.name]}


class AnyOf:
    """At least one condition holds."""

    def __init__(self, *conditions: Condition) -> None:
        self._conditions = conditions

    def holds(self, section: Any) -> bool:
        return any(each.holds(section) for each in self._conditions)

    def as_json_schema(self) -> dict[str, Any]:
        return {"anyOf": [each.as_json_schema() for each in self._conditions]}


class Contains(msgspec.Struct, frozen=True):
    """A text contains ``part``. ``default``: the default text does."""

    name: str
    part: str
    default: bool = False

    def holds(self, section: Any) -> bool:
        return self.part in getattr(section, self.name)

    def as_json_schema(self) -> dict[str, Any]:
        return {"properties": {self.name: {"pattern": re.escape(self.part)}}} | (
            {} if self.default else {"required": [self.name]}
        )


class HasName(msgspec.Struct, frozen=True):
    """A mapping, whose default is empty, has a name that begins with ``prefix``."""

    name: str
    prefix: str = ""

    def holds(self, section: Any) -> bool:
        return any(name.startswith(self.prefix) for name in getattr(section, self.name))

    def as_json_schema(self) -> dict[str, Any]:
        # A schema cannot ask for some name directly: so not every name differs.
        other = {"not": {"pattern": f"^{re.escape(self.prefix)}"}}
        return {"properties": {self.name: {"not": {"propertyNames": other}}}, "required": [self.name]}


class Not(msgspec.Struct, frozen=True):
    """The condition does not hold."""

    condition: Condition

    def holds(self, section: Any) -> bool:
        return not self.condition.holds(section)

    def as_json_schema(self) -> dict[str, Any]:
        return {"not": self.condition.as_json_schema()}


class Rule(msgspec.Struct, frozen=True):
    """If ``when`` holds, ``then`` must hold."""

    when: Condition
    then: Condition
    message: str
    """The error for the operator, with the names of the options."""

    def as_json_schema(self) -> dict[str, Any]:
        return {"if": self.when.as_json_schema(), "then": self.then.as_json_schema()}


class NeededByDefaults(msgspec.Struct, frozen=True):
    """On an optional option that a rule demands beside the defaults of others: the reference shows it as required."""


def needs(name: str, other: str) -> Rule:
    """``name`` may be set only beside ``other``."""
    return Rule(Given(name), Given(other), f"{name} has no effect without {other}")


def together(name: str, other: str) -> tuple[Rule, Rule]:
    """Both options are set, or neither."""
    message = f"{name} and {other} belong together"
    return Rule(Given(name), Given(other), message), Rule(Given(other), Given(name), message)


class Ruled(Section):
    """A section with rules between its options."""

    rules: ClassVar[tuple[Rule, ...]] = ()
    """A subclass adds its own to the rules of its base."""

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        for rule in self.rules:
            if rule.when.holds(self) and not rule.then.holds(self):
                raise ValueError(rule.message)
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        found = handler(schema)
        if cls.rules:
            handler.resolve_ref_schema(found)["allOf"] = [rule.as_json_schema() for rule in cls.rules]
        return found
