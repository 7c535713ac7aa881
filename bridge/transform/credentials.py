"""Finds credentials: by the name of a variable or a flag, and by the form of a text.

Texts are a tenant's, so every search is linear in them: no expression reads the same characters in two ways (its
repetitions are possessive, or bounded by few characters), and a loop goes on behind what it has read. A text beyond
``LONGEST_TEXT`` is not searched; it is redacted whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final, TypeAlias, TypeVar

T = TypeVar("T", str, bytes)
Digest: TypeAlias = Callable[..., str]
"""Makes the text in place of a value, from parts that say where the value stands, and the value."""

LONGEST_TEXT: Final = 32_768
"""Characters."""

# ── Names ────────────────────────────────────────────────────────────────────

_BETWEEN_WORDS = re.compile("[^a-z0-9]++")
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
_ALWAYS = re.compile("(?:secret_id|webhook_?url|connection_?string|conn_?str)$")

_LONGEST_REMEMBERED: Final = 128
"""Characters of a name, which a tenant chooses."""


def is_secret_name(name: str) -> bool:
    """Whether a variable, a flag or a member of this name is expected to hold a credential."""
    return _remembered(name) if len(name) <= _LONGEST_REMEMBERED else _judged(name)


def _judged(name: str) -> bool:
    words = _BETWEEN_WORDS.sub("_", name.lower()).strip("_")
    if _ALWAYS.search(words):
        return True
    if not _SECRET_WORDS.search(words) and not _SECRET_ENDS.search(words):
        return False
    return not _HARMLESS_ENDS.search(words) and not _HARMLESS.fullmatch(words)


_remembered = lru_cache(maxsize=4096)(_judged)

# ── Variables and arguments ──────────────────────────────────────────────────

_NO_SECRETS = frozenset({"", "true", "false", "yes", "no", "on", "off", "null", "none"})
_REFERENCE = re.compile(r"(?:\$\([\w.-]++\))++")
_SHELL_REFERENCE = re.compile(r"(?:\$\([\w.-]++\))++|\$\(.*\)|\$\{\w++\}|\$[A-Z_][A-Z0-9_]*+", re.DOTALL)
_WHOLE_FLAG = re.compile(r"--?[A-Za-z][\w.-]*+")
_WHOLE_ASSIGNMENT = re.compile(r"(-{0,2}[A-Za-z_][\w.-]*+)=(.*+)", re.DOTALL)
_MOST_HARMLESS: Final = 4096
_LONGEST_HARMLESS: Final = 4096
"""Bytes, or characters."""
LARGEST_HARMLESS: Final = 2 << 20
"""The same, of all texts together: whoever may write objects chooses them, and each resource has four such sets."""
_SHELL_ASSIGNMENT = re.compile(r"[A-Z_][A-Z0-9_]*+=\S++\s")
_BEFORE_SCRIPT = re.compile("-[a-z]{0,8}c")


def redacted_variable(name: str, value: str, digest: Digest) -> str:
    """The value of an environment variable, without its credentials."""
    if is_secret_name(name):
        if value.lower() in _NO_SECRETS or _REFERENCE.fullmatch(value):
            return value
        return digest("env", name, value)
    return redacted_text(value, digest, "env", name)


def redacted_setting(text: str, digest: Digest) -> str:
    """A variable as Docker writes it, ``NAME=value``, without its credentials."""
    name, equals, value = text.partition("=")
    return f"{name}={redacted_variable(name, value, digest)}" if equals else redacted_text(text, digest, "env", "")


class Harmless(set[T]):
    """Texts without credentials, which most updates of an object repeat. Bounded: few texts, none that is long, and no
    more than ``LARGEST_HARMLESS`` together."""

    size = 0

    def remember(self, text: T) -> None:
        if len(text) > _LONGEST_HARMLESS or text in self:
            return
        if len(self) >= _MOST_HARMLESS or self.size + len(text) > LARGEST_HARMLESS:
            self.clear()
            self.size = 0
        self.add(text)
        self.size += len(text)


def redacted_arguments(arguments: Sequence[str], digest: Digest, harmless: Harmless[str]) -> list[str]:
    """The arguments of a command, without their credentials. A flag may have its value in the next argument."""
    left: list[str] = []
    before, is_secret_flag = "", False
    for argument in arguments:
        if is_secret_flag and not argument.startswith("-"):
            is_reference = _is_harmless(argument)
            left.append(
                redacted_text(argument, digest, "args", "") if is_reference else digest("args", before, argument)
            )
            before, is_secret_flag = "", False
            continue
        if argument in harmless:
            left.append(argument)
            is_secret_flag = False
        else:
            left.append(_redacted_argument(argument, before, digest))
            is_secret_flag = _WHOLE_FLAG.fullmatch(argument) is not None and is_secret_name(argument)
            if not is_secret_flag and left[-1] == argument and not _names_secret(argument):
                harmless.remember(argument)  # Whatever stands in front of it.
        before = argument
    return left


def _names_secret(argument: str) -> bool:
    found = _WHOLE_ASSIGNMENT.fullmatch(argument)
    return found is not None and is_secret_name(found[1])


def _redacted_argument(argument: str, before: str, digest: Digest) -> str:
    # PASSWORD=x in front of a command ends at the blank. Behind a flag it is the flag's value, blanks included, unless
    # the flag is that of a shell whose script follows.
    is_script = not before.startswith("-") or _BEFORE_SCRIPT.fullmatch(before)
    if len(argument) > LONGEST_TEXT or (is_script and _SHELL_ASSIGNMENT.match(argument)):
        return redacted_text(argument, digest, "args", "")
    if (found := _WHOLE_ASSIGNMENT.fullmatch(argument)) is not None:
        name, value = found.groups()
        if is_secret_name(name) and not _is_harmless(value):
            return f"{name}={digest('args', name, value)}"
    return redacted_text(argument, digest, "args", "")


def _is_harmless(value: str) -> bool:
    return value.lower() in _NO_SECRETS or _SHELL_REFERENCE.fullmatch(value) is not None


# ── Texts ────────────────────────────────────────────────────────────────────

_ASSIGNED = re.compile(r"""(?<![\w.-])(-{0,2}[A-Za-z_][\w.-]*+)(?:\\{0,4}["'])?+\s*+[=:](?!//)\s*+""")
_FLAG = re.compile(r"(?<![\w.-])(-{1,2}[A-Za-z_][\w.-]*+)[ \t]++(?=[^-\s=:|&;<>])")
_OPENING = re.compile(r"""\\{0,4}["']""")
_UNQUOTED = re.compile(r"""[^\s"'&;|]*+""")
_SCHEME = re.compile(
    "(?:apikey|basic|bearer|digest|hmac|jwt|key|negotiate|ntlm|oauth|splunk|ssws|token)[ ]++", re.IGNORECASE
)
_OTHER_SCHEME = re.compile("[a-z]++[ ]++(?=[^\\s\"'\\\\&;|])", re.IGNORECASE)
_BLANK_OR_QUOTE = re.compile(r"""[\s"']""")
_USER = re.compile(r"""[^\s/:@"']*+:(?!\d{1,5}+[/?,])""")

_PEM = (
    r"(-{4,5} ?BEGIN (?:[A-Z0-9]{1,16} ){0,3}PRIVATE KEY(?: BLOCK)? ?-{4,5}"
    r".*?(?:-{4,5} ?END [A-Z0-9 ]{0,64}+-{4,5}|\Z))"
)
"""Of TLS, PGP and SSH. A key that is cut off reaches to the end of the text."""
_FORMS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (hint, re.compile(expression, re.DOTALL))
    for hint, expression in (
        ("BEGIN ", _PEM),
        # The same in base64, unless a certificate or a public key begins so.
        ("LS0tLS1CRUdJTi", r"(LS0tLS1CRUdJTi(?!BDRVJU|BQVUJMSUMg)[A-Za-z0-9+/]{16,}+=*+)"),
        ("eyJ", r"(?<![\w-])(eyJ[\w-]{10,}+\.[\w-]{10,}+\.[\w-]*+)"),  # JSON Web Token
        ("gh", r"\b(gh[pousr]_[A-Za-z0-9]{36,}+)"),
        ("github_pat_", r"\b(github_pat_\w{20,}+)"),
        ("glpat-", r"\b(glpat-[\w-]{20,}+)"),
        ("xox", r"\b(xox[abeprs]-[A-Za-z0-9-]{10,}+)"),
        (" ", r"(?i:\bbearer +)([\w.~+/=-]{8,}+)"),
        (".", r"(?<![a-z0-9.])([a-z0-9]{6}\.[a-z0-9]{16})(?!\.?[a-z0-9])"),  # bootstrap token
    )
)
"""A text that every credential of the form has in it, and the form. The group is what is replaced."""


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
        yield from _in_urls(text)
    if " " in text or "\t" in text:
        yield from _named(_FLAG, text)
    for hint, form in _FORMS:
        if hint in text:
            yield from (found.span(1) for found in form.finditer(text))


def _named(names: re.Pattern[str], text: str) -> Iterator[tuple[int, int]]:
    """The values behind names of credentials."""
    at = 0
    while (found := names.search(text, at)) is not None:
        at = found.end()
        if not is_secret_name(found[1]):
            continue
        opening = _OPENING.match(text, at)
        start = opening.end() if opening is not None else at
        if text.startswith("$(", start) and _REFERENCE.match(text, start) is None:
            at = start + 2  # Within a command, further names may stand.
            continue
        at, value_start = _value_end(text, start, opening), start
        if found[1].lower().endswith("authorization"):
            value_start, at = _behind_scheme(text, start, at)
        if not _is_harmless(text[value_start:at]):
            yield value_start, at


def _value_end(text: str, start: int, opening: re.Match[str] | None) -> int:
    if opening is not None:
        end = text.find(opening[0], start)
        return end if end >= 0 else len(text)
    unquoted = _UNQUOTED.match(text, start)
    return start if unquoted is None else unquoted.end()


def _behind_scheme(text: str, start: int, end: int) -> tuple[int, int]:
    """The credential in an Authorization header. A word that is not known as a scheme may be one, or the credential:
    both it and the next word are taken."""
    scheme = _SCHEME.match(text, start)
    if scheme is not None:
        return scheme.end(), max(end, _value_end(text, scheme.end(), None))
    other = _OTHER_SCHEME.match(text, start)
    return start, end if other is None else max(end, _value_end(text, other.end(), None))


def _in_urls(text: str) -> Iterator[tuple[int, int]]:
    """The passwords in ``scheme://user:password@host``. A URL ends at a blank, a quote, or where the next begins."""
    end = 0
    at = text.find("://")
    while at >= 0:
        following = text.find("://", at + 3)
        if at >= end:
            blank = _BLANK_OR_QUOTE.search(text, at)
            end = len(text) if blank is None else blank.start()
        stop = end if following < 0 else min(end, following)
        user = _USER.match(text, at + 3, stop)
        if user is not None and (sign := text.rfind("@", user.end(), stop)) > user.end():
            yield user.end(), sign
        at = following
