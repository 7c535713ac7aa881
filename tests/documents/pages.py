"""The documents, and the parts of them that tests compare."""

from __future__ import annotations

import re
from pathlib import Path

from config.reference import reference
from sinks import registry

ROOT = Path(__file__).parents[2]
TYPES = {name: kind.options for name, kind in registry.types().items()}
REFERENCE = reference(TYPES)

FOR_OPERATORS = (
    "README.md",
    "docs/alerts.md",
    "docs/configuration.md",
    "docs/events.md",
    "docs/glossary.md",
    "docs/guarantees.md",
    "docs/large-clusters.md",
    "docs/replicas.md",
    "docs/metrics.md",
    "docs/operation.md",
    *sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/sinks/*.md")),
    "docs/troubleshooting.md",
)
"""Pages that name options, commands, metrics and types of events."""
FOR_DEVELOPERS = ("ARCHITECTURE.md", "docs/performance.md", "docs/state.md")


def everything() -> list[Path]:
    """Every document that a person wrote."""
    found = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "sinks/README.md", ROOT / "benchmarks/README.md"]
    return sorted(found)


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def code_spans(*names: str) -> list[str]:
    """Text between backticks, without fenced blocks; sorted, each once."""
    texts = (re.sub(r"```.*?```", "", read(name), flags=re.DOTALL) for name in names)
    return sorted({span for text in texts for span in re.findall(r"`([^`\n]+)`", text)})


def section(name: str, heading: str) -> str:
    """The text below a heading, up to the next heading of its level or a higher one."""
    level = heading.split(" ")[0]
    _, found, rest = read(name).partition(f"\n{heading}\n")
    assert found, f"{name} has no {heading}"
    return re.split(rf"^#{{1,{len(level)}}} ", rest, maxsplit=1, flags=re.MULTILINE)[0]
