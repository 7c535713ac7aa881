"""Names of tests stay short enough to be read in a list."""

import ast
from pathlib import Path

TESTS = Path(__file__).parent
LONGEST_NAME = 60
"""Characters, the prefix included: a report's line holds the name beside its file."""


def test_names_of_tests_have_at_most_60_characters() -> None:
    names = [
        f"{path.relative_to(TESTS)}: {node.name}"
        for path in TESTS.rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
        if len(node.name) > LONGEST_NAME
    ]

    assert names == []
