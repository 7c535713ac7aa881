"""All options, for editors (a JSON Schema) and for people (`config/reference.yaml`)."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from config.rules import NeededByDefaults
from config.schema import Address, DeliverySettings, Settings, SinkOptionTypes, settings_type
from config.schema.resources import ResourceSettings
from config.schema.shape import item_model_of, model_of, words_of
from config.values import LONGEST_PATH, PATH, Duration, Size, written_size

_WIDTH = 116
_HEAD = """\
# Every option of kubedelta, with its default. Made by `make reference` from the descriptions in the source.
#
# Options without '#' are required. To set another option, remove its '#' (the '#' without a space behind it).
# "# example" stands behind the value of an option that has no default.
#
# An environment variable wins over the file: KUBEDELTA__TELEMETRY__LOG_LEVEL=debug, KUBEDELTA__SINKS__<NAME>__TOPIC=x.
# Lists and mappings are written there as YAML: KUBEDELTA__RESOURCES='[pods, deployments.apps]'.
#
# A time is a number of seconds, or has a unit: 500ms, 90s, 10m, 12h, 7d. A size is a number of bytes, or has a unit:
# 64KiB, 4GiB (powers of 1024; 10Gi is the same), 5MB (powers of 1000).
#
# A relative path begins at the folder of this file. Secrets stand in files of their own, which options ending in _file
# name.
"""


def json_schema(sink_options: SinkOptionTypes) -> dict[str, Any]:
    """The file's JSON Schema (2020-12), for these types of sinks."""
    schema = settings_type(sink_options).model_json_schema()
    _bound_paths(schema)
    for name in schema["properties"].keys() - set(schema["required"]):
        # The loader takes a null section (every line of it is commented out) for a missing section.
        option = schema["properties"][name]
        about = {key: option.pop(key) for key in ("default", "description") if key in option}
        schema["properties"][name] = {"anyOf": [option, {"type": "null"}]} | about
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "kubedelta"}
    return head | {name: value for name, value in schema.items() if name != "title"}


def _bound_paths(schema: Any) -> None:
    """Bounds every path as ``values.why_no_path`` does, in the schema's words."""
    if isinstance(schema, dict):
        if schema.get("format") == "path":
            schema.setdefault("pattern", f"^(?:{PATH})$")
            schema["maxLength"] = min(LONGEST_PATH, schema.get("maxLength", LONGEST_PATH))
        schema = list(schema.values())
    if isinstance(schema, list):
        for each in schema:
            _bound_paths(each)


def reference(sink_options: SinkOptionTypes) -> str:
    """A YAML file with every option, its description, and its default or an example. It loads unchanged. It has a sink
    of each type, named after the type."""
    lines = [_HEAD]
    for name, field in Settings.model_fields.items():
        lines += ["", *_comment(field.description or "")]
        if name == "resources":
            lines += [f"{name}:", *_indented(_resources())]
        elif name == "sinks":
            lines += [f"{name}:", *_indented(_sinks(sink_options))]
        elif (model := model_of(field.annotation)) and field.default is None:
            lines += _block(name, field, model)
        elif model:
            lines += [f"{name}:", *_indented(_options(model.model_fields))]
        else:
            lines += [_line(name, field)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _resources() -> Iterator[str]:
    yield "- pods"
    yield "- # Or a mapping with more options."
    yield from _indented(_options(ResourceSettings.model_fields, _items_of_sections()))


def _sinks(sink_options: SinkOptionTypes) -> Iterator[str]:
    """Each option is described once: a type that has the same one as a type above names it."""
    described: dict[tuple[str, str], str] = {}
    for name, options in sorted(sink_options.items()):
        summary = (options.__doc__ or "").strip().partition("\n\n")[0]
        yield ""
        yield from _comment(" ".join(summary.split()))
        yield f"{name}:"
        yield f"  type: {name}"
        own: dict[str, FieldInfo] = {}
        same: dict[str, list[str]] = {}
        for option, field in options.model_fields.items():
            above = described.setdefault((option, repr(field)), name)
            if above == name or field.is_required():
                own[option] = field
            else:
                same.setdefault(above, []).append(option)
        for above, shared in same.items():
            yield from _indented(_comment(f"As under {above}: {', '.join(shared)}."))
        yield from _indented(_options(own))
    yield ""
    yield from _comment("Beside its own options, a sink of any type has these:")
    yield from _indented(_options(DeliverySettings.model_fields, _items_of_sections()))


def _items_of_sections() -> set[type[BaseModel]]:
    """Items of lists that a section has, too, and describes: those of redaction.rules."""
    sections = (model for field in Settings.model_fields.values() if (model := model_of(field.annotation)))
    fields = (field for section in sections for field in section.model_fields.values())
    return {item for field in fields if (item := item_model_of(field.annotation))}


def _options(fields: Mapping[str, FieldInfo], elsewhere: Set[type[BaseModel]] = frozenset()) -> Iterator[str]:
    """``elsewhere``: items of lists that are described under another option."""
    for name, field in fields.items():
        yield ""
        yield from _comment(field.description or "")
        if (model := item_model_of(field.annotation)) and model not in elsewhere:
            for inner, inner_field in model.model_fields.items():
                yield from _comment(f"{inner}: {inner_field.description}")
        if model := model_of(field.annotation):
            yield from _block(name, field, model)
        else:
            yield _line(name, field)


def _block(name: str, field: FieldInfo, model: type[BaseModel]) -> Iterator[str]:
    """An option that is a mapping: its own options are in it, to be uncommented together."""
    off = "" if field.is_required() else "#"
    examples = {} if not field.examples else to_jsonable_python(field.examples[0])
    yield f"{off}{name}:"
    for inner, inner_field in model.model_fields.items():
        line = _line(inner, inner_field, examples.get(inner))
        unset = not inner_field.is_required() and inner_field.default is None
        for text in (*_comment(inner_field.description or ""), line if unset else line.removeprefix("#")):
            yield f"{off}  {text}"


def _line(name: str, field: FieldInfo, example: Any = None) -> str:
    """``name: example`` for a required option, ``#name: default`` for any other."""
    example = field.examples[0] if field.examples else example
    if field.is_required() or any(isinstance(each, NeededByDefaults) for each in field.metadata):
        return f"{name}: {_yaml(example)}"
    default = _written(field.get_default(call_default_factory=True))
    shown = example if default is None else default
    notes = []
    if default is None and example is not None:
        notes.append("example")
    elif example not in (None, default):
        notes.append(f"for example: {_yaml(example)}")
    if others := [word for word in words_of(field.annotation) if word != shown]:
        notes.append(f"or: {', '.join(others)}")
    return f"#{name}: {_yaml(shown)}" + ("  # " + "; ".join(notes) if notes else "")


def _written(value: Any) -> Any:
    """A default in the operator's notation."""
    match value:
        case Address() | Duration():
            return str(value)
        case Size():
            return written_size(value)
        case _:
            return to_jsonable_python(value, fallback=str)


def _yaml(value: Any) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, width=10_000, allow_unicode=True)
    return text.removesuffix("...\n").strip()


def _comment(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"  {line}" if line else "" for line in lines]
