"""How many functions, modules and types one watched update meets, and ARCHITECTURE's table of them."""

from __future__ import annotations

import re

from tests.kit.walk import ROOT, Walk, walk

FUNCTIONS, MODULES, CARRIERS = 60, 20, 9


def table() -> dict[str, set[str]]:
    """Module → functions, as ARCHITECTURE.md has them."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    section = text.partition("\n## The way of one delta\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([^`]+)` \| ([^|]+) \|", section, re.MULTILINE)
    return {module: set(re.findall(r"`([^`]+)`", functions)) for module, functions in rows}


def documented_carriers() -> set[str]:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    return set(re.findall(r"`([A-Za-z]+)`", text.partition("types carry the change:")[2].partition("\n\n")[0]))


def met(found: Walk) -> dict[str, set[str]]:
    modules: dict[str, set[str]] = {}
    for each in found.stations:
        name = each.name.replace(".<locals>", "")
        modules.setdefault(each.module.removesuffix(".py"), set()).add(name)
    return modules


async def test_a_delta_meets_few_functions_modules_and_types() -> None:
    found = await walk()
    modules = met(found)
    assert len(found.stations) <= FUNCTIONS, found.stations
    assert len(modules) <= MODULES, sorted(modules)
    assert len(found.carriers) <= CARRIERS, sorted(found.carriers)
    assert table() == modules, "`python -m tests.kit.walk` prints the way"
    assert documented_carriers() == found.carriers
