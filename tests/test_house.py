"""The house: a folder's page names its modules, and a class name exists once. Who imports whom, and which files are
pure, is import-linter's (`make check`)."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HOUSES = ("bridge", "sinks", "config", "kubedelta")


def folders() -> list[Path]:
    return sorted(path.parent for house in HOUSES for path in (ROOT / house).rglob("__init__.py"))


@pytest.mark.parametrize("folder", folders(), ids=lambda folder: str(folder.relative_to(ROOT)))
def test_a_folder_lists_its_modules(folder: Path) -> None:
    page = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
    described = re.findall(r"^(\w+)/?  +\S", page, re.MULTILINE)
    modules = [path.stem for path in folder.glob("*.py") if not path.stem.startswith("__")]
    packages = [path.parent.name for path in folder.glob("*/__init__.py")]

    assert Counter(described) == Counter(modules + packages)


def test_a_class_name_exists_once() -> None:
    places = defaultdict(set)
    for house in HOUSES:
        for path in sorted((ROOT / house).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places[node.name].add(str(path.relative_to(ROOT)))

    assert {name: found for name, found in places.items() if len(found) > 1} == {}
