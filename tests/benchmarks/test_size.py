"""What ``make size`` counts."""

from __future__ import annotations

from pathlib import Path

from benchmarks.size import code_lines

FILE = '''"""A module's docstring,
of two lines."""

import os  # A comment behind code.

# A comment alone.
NAMES = (
    "one",
    "two",
)
"""A constant's docstring."""


def first() -> str:
    """A function's docstring."""
    return """a text
    that is code"""
'''


def test_blanks_comments_and_docstrings_are_no_code(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text(FILE)

    assert code_lines(file) == len(["import", "NAMES", "one", "two", ")", "def", "return", "that is code"])
