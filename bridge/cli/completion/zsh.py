"""Makes the completion script for zsh of the words of the command line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from shlex import quote

from bridge.cli.completion.bash import tables
from bridge.cli.completion.words import CommandWords

_ENGINE = r"""
_kubedelta_names() {
    local i file=""
    for ((i = 2; i < ${#words}; i++)); do
        case ${words[i]} in (-c | --config) file=${(Q)words[i + 1]} ;; esac
    done
    "${words[1]}" completion zsh --names "$1" ${file:+--config} ${file:+"$file"} 2>/dev/null </dev/null
}

_kubedelta() {
    local cur=${words[CURRENT]} known="" place=0 expected="" literal="" i word next
    local -a found
    for ((i = 2; i < CURRENT; i++)); do
        word=${words[i]}
        if [[ -n $expected ]]; then
            expected=""
        elif [[ -z $literal && $word == -- ]]; then
            literal=1
        elif [[ -z $literal && $word == -* ]]; then
            expected=$(_kubedelta_value "$known $word")
        else
            next="${known:+$known }$word"
            if [[ -n $(_kubedelta_is_path "$next") ]]; then known=$next place=0; else ((place += 1)); fi
        fi
    done
    if [[ -z $expected && -z $literal && $cur == -* ]]; then
        found=("${(@f)$(_kubedelta_described_options "$known")}")
        _describe -o 'option' found
        return
    fi
    if [[ -z $expected ]]; then
        found=("${(@f)$(_kubedelta_described_commands "$known")}")
        if [[ -n $found ]]; then _describe 'command' found; fi
        expected=$(_kubedelta_positional "$known $place")
    fi
    case ${expected%% *} in
        (words) compadd -- ${=expected#* } ;;
        (sinks | resources) compadd -- ${(f)"$(_kubedelta_names $expected)"} ;;
        (sinks_or_files) compadd -- ${(f)"$(_kubedelta_names sinks)"} ;;
    esac
    case $expected in
        (files | sinks_or_files) _files ;;
    esac
}

if [[ $funcstack[1] == _kubedelta ]]; then _kubedelta "$@"; else compdef _kubedelta kubedelta; fi
"""


def script(commands: Mapping[str, CommandWords]) -> str:
    """``commands``: by their paths. To be sourced behind ``compinit``, or a file ``_kubedelta`` in the ``fpath``."""
    described = [
        _function("commands", ((path, each.commands.items()) for path, each in commands.items())),
        _function(
            "options",
            (
                (path, [(name, option.help) for option in each.options for name in option.names])
                for path, each in commands.items()
            ),
        ),
    ]
    first = "#compdef kubedelta\n# zsh completion for kubedelta, made by `kubedelta completion zsh`."
    return "\n".join([first, *tables(commands), *described, _ENGINE.strip()])


def _function(name: str, cases: Iterable[tuple[str, Iterable[tuple[str, str]]]]) -> str:
    lines = []
    for key, values in cases:
        if words := [f"{word.replace(':', chr(92) + ':')}:{text}" for word, text in values]:
            lines.append(f"        {quote(key)}) printf '%s\\n' {' '.join(map(quote, words))} ;;")
    return "\n".join([f"_kubedelta_described_{name}() {{", '    case "$1" in', *lines, "    esac", "}", ""])
