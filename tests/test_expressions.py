"""Untrusted text meets linear expressions only: each regular expression of the tree is pumped with growing hostile
text, made of its own parts, and so is each function that searches in a loop."""

from __future__ import annotations

import ast
import importlib
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from bridge.kube.wire.objects import Nesting, members
from bridge.transform.credentials import Harmless, redacted_arguments, redacted_text
from tests.kit.expressions import Pump, pumps
from tests.kit.growth import LONGEST, LONGEST_OPTION, is_linear

ROOT = Path(__file__).parents[1]
HOUSES = ("bridge", "sinks", "config", "kubedelta", "reader/kubedelta_reader")
SEARCHING = frozenset({"search", "finditer", "findall", "sub", "subn", "split"})
METHODS = SEARCHING | {"match", "fullmatch"}


class Expression(NamedTuple):
    place: str
    pattern: re.Pattern[Any]
    methods: frozenset[str]
    """By which the tree uses it."""
    is_of_option: bool = False
    """It meets an operator's own text of at most ``longest`` characters, and has to be one of ECMA 262, too."""


@cache
def trees() -> Mapping[Path, ast.Module]:
    return {
        path.relative_to(house.parent): ast.parse(path.read_text())
        for house in (ROOT / each for each in HOUSES)
        for path in sorted(house.rglob("*.py"))
    }


def module_of(path: Path) -> ModuleType:
    parts = path.with_suffix("").parts
    return importlib.import_module(".".join(parts[:-1] if parts[-1] == "__init__" else parts))


@cache
def uses() -> Mapping[tuple[Path | None, str], set[str]]:
    """Methods by the name of what they are called on. A name with an underscore is one of its module."""
    found: dict[tuple[Path | None, str], set[str]] = defaultdict(set)
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.attr in METHODS:
                name = node.value.id
                found[path if name.startswith("_") else None, name].add(node.attr)
    return found


def constants() -> Iterator[Expression]:
    """Expressions that modules keep, in whatever."""
    for path, tree in trees().items():
        if not any(isinstance(node, ast.Name) and node.id == "re" for node in ast.walk(tree)):
            continue
        for node in tree.body:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            for name in [each.id for each in targets if isinstance(each, ast.Name)]:
                value = getattr(module_of(path), name, None)
                for index, pattern in enumerate(patterns_in(value)):
                    by_name = uses().get((path if name.startswith("_") else None, name), set())
                    methods = by_name if isinstance(value, re.Pattern) else set()
                    yield Expression(f"{path}: {name} {index}", pattern, frozenset(methods or METHODS))


def patterns_in(value: Any) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, tuple | list | frozenset | set):
        for each in value:
            yield from patterns_in(each)
    elif isinstance(value, Mapping):
        yield from patterns_in(list(value.values()))


def written_in_calls() -> Iterator[tuple[str, str, str | bytes | re.Pattern[Any] | None]]:
    """Place, method and expression of each call with an expression in it: of ``re`` in a function, of ``Matching`` and
    of msgspec's ``Meta``. None for an expression that is made when the program runs."""
    for path, tree in trees().items():
        within = functions_around(tree)
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            method, written = "", None
            if isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) == "re" and node in within:
                method, written = node.func.attr, node.args[0]
            elif ast.unparse(node.func) == "Matching":
                method, written = "Matching", node.args[0]
            elif ast.unparse(node.func) in ("Meta", "msgspec.Meta"):
                method, written = "search", next((each.value for each in node.keywords if each.arg == "pattern"), None)
            if written is None or method in ("escape", ""):
                continue
            try:
                value = eval(compile(ast.Expression(written), str(path), "eval"), vars(module_of(path)))
            except NameError:
                value = None
            yield f"{path}: {within.get(node, '')} {ast.unparse(written)[:60]}", method, value


def functions_around(tree: ast.Module) -> dict[ast.AST, str]:
    """The name of the function around each node that is in one."""
    found: dict[ast.AST, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found |= dict.fromkeys(ast.walk(node), node.name)
    return found


def expressions() -> list[Expression]:
    found = {each.place: each for each in constants()}
    for place, method, value in written_in_calls():
        if value is not None:
            is_of_option = method == "Matching"
            methods = METHODS if method == "compile" else frozenset({"fullmatch" if is_of_option else method})
            found[place] = Expression(place, re.compile(value), methods, is_of_option)
    return list(found.values())


def ways(expression: Expression) -> Iterator[Callable[[str], object]]:
    pattern = expression.pattern
    as_bytes = isinstance(pattern.pattern, bytes)

    def calling(call: Callable[[Any], object]) -> Callable[[str], object]:
        return (lambda text: call(text.encode())) if as_bytes else call

    if expression.methods & SEARCHING:
        yield calling(lambda text: sum(1 for _ in pattern.finditer(text)))
    if "match" in expression.methods:
        yield calling(pattern.match)
    if "fullmatch" in expression.methods:
        yield calling(pattern.fullmatch)


def slow(call: Callable[[str], object], with_: list[Pump], longest: int = LONGEST) -> str | None:
    """The first of these pumps that takes more than linear time."""
    return next((str(pump) for pump in with_ if not is_linear(call, pump.text, longest)), None)


@pytest.mark.parametrize("expression", expressions(), ids=lambda each: each.place)
def test_an_expression_takes_linear_time(expression: Expression) -> None:
    found = pumps(expression.pattern)
    longest = LONGEST_OPTION if expression.is_of_option else LONGEST

    assert [text for way in ways(expression) if (text := slow(way, found, longest))] == []


@pytest.mark.parametrize(
    "bad", [r"(a+)+b", r"(a|a)*b", r"\s*x", r"-eyJ[\w-]+\.", r"'(.*?)' x", r"(?:,\s*a?\s*)*;", rb"a*b"], ids=str
)
def test_an_expression_that_is_not_linear_is_found(bad: str | bytes) -> None:
    expression = Expression("", re.compile(bad), METHODS)

    assert any(slow(way, pumps(expression.pattern)) for way in ways(expression))


MADE = {
    "bridge/cli/actors.py": "an escaped text",
    "kubedelta_reader/sources/parts.py": "digits, as many as they are, in front of an escaped text",
    "bridge/transform/redaction.py": "a name of the configuration, and repetitions that are possessive",
    "sinks/kafka/topics.py": "a template of the configuration with classes of letters; topics have 249 characters",
    "config/values.py": "those of Matching, which are pumped where they are written",
}
"""Modules with expressions that are made when the program runs, and why these are linear."""


def test_each_expression_that_is_made_at_run_time_is_known() -> None:
    made = {place.partition(":")[0] for place, _, value in written_in_calls() if value is None}
    assert made == MADE.keys()


# ── Functions that search in a loop ──────────────────────────────────────────


def _redacted(text: str) -> None:
    redacted_text(text, lambda *_: "<>")
    redacted_arguments(["x", text, text], lambda *_: "<>", Harmless())


LOOPS: Mapping[str, Callable[[str], object] | str] = {
    "bridge/transform/credentials.py: _named": _redacted,
    "bridge/transform/credentials.py: _in_urls": _redacted,
    "bridge/kube/wire/objects.py: members": lambda text: list(members(b"{" + text.encode())),
    "bridge/kube/wire/objects.py: end": lambda text: Nesting().end(text.encode()),
    "bridge/kube/wire/frames.py: _read": "each step goes on behind the line that it has found",
    "bridge/kube/wire/pages.py: _cut": "each step goes on behind the item that it has found, or what it has searched",
    "bridge/playground/objects/columns.py: _json_path": "each step goes on behind the step that it has found",
    "kubedelta_reader/sources/lines.py: end_of_last_line": "each block of our own file is searched once",
}
"""Each as a function of a text; or why it is linear, for one that has no expression."""

HOSTILE = (
    "token=$(",
    "token=$(a)",
    "token='$(",
    "://a:",
    "://a:1@",
    "password=",
    "--a ",
    "-----BEGIN PRIVATE KEY-----",
)


def loops() -> Iterator[str]:
    for path, tree in trees().items():
        within = functions_around(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.While) and re.search(r"\.(search|match|find|rfind|index)\(", ast.unparse(node)):
                yield f"{path}: {within[node]}"


def test_each_function_that_searches_in_a_loop_is_known() -> None:
    assert {*loops()} == LOOPS.keys()


@pytest.mark.parametrize("place", [place for place, call in LOOPS.items() if not isinstance(call, str)])
def test_a_function_that_searches_in_a_loop_takes_linear_time(place: str) -> None:
    call = LOOPS[place]
    assert not isinstance(call, str)
    here = [each for each in expressions() if each.place.startswith(place.partition(":")[0])]
    found = [*(Pump("", text) for text in HOSTILE), *(pump for each in here for pump in pumps(each.pattern))]

    assert slow(call, found) is None
