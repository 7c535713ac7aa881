"""Finds credentials: by the name of a variable or a flag, and by the form of a text. Pure.

Every search is linear in the text. A text beyond ``LONGEST_TEXT`` cannot be judged, and is redacted whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final, TypeAlias

Digest: TypeAlias = Callable[..., str]
"""Makes the text in place of a value, from parts that say where the value stands, and the value."""

LONGEST_TEXT: Final = 32_768
"""Characters."""

_SECRET_WORDS = re.compile(
    "passw|passphrase|passcode|secret|token|credential|api_?key|(?:access|account|auth|client|encryption|license|master"
    "|private|service|session|shared|signing|storage|ssh)_?key|connection_?string|conn_?str|webhook_?url"
)
_SECRET_ENDS = re.compile("(?:^|_)(?:pwd|pass|pw|keys?|auth|authorization|cookie|dsn|jwt|pat|pin)$|(?:api|secret)key$")
_HARMLESS_ENDS = re.compile(
    "_(?:file|path|dir|directory|names?|ref|ur[il]|endpoint|host|port|address|ttl|expiry|expiration|expires|expires_in"
    "|lifetime|duration|timeout|interval|period|seconds|minutes|hours|days|length|len|size|count|limit|min|max|type"
    "|headers?|algorithm|alg|issuer|audience|enabled|disabled|required|policy|version|format|prefix|suffix|mount"
    "|namespace|provider|store|class|server|service|region|rotation|mode|hash|id)$"
)
_HARMLESS = re.compile(
    "(?:max|min|num|total|enable|disable|use|allow|require|with|skip|generate|rotate|no)_.*|(?:old)?pwd|.*tokeniz.*"
    "|(?:.*_)?(?:public|partition|sort|primary|foreign|routing|cache|object|row|group|idempotency)_?keys?"
    "|google_application_credentials"
)
_ALWAYS = re.compile(".*(?:secret_id|webhook_?url|connection_?string|conn_?str)")

_REFERENCE = re.compile(r"(?:\$\([\w.-]+\))+")
_SHELL_REFERENCE = re.compile(r"\$\(.*|\$\{\w+\}|\$[A-Z_][A-Z0-9_]*", re.DOTALL)
_NO_SECRETS = frozenset({"", "true", "false", "yes", "no", "on", "off", "null", "none"})

_NAME = r"(?<![\w.-])(-{0,2}[A-Za-z_][\w.-]*+)"
_ASSIGNED = re.compile(_NAME + r"""(?:\\{0,4}["'])?+\s*+[=:](?!//)\s*+""")
_FLAG = re.compile(_NAME + r"[ \t]++(?=[^-\s=:|&;<>])")
_VALUE = re.compile(r"""(\\{0,4}["'])(.*?)(?:\1|\Z)|([^\s"'&;|]++)""", re.DOTALL)
_WHOLE_FLAG = re.compile("--?[A-Za-z][\\w.-]*")
_WHOLE_ASSIGNMENT = re.compile(r"(-{0,2}[A-Za-z_][\w.-]*)=(.*)", re.DOTALL)
_IN_URL = re.compile(r"""://[^\s/:@"']{0,256}+:(?!\d{1,5}[/?,])([^\s"']{1,256})@""")
_HEADER = re.compile(r"""(?i)authorization\\*["']?\s*+[:=]\s*+\\*["']?(?:[a-z]++[ ]++)?([^\s"'\\]++)""")
_KNOWN_FORMS = re.compile(
    r"-----BEGIN [A-Z ]*+PRIVATE KEY-----.*?(?:-----END [A-Z ]*+-----|\Z)"
    r"|\beyJ[\w-]{10,}+\.[\w-]{10,}+\.[\w-]*+"  # JSON Web Token
    r"|\bgh[pousr]_[A-Za-z0-9]{36,}+|\bgithub_pat_\w{20,}+|\bglpat-[\w-]{20,}+|\bxox[abeprs]-[A-Za-z0-9-]{10,}+"
    r"|(?i:\bbearer[ ]++)[\w.~+/=-]{8,}+"
    r"|(?<![a-z0-9.])[a-z0-9]{6}\.[a-z0-9]{16}(?![a-z0-9.])",  # bootstrap token
    re.DOTALL,
)


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Whether a variable, a flag or a member of this name is expected to hold a credential."""
    words = re.sub("[^a-z0-9]+", "_", name.lower()).strip("_")
    if _ALWAYS.fullmatch(words):
        return True
    if not _SECRET_WORDS.search(words) and not _SECRET_ENDS.search(words):
        return False
    return not _HARMLESS_ENDS.search(words) and not _HARMLESS.fullmatch(words)


def redacted_variable(name: str, value: str, digest: Digest) -> str:
    """The value of an environment variable, without its credentials."""
    if is_secret_name(name):
        if value.lower() in _NO_SECRETS or _REFERENCE.fullmatch(value):
            return value
        return digest("env", name, value)
    return redacted_text(value, digest, "env", name)


def redacted_arguments(arguments: Sequence[str], digest: Digest) -> list[str]:
    """The arguments of a command, without their credentials. A flag may have its value in the next argument."""
    left: list[str] = []
    flag = ""
    for argument in arguments:
        if flag and not argument.startswith("-"):
            left.append(argument if _is_harmless(argument) else digest("args", flag, argument))
            flag = ""
            continue
        flag = argument if _WHOLE_FLAG.fullmatch(argument) and is_secret_name(argument) else ""
        left.append(_redacted_argument(argument, digest))
    return left


def _redacted_argument(argument: str, digest: Digest) -> str:
    if len(argument) <= LONGEST_TEXT and (found := _WHOLE_ASSIGNMENT.fullmatch(argument)) is not None:
        name, value = found.groups()
        if is_secret_name(name):
            return argument if _is_harmless(value) else f"{name}={digest('args', name, value)}"
    return redacted_text(argument, digest, "args", "")


def redacted_text(text: str, digest: Digest, *where: str) -> str:
    """The text with a digest in place of each credential in it."""
    if len(text) > LONGEST_TEXT:
        return digest(*where, text)
    left: list[str] = []
    at = 0
    for start, stop in _joined(sorted(_credentials(text))):
        left += text[at:start], digest(*where, text[start:stop])
        at = stop
    return "".join((*left, text[at:])) if at else text


def _joined(spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Spans that touch become one."""
    last: tuple[int, int] | None = None
    for start, stop in spans:
        if last is not None and start <= last[1]:
            last = last[0], max(stop, last[1])
            continue
        if last is not None:
            yield last
        last = start, stop
    if last is not None:
        yield last


def _credentials(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each credential; two may overlap."""
    if ":" in text or "=" in text:
        yield from _named(_ASSIGNED, text)
        yield from (found.span(1) for found in _IN_URL.finditer(text))
        yield from (found.span(1) for found in _HEADER.finditer(text))
    if " " in text or "\t" in text:
        yield from _named(_FLAG, text)
    yield from (found.span() for found in _KNOWN_FORMS.finditer(text))


def _named(before: re.Pattern[str], text: str) -> Iterator[tuple[int, int]]:
    at = 0
    while (found := before.search(text, at)) is not None:
        at = found.end()
        if not is_secret_name(found[1]) or (before is _FLAG and not found[1].startswith("-")):
            continue
        value = _VALUE.match(text, at)
        if value is not None and not _is_harmless(value[2] or value[3] or ""):
            start, at = value.span(2) if value[1] else value.span(3)
            yield start, at


def _is_harmless(value: str) -> bool:
    return value.lower() in _NO_SECRETS or _SHELL_REFERENCE.fullmatch(value) is not None
