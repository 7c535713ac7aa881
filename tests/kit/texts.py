"""Texts that readers of YAML take for something else if they are written without care."""

_WORDS = "y n Yes on null ~ 08 1e3 0x1F 1_000 0o14 12:30:45 .5 .inf - -- = {} [] # &a *a !a %a @a `a 2026-01-05 1. +1"
TEXTS = [
    *_WORDS.split(),
    "true",
    "",
    " x",
    "x ",
    "a: b",
    "a #b",
    "multi\nline\n",
    "multi\n  line",
    " multi\nline",
    "\nline",
    "tab\tbed",
    "é",
    "'",
    '"',
    "\x1b[2J",
    "\u202egnp.exe",
    "line\n\x9b31m",
]
