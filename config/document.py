"""Reads one YAML file strictly: a key given twice is an error, and every value has its line. ``ConfigurationFile``
notices that the file has changed.

Scalars are read by JSON's rules in place of YAML 1.1's: ``on`` is text (and may be a namespace), and so are a date,
``010`` and ``12:30``.

A file is bounded in bytes, in nesting and in values (values that aliases repeat included). The bounds are checked
before any object is built, so that no file can keep the start waiting.
"""

from __future__ import annotations

import hashlib
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path as File
from typing import Any, TypeAlias

import yaml

from config.errors import ConfigError, Path, Problem

_CORE = "tag:yaml.org,2002:"
LARGEST = 1 << 20
"""Bytes of a file. A ConfigMap cannot be larger either."""
DEEPEST = 64
"""Levels of lists and mappings. The options need six."""
MOST_VALUES = 20_000
"""Keys and values. An alias counts as often as the values that it repeats."""
_TOO_MANY = f"more than {MOST_VALUES} values, counting what aliases (*name) repeat"

_TAGS = frozenset(_CORE + tag for tag in ("map", "seq", "str", "int", "float", "bool", "null"))


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """The content of a file, with the line of each value."""

    name: str
    """The file, as the operator named it."""
    data: Mapping[str, Any]
    lines: Mapping[Path, int]
    problems: tuple[Problem, ...]
    """Keys given twice, and keys that are not text. ``data`` is without them: of two equal keys it has the first."""

    def line(self, path: Path) -> int:
        """The line of ``path``; else of the nearest section around it; 0 for the file as a whole."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 0)

    def source(self, path: Path) -> str:
        """``kubedelta.yaml:12``"""
        line = self.line(path)
        return f"{self.name}:{line}" if line else self.name


def read(file: File) -> YamlDocument:
    """Raises ConfigError: the file cannot be read, is empty, is too large, is not YAML, or is not a mapping."""
    name = str(file)
    try:
        with file.open("rb") as opened:
            text = opened.read(LARGEST + 1)
    except OSError as error:
        raise ConfigError([Problem(name, (), f"cannot be read: {error.strerror or type(error).__name__}")]) from error
    if len(text) > LARGEST:
        message = f"is larger than {LARGEST >> 20}MiB, and a configuration is not: is this the right file?"
        raise ConfigError([Problem(name, (), message)])
    return parse(text, name)


def section(file: File, name: str) -> Any:
    """The value of one section at the top of a file that is not YAML as a whole: from the line of its key to the next
    line that begins a section. None without it. Raises ConfigError if the section is not YAML either, and for a file
    that is not text."""
    try:
        with file.open("rb") as opened:
            text = opened.read(LARGEST).decode()
    except (OSError, ValueError) as error:
        raise ConfigError([Problem(str(file), (), "cannot be read as text")]) from error
    lines: list[str] = []
    for line in text.splitlines():
        if line[:1] not in ("", " ", "#", "-"):
            if lines:
                break
            lines += [line] if line.startswith(f"{name}:") else []
        elif lines:
            lines.append(line)
    found = plain("\n".join(lines), str(file))
    return found[name] if isinstance(found, dict) else None


def parse(text: str | bytes, name: str) -> YamlDocument:
    """Like ``read``, for a text in memory. ``name`` is the file's name in problems."""
    walk = _Walk(name)
    data = _load(text, walk)
    if isinstance(data, dict):
        return YamlDocument(name, data, walk.lines, tuple(walk.left_out))
    if data is None:
        message = "is empty; cluster.name, resources and sinks are needed at least"
    else:
        message = "found a list or a single value; a mapping of sections is expected"
    raise ConfigError([Problem(name, (), message)])


def plain(text: str, name: str) -> Any:
    """One YAML value of any kind, from an environment variable. Raises ConfigError."""
    walk = _Walk(name)
    data = _load(text, walk)
    if walk.left_out:
        raise ConfigError(walk.left_out)
    return data


class _StrictLoader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[Any, Any] = {  # noqa: RUF012 - PyYAML reads this attribute
        first: [(tag, pattern) for tag, pattern in known if tag.endswith((":null", ":merge"))]
        for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def __init__(self, text: str | bytes) -> None:
        super().__init__(text)
        self._composed = 0

    # The depth is bounded in the scanner, before the composer: PyYAML's scanner takes time for each bracket that grows
    # with the number of open brackets.

    def fetch_flow_collection_start(self, token: type[yaml.Token]) -> None:
        self._go_deeper(self.flow_level)
        super().fetch_flow_collection_start(token)

    def add_indent(self, column: int) -> bool:
        self._go_deeper(len(self.indents))
        return super().add_indent(column)

    def _go_deeper(self, depth: int) -> None:
        if depth >= DEEPEST:
            problem = f"lists and mappings are nested deeper than {DEEPEST} levels"
            raise yaml.scanner.ScannerError(problem=problem, problem_mark=self.get_mark())

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        # Nodes as they are written. ``_Walk`` counts the values of an alias at every repetition.
        self._composed += 1
        if self._composed > MOST_VALUES:
            raise yaml.composer.ComposerError(problem=_TOO_MANY, problem_mark=self.get_mark())
        node = super().compose_node(parent, index)
        if isinstance(node, yaml.ScalarNode) and not node.value.isascii():
            node.value = _with_whole_pairs(node)
        return node


def _with_whole_pairs(node: yaml.ScalarNode) -> str:
    """The text of a scalar. JSON writes a character beyond U+FFFF as two escapes (a surrogate pair), which YAML takes
    for two characters. Raises ComposerError for half of a pair: no text has it."""
    try:
        return str(node.value).encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        problem = "half of a surrogate pair (\\ud800 to \\udfff) without the other half"
        raise yaml.composer.ComposerError(problem=problem, problem_mark=node.start_mark) from None


for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"-?(?:0|[1-9][0-9]*)", "-0123456789"),
    ("float", r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?", "-0123456789"),
):
    _StrictLoader.add_implicit_resolver(f"{_CORE}{_tag}", re.compile(f"^(?:{_pattern})$"), [*_first])


def _load(text: str | bytes, walk: _Walk) -> Any:
    try:
        loader = _StrictLoader(text)
        node = loader.get_single_node()
        if node is None:
            return None
        walk.under(node, (), frozenset())
        return loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        # PyYAML's own text would quote the line, secrets included.
        raise ConfigError([_syntax(error, walk.name)]) from None
    except yaml.reader.ReaderError as error:
        raise ConfigError([Problem(walk.name, (), f"not text: {error.reason} at position {error.position}")]) from None
    except (ValueError, LookupError, RecursionError) as error:
        # LookupError: a !!bool or !!int with another text.
        raise ConfigError([Problem(walk.name, (), f"not YAML that can be read: {type(error).__name__}")]) from None


@dataclass(slots=True)
class _Walk:
    """Notes the line of each value under a node, and removes keys that YAML allows and a configuration does not."""

    name: str
    lines: dict[Path, int] = field(default_factory=dict)
    left_out: list[Problem] = field(default_factory=list)
    values: int = 0

    def under(self, node: yaml.Node, path: Path, above: frozenset[int]) -> None:
        """Raises ConfigError for a tag, an anchor that contains itself, or too many values."""
        self.values += 1
        if self.values > MOST_VALUES:
            raise ConfigError([Problem(self.name, (), _TOO_MANY)])
        if id(node) in above:
            raise ConfigError([self._problem(node, path, "an anchor that contains itself")])
        if node.tag not in _TAGS:
            raise ConfigError([self._problem(node, path, f"found the tag {node.tag}; tags are not used here")])
        if isinstance(node, yaml.MappingNode):
            self._mapping(node, path, above | {id(node)})
        elif isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                self.lines[*path, index] = _line(item)
                self.under(item, (*path, index), above | {id(node)})

    def _mapping(self, node: yaml.MappingNode, path: Path, above: frozenset[int]) -> None:
        seen: dict[str, int] = {}
        kept = []
        for key, value in node.value:
            if key.tag == f"{_CORE}merge":
                self.under(value, path, above)
            elif key.tag != f"{_CORE}str":
                found = f"found {key.value}" if isinstance(key, yaml.ScalarNode) else "found a list or a mapping"
                self.left_out.append(self._problem(key, path, f"{found} as a key; keys are text"))
                continue
            elif key.value in seen:
                message = f"given twice; it is already set in line {seen[key.value]}"
                self.left_out.append(self._problem(key, (*path, key.value), message))
                continue
            else:
                seen[key.value] = self.lines[*path, key.value] = _line(key)
                self.under(value, (*path, key.value), above)
            kept.append((key, value))
        node.value = kept

    def _problem(self, node: yaml.Node, path: Path, message: str) -> Problem:
        return Problem(f"{self.name}:{_line(node)}", path, message)


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _syntax(error: yaml.MarkedYAMLError, name: str) -> Problem:
    mark = error.problem_mark or error.context_mark
    where = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
    what = ", ".join(part for part in (error.context, error.problem) if part)
    return Problem(where, (), f"not YAML: {what}")


# ── Changes of the file ──────────────────────────────────────────────────────

_DIGITS = 8
"""Enough to compare files, and too few to try passwords of a file on."""
_State: TypeAlias = tuple[int, int, int, int, int] | None
"""Device, inode, size, and the times of changes in nanoseconds; None without a regular file."""


class ConfigurationFile:
    """A file, compared with its state at the last ``read``. A look is a ``stat``: the kubelet replaces a link in front
    of the file, which then has another inode; editors write in place or rename. A pipe is never read again."""

    def __init__(self, path: File) -> None:
        self.path = path
        self.digest = ""
        """The first digits of the SHA-256 of the content at the last ``read``; empty for a file that cannot be read."""
        self._read: _State = None
        self._seen: _State = None
        self.read()

    def read(self) -> None:
        """Notes state and digest. Call it before the content is used, so that no change in between is overlooked."""
        self._read = self._seen = self._look()
        self.digest = ""
        if self._read is not None:
            try:
                with self.path.open("rb") as opened:
                    self.digest = hashlib.sha256(opened.read(LARGEST + 1)).hexdigest()[:_DIGITS]
            except OSError:
                return

    def has_changed(self) -> bool:
        """True if this look and the one before found the same new state: its writer is done with it."""
        was, self._seen = self._seen, self._look()
        return self._seen == was and self._seen != self._read

    @property
    def is_changing(self) -> bool:
        """The last look found another state than the last ``read``."""
        return self._seen != self._read

    def _look(self) -> _State:
        try:
            found = self.path.stat()
        except OSError:
            return None
        if not stat.S_ISREG(found.st_mode):
            return None
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
