"""Compares two configurations: the part of their difference that a running bridge can put into effect, and the rest.

An option that needs a restart refuses the whole file, so that the configuration in effect is always the content of one
file, with one digest. More than ``MOST_DELETES`` objects that the configuration no longer covers, or covers in another
way, fail the check; objects that really left the cluster do not count. A warning would have no reader in a pipeline,
and a bound of zero would fail every change of a selector. ``run`` exports them in any case, since it cannot ask.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pydantic import BaseModel

from config.schema import ResourceSettings, Settings, SinkSettings

MOST_DELETES = 1000
"""Most deletes by a changed configuration that pass as intended. More fail the check, and a reload."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsDifference:
    """From a former configuration to a present one."""

    added: tuple[str, ...] = ()
    """Sinks."""
    removed: tuple[str, ...] = ()
    """Sinks."""
    changed: tuple[str, ...] = ()
    """Sinks with other options."""
    selecting: tuple[str, ...] = ()
    """Of the added and the changed sinks, those whose selection is new or another."""
    resources: bool = False
    """Some entry of ``resources`` is another."""
    lines: tuple[str, ...] = ()
    """Each change in words, without values of sinks, which may be secrets."""
    fixed: tuple[str, ...] = ()
    """Paths of changed options that need a restart."""


def difference(was: Settings, now: Settings) -> SettingsDifference:
    """Compares values: an option that is written out with its default has not changed."""
    both = was.sinks.keys() & now.sinks.keys()
    changed = {name: options for name in sorted(both) if (options := _options(was.sinks[name], now.sinks[name]))}
    added = tuple(name for name in now.sinks if name not in was.sinks)
    removed = tuple(name for name in was.sinks if name not in now.sinks)
    selecting = [name for name in added if now.sinks[name].select is not None]
    of_resources = list(_of_resources(was.resources, now.resources))
    lines = [
        *(f"sinks.{name}: added" for name in added),
        *(f"sinks.{name}: removed" for name in removed),
        *(f"sinks.{name}: changed: {', '.join(options)}" for name, options in changed.items()),
        *of_resources,
    ]
    if was.telemetry.log_level != now.telemetry.log_level:
        lines.append(f"telemetry.log_level: {now.telemetry.log_level}")
    return SettingsDifference(
        added=added,
        removed=removed,
        changed=tuple(changed),
        selecting=(*selecting, *(name for name, options in changed.items() if "select" in options)),
        resources=bool(of_resources),
        lines=tuple(lines),
        fixed=tuple(path for path in _paths(was, now) if path != "telemetry.log_level"),
    )


def _options(was: SinkSettings, now: SinkSettings) -> list[str]:
    """The names of the options that differ; of ``type`` alone if that differs."""
    if was.type != now.type:
        return ["type"]
    common = [name for name in SinkSettings.model_fields if name != "options" and _differs(was, now, name)]
    return [*common, *(name for name in type(now.options).model_fields if _differs(was.options, now.options, name))]


def _differs(was: BaseModel, now: BaseModel, name: str) -> bool:
    return bool(getattr(was, name) != getattr(now, name))


def _of_resources(was: Sequence[ResourceSettings], now: Sequence[ResourceSettings]) -> Iterator[str]:
    new = [each.resource for each in now if each not in was]
    gone = [each.resource for each in was if each not in now]
    for word, names in (
        ("added", [name for name in new if name not in gone]),
        ("removed", [name for name in gone if name not in new]),
        ("changed", [name for name in new if name in gone]),
    ):
        if names:
            yield f"resources: {word}: {', '.join(dict.fromkeys(names))}"


def _paths(was: BaseModel, now: BaseModel, above: str = "") -> Iterator[str]:
    """The paths of options that differ, outside of ``resources`` and ``sinks``."""
    for name in Settings.model_fields if not above else type(now).model_fields:
        if not above and name in ("resources", "sinks"):
            continue
        before, after = getattr(was, name), getattr(now, name)
        if before == after:
            continue
        if isinstance(before, BaseModel) and isinstance(after, BaseModel):
            yield from _paths(before, after, f"{above}{name}.")
        else:
            yield f"{above}{name}"
