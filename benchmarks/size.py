"""How large the house is: ``make size``.

Lines of code are those with code on them: no blanks, comments or docstrings. A document is a Markdown page at the
top or in ``docs``; recorded results and generated files do not count.
"""

from __future__ import annotations

import ast
import io
import tokenize
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
HOUSES = ("bridge", "sinks", "config", "kubedelta")
_NO_CODE = frozenset(
    {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING}
    | {tokenize.ENDMARKER}
)


def main() -> None:
    product = [*python(*HOUSES)]
    floors = _floors()
    figures = {
        "code lines of the product": sum(map(code_lines, product)),
        "of these, bridge/replication": sum(map(code_lines, python("bridge/replication"))),
        "code lines of the reader library": sum(map(code_lines, python("reader"))),
        "lines of tests": sum(len(path.read_text().splitlines()) for path in python("tests")),
        "files of bridge, sinks, config and kubedelta": len(product),
        "rooms of bridge": sum(len(floor.split("|")) for floor in floors),
        "floors of bridge": len(floors),
        "words of documents": sum(len(path.read_text().split()) for path in documents()),
        "words of config/reference.yaml": len((ROOT / "config/reference.yaml").read_text().split()),
    }
    for name, figure in figures.items():
        print(f"{figure:>9,}  {name}")
    for room in sorted(path.parent for path in (ROOT / "bridge").glob("*/__init__.py")):
        files = [*room.rglob("*.py")]
        print(f"{sum(map(code_lines, files)):>9,}  {room.relative_to(ROOT)}, {len(files)} files")


def python(*folders: str) -> Iterator[Path]:
    """The Python files in these folders, at any depth."""
    for folder in folders:
        yield from sorted((ROOT / folder).rglob("*.py"))


def documents() -> Iterable[Path]:
    """The pages for people."""
    return [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]


def code_lines(path: Path) -> int:
    """Lines of the file with code on them."""
    text = path.read_text()
    strings: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            strings.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - strings)


def _floors() -> list[str]:
    """Of bridge, as import-linter keeps them; without ``__main__``."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (found,) = (each["layers"] for each in contracts if each.get("containers") == ["bridge"])
    return [floor for floor in found if floor != "__main__"]


if __name__ == "__main__":
    main()
