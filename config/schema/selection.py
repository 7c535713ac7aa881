"""The list ``select`` of a sink: which objects, and which of their steps, it gets.

Only the syntax is checked here. bridge.selection compiles the expressions; names have their meaning on a cluster.
"""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field

from bridge.model.change import Op
from bridge.model.policies import OnError
from config.schema.resources import LabelSelector, Namespaces, ResourceName
from config.values import Expression, Section


def _each_once(operations: tuple[Op, ...]) -> tuple[Op, ...]:
    twice = sorted(op for op, count in Counter(operations).items() if count > 1)
    if twice:
        raise ValueError(f"each operation may be named once; named twice: {', '.join(twice)}")
    return operations


class SelectSettings(Section):
    """Objects of a watched resource, and steps of these objects. All conditions of an entry must hold; a condition that
    is left out always does."""

    resource: ResourceName = Field(
        description="A watched resource as kubectl names it, or a wildcard for several: deployments.apps, "
        "*.cert-manager.io, *.",
        examples=["deployments.apps"],
    )
    namespaces: Namespaces = Field(
        default=(),
        json_schema_extra={"uniqueItems": True},
        description="Only these namespaces; empty for all. Objects without a namespace ignore it.",
        examples=[["shop", "payments"]],
    )
    label_selector: LabelSelector = Field(
        default="",
        description="Only objects with these labels, in the syntax of kubectl -l.",
        examples=["tier=web"],
    )
    where: Expression | None = Field(
        default=None,
        description="Only objects for which this CEL expression is true, as in Kubernetes' admission policies. Names: "
        "object, resource (deployments.apps), cluster. An object that stops matching is delivered to this sink as "
        "deleted, an object that begins to match as added.",
        examples=["has(object.metadata.labels) && 'team' in object.metadata.labels"],
    )
    operations: Annotated[tuple[Op, ...], AfterValidator(_each_once), Field(min_length=1)] = Field(
        default=tuple(Op),
        json_schema_extra={"uniqueItems": True},
        description="Only these steps of the objects. Consumers that keep state need all.",
        examples=[["added", "deleted"]],
    )
    when: Expression | None = Field(
        default=None,
        description="Only steps for which this CEL expression is true. Names beside those of where: oldObject (the"
        " object before the step; null for an added object), op (added, updated, deleted, sync),"
        " evidence (watched, listed, relisted, recovered, unwatched, unselected). Not for consumers that"
        " keep state.",
        examples=["op != 'updated' || object.spec.replicas != oldObject.spec.replicas"],
    )
    on_error: OnError = Field(
        default=OnError.SELECT,
        description="For an expression that fails on an object, such as by a missing member or too much work, and"
        " for a label selector where only the object's identity is known. select: as if it were true, so"
        " that no object is lost by a mistake. skip: as if it were false.",
    )


def _named_alone(value: Any) -> Any:
    return {"resource": value} if isinstance(value, str) else value


SelectEntry: TypeAlias = Annotated[
    SelectSettings, BeforeValidator(_named_alone, json_schema_input_type=ResourceName | SelectSettings)
]
"""A name alone, or a mapping with conditions."""

Select: TypeAlias = Annotated[tuple[SelectEntry, ...], Field(min_length=1, max_length=100)]
"""The entries are alternatives: a sink gets an object that any of them contains."""
