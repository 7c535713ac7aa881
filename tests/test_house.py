"""The house: floors, a line for each module, names that exist once, and plain sentences."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HOUSES = ("bridge", "sinks", "config")
MOST_FUNCTION_LINES = 50

LONG_FUNCTIONS = frozenset({"bridge/informer/shared_informer.py: __init__", "bridge/app/running.py: __init__"})
"""They join the parts of an informer, and of a running bridge."""

MOST_PERCENT = {"what": 0.26, "one": 0.70, "nothing": 0.12, "told": 0.05, "it": 1.82}
"""Shares of all words in docstrings: twice those of kopf, procrastinate, h11 and structlog. Such a word stands where a
noun is missing."""


def folders() -> list[Path]:
    return sorted(path.parent for house in HOUSES for path in (ROOT / house).rglob("__init__.py"))


def modules(folder: Path) -> set[str]:
    return {path.stem for path in folder.glob("*.py") if not path.stem.startswith("__")}


def packages(folder: Path) -> set[str]:
    return {path.parent.name for path in folder.glob("*/__init__.py")}


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def sources() -> list[Path]:
    return sorted(path for house in HOUSES for path in (ROOT / house).rglob("*.py"))


@cache
def nodes() -> dict[Path, list[ast.AST]]:
    """Definitions, and expressions that are statements, of every module. One walk for all tests."""
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef, ast.Expr)
    return {path: [node for node in statements(tree(path)) if isinstance(node, kinds)] for path in sources()}


def statements(parent: ast.AST) -> Iterator[ast.AST]:
    """Those inside, at any depth. Expressions are most of a tree, and have none inside."""
    for block in ("body", "handlers", "orelse", "finalbody", "cases"):
        for statement in getattr(parent, block, ()):
            yield statement
            yield from statements(statement)


def docstrings(path: Path) -> Iterator[str]:
    """Strings that stand as expressions: of modules, classes and functions, and those behind a constant or a field."""
    for node in nodes()[path]:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value


@pytest.mark.parametrize("folder", folders(), ids=lambda folder: str(folder.relative_to(ROOT)))
def test_a_folder_lists_its_modules(folder: Path) -> None:
    described = re.findall(r"^(\w+)/?  +\S", ast.get_docstring(tree(folder / "__init__.py")) or "", re.MULTILINE)
    assert Counter(described) == Counter(modules(folder) | packages(folder))


def test_a_function_is_short() -> None:
    long = {
        f"{path.relative_to(ROOT)}: {node.name}"
        for path in sources()
        for node in nodes()[path]
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None
        if node.end_lineno - node.lineno >= MOST_FUNCTION_LINES
    }
    assert long == LONG_FUNCTIONS


def test_a_class_name_exists_once() -> None:
    places = defaultdict(set)
    for path in sources():
        for node in nodes()[path]:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].add(str(path.relative_to(ROOT)))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_sentences_have_nouns() -> None:
    words = Counter(
        word for path in sources() for text in docstrings(path) for word in re.findall(r"[a-z']+", text.lower())
    )
    assert words.total() > 10_000
    percent = {word: round(100 * words[word] / words.total(), 2) for word in MOST_PERCENT}
    assert {word: share for word, share in percent.items() if share > MOST_PERCENT[word]} == {}


LONGEST_TEST_NAME = 60
"""Characters, the prefix included: a report's line holds the name beside its file."""

RETIRED = re.compile(
    r"(?<![a-z])(errands?|told|aloft|courier|parcels?|stretch(es)?|upkeep|stirred|convicted|burials?|buried|forsaken?)(?![a-z])",
    re.IGNORECASE,
)
"""Words that once stood for terms of the glossary. They are found within names too."""


def test_names_of_tests_are_short() -> None:
    names = [
        (path, name)
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^\s*(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE)
    ]

    assert len(names) > 1000
    assert [f"{path.relative_to(ROOT)}: {name}" for path, name in names if len(name) > LONGEST_TEST_NAME] == []


def test_retired_words_stay_away() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for house in (*HOUSES, "tests", "benchmarks", "docs")
        for path in sorted((ROOT / house).rglob("*"))
        if path.suffix in (".py", ".md", ".yaml", ".go") and path != Path(__file__) and "results" not in path.parts
        if RETIRED.search(text := path.read_text())
        for line in text.splitlines()
        if RETIRED.search(line)
    ]

    assert found == []
