"""Makes the completion script for fish of the words of the command line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bridge.cli.arguments import Completes
from bridge.cli.completion.words import CommandWords, ExpectedWord

_ENGINE = r"""
# Whether the command line is at this command, and at this positional argument of it, if one is given.
function __kubedelta_at
    set -l path ""
    set -l place 0
    set -l skip 0
    for word in (commandline -opc)[2..]
        if test $skip = 1
            set skip 0
        else if contains -- "$path $word" $__kubedelta_valued
            set skip 1
        else if string match -q -- '-*' $word
            continue
        else if contains -- (string trim -- "$path $word") $__kubedelta_paths
            set path (string trim -- "$path $word")
            set place 0
        else
            set place (math $place + 1)
        end
    end
    test "$path" = "$argv[1]"; or return 1
    test (count $argv) -lt 2; or test $place = $argv[2]; or test "$argv[3]" = repeats -a $place -gt $argv[2]
end

function __kubedelta_names
    set -l words (commandline -op)
    set -l file
    for i in (seq (count $words))
        if contains -- $words[$i] -c --config; and set -q words[(math $i + 1)]
            set file --config $words[(math $i + 1)]
        end
    end
    $words[1] completion fish --names $argv[1] $file 2>/dev/null </dev/null
end

complete -c kubedelta -f
"""


def script(commands: Mapping[str, CommandWords]) -> str:
    """``commands``: by their paths."""
    valued = [
        f"{path} {name}"
        for path, each in commands.items()
        for option in each.options
        if option.value is not None
        for name in option.names
    ]
    return "\n".join(
        [
            "# fish completion for kubedelta, made by `kubedelta completion fish`.",
            f"set -g __kubedelta_paths {' '.join(_quoted(path) for path in commands if path)}",
            f"set -g __kubedelta_valued {' '.join(map(_quoted, valued))}",
            _ENGINE.strip(),
            *(line for path, each in commands.items() for line in _lines(path, each)),
        ]
    )


def _lines(path: str, words: CommandWords) -> Iterator[str]:
    for name, text in words.commands.items():
        yield f"{_at(path, 0)} -a {_quoted(name)} -d {_quoted(text)}"
    for option in words.options:
        names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
        value = "" if option.value is None else f" {_value(option.value)}"
        yield f"{_at(path)} {names}{value} -d {_quoted(option.help)}"
    for place, expected in enumerate(words.positionals):
        if arguments := _arguments(expected):
            repeats = words.repeats and place == len(words.positionals) - 1
            yield f"{_at(path, place, repeats=repeats)} {arguments}"


def _at(path: str, place: int | None = None, *, repeats: bool = False) -> str:
    condition = f"__kubedelta_at {_quoted(path)}" + ("" if place is None else f" {place}") + " repeats" * repeats
    return f"complete -c kubedelta -n {_quoted(condition)}"


def _value(expected: ExpectedWord) -> str:
    """``-x``: no files beside what is offered."""
    arguments = _arguments(expected)
    return f"-r {arguments}" if "-F" in arguments else f"-x {arguments}".rstrip()


def _arguments(expected: ExpectedWord) -> str:
    if expected.choices:
        return f"-a {_quoted(' '.join(expected.choices))}"
    match expected.completes:
        case Completes.FILES:
            return "-F"
        case Completes.SINKS | Completes.RESOURCES:
            return f"-a '(__kubedelta_names {expected.completes.value})'"
        case Completes.SINKS_OR_FILES:
            return f"-F -a '(__kubedelta_names {Completes.SINKS.value})'"
    return ""


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
