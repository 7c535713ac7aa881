"""Compiles and evaluates in one line."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bridge.model.resource import Resource
from bridge.views.decisions import Views
from bridge.views.evaluation import Evaluation
from bridge.views.language import Cel, EvaluationFailed, Expression, ExpressionProblem, Purpose
from bridge.views.selection import SelectorText, compile_selection

PODS = Resource("", "v1", "pods", "Pod", namespaced=True)
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", namespaced=True)
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
CEL = Cel()


def as_bytes(manifest: Any) -> bytes:
    return json.dumps(manifest, separators=(",", ":")).encode()


def where(text: str) -> Expression:
    return CEL.compile(text, Purpose.WHERE)


def when(text: str) -> Expression:
    return CEL.compile(text, Purpose.WHEN)


def mistake(text: str, purpose: Purpose = Purpose.WHERE) -> str:
    """Why it does not compile."""
    with pytest.raises(ExpressionProblem) as raised:
        CEL.compile(text, purpose)
    return str(raised.value)


def failure(text: str, values: dict[str, Any], purpose: Purpose = Purpose.WHERE) -> str:
    """Why its evaluation fails."""
    expression = CEL.compile(text, purpose)
    evaluate = expression.value if purpose is Purpose.DATA else expression.evaluate
    with pytest.raises(EvaluationFailed) as raised:
        evaluate(expression.bind(values))
    return expression.why_failed(raised.value)


def views(resource: Resource = PODS, **selections: SelectorText | list[SelectorText]) -> Views:
    """Views of sinks, each with one entry or several."""
    compiled = {
        sink: compile_selection(
            entries if isinstance(entries, list) else [entries], f"sinks.{sink}.select", lambda: CEL
        )
        for sink, entries in selections.items()
    }
    return Views(compiled, "prod")


def entry(**options: Any) -> SelectorText:
    return SelectorText(**{"resource": "pods", **options})


def chosen(entries: SelectorText | list[SelectorText], manifest: Any, key: str = "shop/web") -> bool:
    """Whether a selection contains a pod."""
    resource_views = views(it=entries).of(PODS)
    return resource_views.selections["it"].matches(resource_views.evaluator.evaluation(key, as_bytes(manifest)))


def evaluation(of: Views, manifest: Any, before: Any = None, key: str = "shop/web") -> Evaluation:
    return of.of(PODS).evaluator.evaluation(key, as_bytes(manifest), None if before is None else as_bytes(before))
