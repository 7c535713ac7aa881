"""Reads a sink's ``select``, and says which objects it contains and which of their steps the sink takes.

The texts of the configuration (``SelectorText``) become a ``SinkSelection``, compiled with all mistakes at once. Its
entries are alternatives: one that contains an object decides about the object's steps. The entries are also written as
a text of their own, which the state keeps: so a selection that changed is known at the next start, by its digest, and
its difference is exported. An entry that names no watched resource is a mistake, or waits for a resource that the
cluster may serve later.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from difflib import get_close_matches
from typing import Any

import msgspec

from bridge.model.change import Op
from bridge.model.policies import OnError
from bridge.model.resource import Resource, ResourceName
from bridge.model.selector import LabelSelector, SelectorError
from bridge.views.evaluation import Evaluation
from bridge.views.language.cel import Cel, Expression
from bridge.views.language.expression import ExpressionProblem, Purpose

EVERY_OP = frozenset(Op)
EVERY_LABEL = LabelSelector()


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """An entry of ``select``. All its conditions must hold; a condition that is left out always does."""

    resource: str
    """A resource's full name (``pods``, ``deployments.apps``, also with a version), or a wildcard."""
    namespaces: frozenset[str] = frozenset()
    """Empty for all. Objects without a namespace are in all, as in ``resources`` and in admission policies."""
    labels: LabelSelector = EVERY_LABEL
    where: Expression | None = None
    operations: frozenset[Op] = EVERY_OP
    when: Expression | None = None
    on_error: OnError = OnError.SELECT

    def covers(self, resource: Resource) -> bool:
        """Whether it is about objects of this resource."""
        name = ResourceName.parsed(self.resource)
        if name.is_wildcard or name.rest:
            return name.may_mean(resource.group, resource.plural)
        return name.word == resource.name

    def matches(self, evaluation: Evaluation) -> bool:
        """Whether it contains the object. For objects of a resource that it covers."""
        if self.namespaces and (namespace := evaluation.namespace) and namespace not in self.namespaces:
            return False
        if self.labels:
            labels = evaluation.labels
            if not self._holds(None if labels is None else self.labels.matches(labels)):
                return False
        return self.where is None or self._holds(evaluation.of_object(self.where))

    def takes(self, evaluation: Evaluation, op: Op, evidence: str) -> bool:
        """Whether it takes this step of an object that it contains."""
        if op not in self.operations:
            return False
        return self.when is None or self._holds(evaluation.of_step(self.when, op, evidence))

    def _holds(self, value: bool | None) -> bool:
        return self.on_error is OnError.SELECT if value is None else value

    @property
    def takes_every_step(self) -> bool:
        return self.when is None and self.operations == EVERY_OP

    @property
    def membership(self) -> tuple[Any, ...]:
        """All that ``covers`` and ``matches`` depend on, as JSON-like values. Entries with the same membership contain
        the same objects."""
        labels = sorted((each.key, each.operator.value, sorted(each.values)) for each in self.labels.requirements)
        where = None if self.where is None else self.where.text
        fails = None if self.where is None and not labels else self.on_error.value
        return (self.resource, sorted(self.namespaces), labels, where, fails)


@dataclass(frozen=True, slots=True)
class SinkSelection:
    """The entries of a sink's ``select``, which are alternatives."""

    selectors: tuple[Selector, ...]
    takes_every_step: bool = field(init=False, compare=False)
    """There are entries, and none of them chooses steps, so that ``takes`` is always true."""

    def __post_init__(self) -> None:
        every = bool(self.selectors) and all(each.takes_every_step for each in self.selectors)
        object.__setattr__(self, "takes_every_step", every)

    def of(self, resource: Resource) -> SinkSelection:
        """The entries that cover a resource. Without entries, the sink gets none of its objects."""
        return SinkSelection(tuple(each for each in self.selectors if each.covers(resource)))

    @property
    def expressions(self) -> Iterator[Expression]:
        return (each for selector in self.selectors for each in (selector.where, selector.when) if each is not None)

    @property
    def with_labels(self) -> bool:
        return any(selector.labels for selector in self.selectors)

    def matches(self, evaluation: Evaluation) -> bool:
        """Whether the selection contains the object, of whose resource the selection must be (``of``)."""
        # Without a generator, which costs as much as the question.
        for selector in self.selectors:  # noqa: SIM110
            if selector.matches(evaluation):
                return True
        return False

    def takes(self, evaluation: Evaluation, op: Op, evidence: str) -> bool:
        """Whether the sink gets this step of an object that is, or was, in the selection: an entry decides that
        contains the object; any entry does for a delete of an object that none contains any more. Without entries for
        the resource, the sink gets the deletes of objects that it has from earlier entries."""
        if self.takes_every_step:
            return True
        if not self.selectors:
            return op is Op.DELETED
        containing = [each for each in self.selectors if each.matches(evaluation)]
        deciding = self.selectors if not containing and op is Op.DELETED else containing
        return any(each.takes(evaluation, op, evidence) for each in deciding)

    @property
    def sure(self) -> frozenset[Op]:
        """Of the entries for a resource: the steps that the sink gets of every object, whichever entry contains the
        object at that step."""
        taken = (frozenset() if each.when is not None else each.operations for each in self.selectors)
        return EVERY_OP.intersection(*taken)

    @property
    def digest(self) -> bytes:
        """16 bytes, which change only when other objects may be selected: not with the order of entries, nor with
        ``operations`` and ``when``."""
        entries = sorted(msgspec.json.encode(each.membership) for each in self.selectors)
        return hashlib.blake2b(b"\n".join(entries), digest_size=16).digest()


# ── Entries of the configuration ─────────────────────────────────────────────


class WrongSelection(ValueError):
    """The message has a line for each mistake: the path of the option, the column, the found and the allowed text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectorText:
    """An entry of ``select`` as it is written; see Selector. ``resource`` is a full name already."""

    resource: str
    namespaces: Collection[str] = ()
    label_selector: str = ""
    where: str | None = None
    operations: Collection[Op] = EVERY_OP
    when: str | None = None
    on_error: OnError = OnError.SELECT


def compile_selection(entries: Sequence[SelectorText], path: str, language: Callable[[], Cel]) -> SinkSelection:
    """``path``: of the list, such as ``sinks.chat.select``. ``language`` is called only for an expression, since its
    library may not be installed. A language returns the same Expression for the same text, so that selections of
    several sinks evaluate it once. Raises WrongSelection."""
    compiler = _Compiler(language)
    selectors = [compiler.selector(entry, f"{path}[{index}]") for index, entry in enumerate(entries)]
    if compiler.problems:
        raise WrongSelection("\n".join(compiler.problems))
    return SinkSelection(tuple(selectors))


class _Compiler:
    def __init__(self, language: Callable[[], Cel]) -> None:
        self._language = language
        self.problems: list[str] = []

    def selector(self, entry: SelectorText, path: str) -> Selector:
        return Selector(
            resource=entry.resource,
            namespaces=frozenset(entry.namespaces),
            labels=self._labels(entry.label_selector, path),
            where=self._expression(entry.where, Purpose.WHERE, f"{path}.where"),
            operations=frozenset(entry.operations),
            when=self._expression(entry.when, Purpose.WHEN, f"{path}.when"),
            on_error=entry.on_error,
        )

    def _labels(self, text: str, path: str) -> LabelSelector:
        try:
            return LabelSelector.parse(text)
        except SelectorError as error:
            self.problems.append(f"{path}.label_selector: {error}")
            return LabelSelector()

    def _expression(self, text: str | None, purpose: Purpose, path: str) -> Expression | None:
        if text is None:
            return None
        try:
            return self._language().compile(text, purpose)
        except ExpressionProblem as problem:
            self.problems.append(f"{path}: {problem}")
            return None


# ── Entries in the state ─────────────────────────────────────────────────────

_decode = msgspec.json.Decoder(tuple[SelectorText, ...]).decode


def encode_entries(entries: Sequence[SelectorText]) -> str:
    """The same text for equal entries."""
    found = [asdict(each) for each in entries]
    for each in found:
        each["namespaces"], each["operations"] = sorted(each["namespaces"]), sorted(each["operations"])
    return msgspec.json.encode(found).decode()


def decode_entries(text: str) -> tuple[SelectorText, ...]:
    """Raises msgspec.MsgspecError for another text."""
    return _decode(text)


# ── Entries without a watched resource ───────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Unwatched:
    """An entry without a watched resource."""

    resource: str
    """As the entry names it."""
    is_mistake: bool
    """False if a name in the list ``resources`` may mean the same resource, once it is served."""
    nearest: str | None
    """The closest watched name; None if no name is close."""

    def __str__(self) -> str:
        guess = f'; did you mean "{self.nearest}"?' if self.nearest else ""
        if not self.is_mistake:
            return f"{self.resource} is not served yet{guess}"
        return f"{self.resource} is not watched{guess or '; see the list resources'}"


def find_unwatched(selector: Selector, watched: Collection[Resource], unserved: Collection[str]) -> Unwatched | None:
    """``watched``: the resources that are watched now. ``unserved``: names in the configuration without a resource at
    this moment, and wildcards, which may cover later resources. None if the entry covers a watched resource."""
    if any(selector.covers(resource) for resource in watched):
        return None
    name = ResourceName.parsed(selector.resource)
    may_come = any(_may_mean_the_same(name, ResourceName.parsed(each)) for each in unserved)
    known = {resource.name for resource in watched}
    if not may_come:
        known.update(unserved)
    return Unwatched(selector.resource, not may_come, _nearest(selector.resource, known))


def _may_mean_the_same(one: ResourceName, other: ResourceName) -> bool:
    if "*" in (one.word, other.word):
        return not one.rest or not other.rest or one.group == other.group
    return one.word == other.word and (not one.rest or not other.rest or one.group == other.group)


def _nearest(name: str, known: Collection[str]) -> str | None:
    """Also by the part before the first dot, since the group may be left out."""
    spoken = {each.partition(".")[0]: each for each in sorted(known, reverse=True)} | {each: each for each in known}
    close = get_close_matches(name.lower(), spoken, n=1)
    return spoken[close[0]] if close else None
