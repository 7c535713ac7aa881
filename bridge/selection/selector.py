"""A sink's selection: which objects, and which of their steps. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from bridge.model.change import Op
from bridge.model.policies import OnError
from bridge.model.resource import Resource
from bridge.model.resource_name import ResourceName
from bridge.model.selector import LabelSelector
from bridge.selection.evaluation import Evaluation
from bridge.selection.language.expression import Expression

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
