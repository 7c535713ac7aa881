"""Makes the completion script for bash of the words of the command line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from shlex import quote

from bridge.cli.completion.words import CommandWords, ExpectedWord

_ENGINE = r"""
# Names in the configuration that the command line names.
_kubedelta_names() {
    local i file=""
    for ((i = 1; i < ${#COMP_WORDS[@]} - 1; i++)); do
        case ${COMP_WORDS[i]} in -c | --config) file=${COMP_WORDS[i + 1]} ;; esac
    done
    "${COMP_WORDS[0]}" completion bash --names "$1" ${file:+--config "$file"} 2>/dev/null </dev/null
}

_kubedelta_add() {
    local word
    while IFS= read -r word; do
        [[ -n $word && $word == "$cur"* ]] && COMPREPLY+=("$word")
    done
}

_kubedelta() {
    local cur=${COMP_WORDS[COMP_CWORD]} path="" place=0 expected="" literal="" i word next
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if [[ -n $expected ]]; then
            expected=""
        elif [[ -z $literal && $word == -- ]]; then
            literal=1
        elif [[ -z $literal && $word == -* ]]; then
            expected=$(_kubedelta_value "$path $word")
        else
            next="${path:+$path }$word"
            if [[ -n $(_kubedelta_is_path "$next") ]]; then path=$next place=0; else place=$((place + 1)); fi
        fi
    done
    if [[ -z $expected && -z $literal && $cur == -* ]]; then
        _kubedelta_add < <(_kubedelta_options "$path")
        return
    fi
    if [[ -z $expected ]]; then
        _kubedelta_add < <(_kubedelta_commands "$path")
        expected=$(_kubedelta_positional "$path $place")
    fi
    case ${expected%% *} in
        words) _kubedelta_add < <(printf '%s\n' ${expected#* }) ;;
        sinks | resources) _kubedelta_add < <(_kubedelta_names "$expected") ;;
        sinks_or_files) _kubedelta_add < <(_kubedelta_names sinks) ;;
    esac
    case $expected in
        files | sinks_or_files)
            compopt -o filenames 2>/dev/null
            while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -f -- "$cur")
            ;;
    esac
}

complete -F _kubedelta kubedelta
"""


def script(commands: Mapping[str, CommandWords]) -> str:
    """``commands``: by their paths. Works from bash 3.2 on."""
    return "\n".join(
        [
            "# bash completion for kubedelta, made by `kubedelta completion bash`.",
            *tables(commands),
            _ENGINE.strip(),
        ]
    )


def tables(commands: Mapping[str, CommandWords]) -> list[str]:
    """Functions that print what the parser expects. Their language is that of every POSIX shell."""
    return [
        _function("is_path", ((path, ["yes"]) for path in commands if path)),
        _function("commands", ((path, list(each.commands)) for path, each in commands.items())),
        _function(
            "options",
            ((path, [name for option in each.options for name in option.names]) for path, each in commands.items()),
        ),
        _function(
            "value",
            (
                (f"{path} {name}", [text_of(option.value)])
                for path, each in commands.items()
                for option in each.options
                if option.value is not None
                for name in option.names
            ),
        ),
        _function("positional", _positionals(commands)),
    ]


def text_of(expected: ExpectedWord) -> str:
    """``files``, ``sinks``, …, ``words`` and the choices, or ``any``."""
    return " ".join(["words", *expected.choices]) if expected.choices else expected.completes.value or "any"


def _positionals(commands: Mapping[str, CommandWords]) -> Iterable[tuple[str, list[str]]]:
    for path, each in commands.items():
        for place, expected in enumerate(each.positionals):
            yield f"{path} {place}", [text_of(expected)]


def _function(name: str, cases: Iterable[tuple[str, list[str]]]) -> str:
    lines = [
        f"        {quote(key)}) printf '%s\\n' {' '.join(map(quote, values))} ;;" for key, values in cases if values
    ]
    return "\n".join([f"_kubedelta_{name}() {{", '    case "$1" in', *lines, "    esac", "}", ""])
