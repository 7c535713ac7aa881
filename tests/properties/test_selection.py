"""An expression has the same value on the part of an object that it reads as on the whole object, and in another
implementation of CEL."""

from __future__ import annotations

from typing import Any

import cel
import msgspec
from hypothesis import assume, event, given, target
from hypothesis import strategies as st

from bridge.views.evaluation import Evaluator, Failures, KnownValues
from bridge.views.language import Cel, EvaluationFailed, Expression, ExpressionProblem, Purpose
from bridge.views.language.paths import projection
from tests.bridge.views.compiled import PODS

CEL = Cel()
NAMES = ("a", "b", "c", "on-off")
CONSTANTS = ("1", "0", "-2", "1.5", "'a'", "'b'", "''", "true", "false", "null")

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 3),
    st.sampled_from([0.5, 1.0, 1.5, 1e300]),
    st.sampled_from(["", "a", "b"]),
)
values = st.recursive(
    scalars,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.sampled_from(NAMES), below, max_size=4),
    max_leaves=12,
)
items = st.fixed_dictionaries({"a": scalars, "b": st.sampled_from(["a", "b"])}, optional={"c": values})
shaped = st.fixed_dictionaries(
    {"a": st.fixed_dictionaries({"a": scalars, "b": items}), "b": st.lists(items | scalars, max_size=3), "c": scalars},
    optional={"on-off": st.booleans()},
)
objects = shaped | st.dictionaries(st.sampled_from(NAMES), values, max_size=4)

unfit = st.dictionaries(
    st.sampled_from(NAMES),
    scalars | st.sampled_from([2**64, "a\0b", {"a": 2**64}, [{"b": "\0"}], ["\0", 2**64]]),
    min_size=1,
)
"""With values that the library does not take."""


@st.composite
def paths(draw: st.DrawFn, scope: tuple[str, ...] = ("object",), *, dynamic: bool = True) -> str:
    text = draw(st.sampled_from(scope))
    for _ in range(draw(st.integers(0 if len(scope) > 1 else 1, 3))):
        kinds = ("member", "member", "key", "item", "dynamic") if dynamic else ("member", "member", "key", "item")
        match draw(st.sampled_from(kinds)):
            case "member":
                text += f".{draw(st.sampled_from(NAMES[:3]))}"
            case "key":
                text += f"[{draw(st.sampled_from(NAMES))!r}]"
            case "item":
                text += f"[{draw(st.integers(0, 2))}]"
            case "dynamic":
                text += f"[{draw(paths(scope, dynamic=False))}]"
    return text


@st.composite
def conditions(draw: st.DrawFn, scope: tuple[str, ...] = ("object",), depth: int = 3) -> str:
    path, constant = paths(scope), st.sampled_from(CONSTANTS)

    def below(more: str = "") -> str:
        return draw(conditions((*scope, more) if more else scope, depth - 1))

    kinds = ["equals", "has", "in", "in_path", "size", "path", "contains", "order"]
    kinds += ["and", "or", "not", "if", "exists", "all", "one", "filter", "map"] if depth else []
    variable = "xyz"[len(scope) - 1] if len(scope) < 4 else "z"
    match draw(st.sampled_from(kinds)):
        case "equals":
            return f"{draw(path)} {draw(st.sampled_from(['==', '!=']))} {draw(constant | path)}"
        case "has":
            return f"has({draw(path)}.{draw(st.sampled_from(NAMES[:3]))})"
        case "in":
            return f"{draw(st.sampled_from(NAMES))!r} in {draw(path)}"
        case "in_path":
            return f"{draw(constant | path)} in {draw(path)}"
        case "size":
            return f"size({draw(path)}) > {draw(st.integers(0, 2))}"
        case "path":
            return draw(path)
        case "contains":
            return f"{draw(path)}.startsWith('a')"
        case "order":
            return f"{draw(path)} < {draw(constant)}"
        case "and":
            return f"({below()} && {below()})"
        case "or":
            return f"({below()} || {below()})"
        case "not":
            return f"!({below()})"
        case "if":
            return f"({below()} ? {below()} : {below()})"
        case "exists":
            return f"{draw(path)}.exists({variable}, {below(variable)})"
        case "all":
            return f"{draw(path)}.all({variable}, {below(variable)})"
        case "one":
            return f"{draw(path)}.exists_one({variable}, {below(variable)})"
        case "filter":
            return f"{draw(path)}.filter({variable}, {below(variable)}).size() > 0"
        case _:
            return f"{draw(path)}.map({variable}, {draw(paths((*scope, variable)))}) == {draw(path)}"


@st.composite
def further(draw: st.DrawFn) -> str:
    """Conditions that the other implementation does not know."""
    first, second = draw(st.sampled_from(NAMES[:3])), draw(st.sampled_from(NAMES[:3]))
    inner = draw(conditions(("object", "m"), 1))
    return draw(
        st.sampled_from(
            [
                f"object.?{first}.?{second}.orValue(1) == 1",
                f"object[?{first!r}].hasValue()",
                f"cel.bind(m, {draw(paths())}, {inner})",
                f"object.?{first}.optMap(m, {inner}).orValue(false)",
                f"(object.{first} == 1 ? object : object.{second}).{first} == 1",
                f"[1].exists(object, .object.{first} == 1)",
                f"dyn(object.{first}).{second} == 1",
                f"type(object.{first}) == list",
                f"[object.{first}, object][1].{second} == 1",
                f"{{'k': object.{first}}}.k.{second} == 1",
            ]
        )
    )


def compiled(text: str) -> Expression:
    try:
        return CEL.compile(text, Purpose.WHERE)
    except ExpressionProblem:
        assume(False)  # such as an operation that no types of constants allow
        raise


def value_of(expression: Expression, manifest: Any) -> bool | None:
    """None if it fails."""
    try:
        return expression.evaluate(expression.bind({"object": manifest}))
    except EvaluationFailed:
        return None


@given(st.lists(conditions() | further(), min_size=2, max_size=4), st.lists(objects | unfit, min_size=1, max_size=3))
def test_neither_what_others_read_nor_what_came_before_decides(
    texts: list[str], manifests: list[dict[str, Any]]
) -> None:
    expressions = [compiled(text) for text in texts]
    together = Evaluator(PODS, "prod", expressions, Failures(), known=KnownValues())
    alone = [Evaluator(PODS, "prod", [each], Failures()) for each in expressions]

    for manifest in manifests:
        body = msgspec.json.encode(manifest)
        evaluation = together.evaluation("shop/web", body)
        assert [evaluation.of_object(each) for each in expressions] == [
            by.evaluation("shop/web", body).of_object(each) for by, each in zip(alone, expressions, strict=True)
        ]


def size(value: Any) -> int:
    return len(msgspec.json.encode(value))


@given(conditions() | further(), objects)
def test_the_part_that_is_read_decides(text: str, manifest: dict[str, Any]) -> None:
    expression = compiled(text)
    body = msgspec.json.encode(manifest)
    whole = msgspec.json.decode(body)
    part = projection(expression.reads["object"])(body) if "object" in expression.reads else {}

    target(size(whole) - size(part))
    assert value_of(expression, part) is value_of(expression, whole)


@given(conditions(), objects)
def test_another_implementation_agrees(text: str, manifest: dict[str, Any]) -> None:
    """It fails more often: of a list, a failing item decides there, although another item would."""
    ours = value_of(compiled(text), manifest)
    try:
        theirs = cel.evaluate(text, {"object": manifest})
    except (LookupError, RuntimeError, TypeError, ValueError):
        theirs = None
    if not isinstance(theirs, bool):
        theirs = None

    event(f"{ours}, {theirs}")
    assert theirs is ours or theirs is None
