"""Makes the API's errors, and encodes JSON as the real server does.

Errors are Status objects, made as in apimachinery's ``api/errors``. JSON is written as Go writes it: characters with a
meaning in HTML and JavaScript are escaped (``encoding/json``, SetEscapeHTML).
"""

from __future__ import annotations

from typing import Any

import msgspec

# ── Errors ───────────────────────────────────────────────────────────────────


class StatusError(Exception):
    """A failure that is answered with a Status. ``code`` is the HTTP status."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: dict[str, Any] | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.details = details
        self.retry_after = retry_after
        """Seconds, for the Retry-After header."""

    def status(self) -> dict[str, Any]:
        """The Status object."""
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": str(self),
            **({"reason": self.reason} if self.reason else {}),
            **({} if self.details is None else {"details": self.details}),
            "code": self.code,
        }

    def body(self) -> bytes:
        return encode(self.status()) + b"\n"


class PathNotFound(Exception):
    """A path outside of the API, which the real server answers in plain text."""


def details(group: str, plural: str, name: str = "", **more: Any) -> dict[str, Any]:
    """The ``details`` of a Status. Empty members are left out."""
    named = {"name": name, "group": group, "kind": plural}
    return {key: value for key, value in named.items() if value} | more


def qualified(group: str, plural: str) -> str:
    return f"{plural}.{group}" if group else plural


def bad_request(message: str) -> StatusError:
    return StatusError(400, "BadRequest", message)


def unauthorized() -> StatusError:
    return StatusError(401, "Unauthorized", "Unauthorized")


def forbidden(user: str, verb: str, group: str, plural: str, namespace: str, name: str) -> StatusError:
    where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    thing = f'{qualified(group, plural)} "{name}"' if name else qualified(group, plural)
    message = f'{thing} is forbidden: User "{user}" cannot {verb} resource "{plural}" in API group "{group}" {where}'
    return StatusError(403, "Forbidden", message, details(group, plural, name))


def resource_not_found() -> StatusError:
    return StatusError(404, "NotFound", "the server could not find the requested resource", {})


def not_found(group: str, plural: str, name: str) -> StatusError:
    return StatusError(404, "NotFound", f'{qualified(group, plural)} "{name}" not found', details(group, plural, name))


def method_not_allowed() -> StatusError:
    message = "the server does not allow this method on the requested resource"
    return StatusError(405, "MethodNotAllowed", message, {})


def not_acceptable(about: dict[str, Any] | None) -> StatusError:
    message = "406: Not Acceptable\n\nAvailable representations: application/json"
    return StatusError(406, "NotAcceptable", message, about)


def already_exists(group: str, plural: str, name: str) -> StatusError:
    message = f'{qualified(group, plural)} "{name}" already exists'
    return StatusError(409, "AlreadyExists", message, details(group, plural, name))


def conflict(group: str, plural: str, name: str, why: str = "") -> StatusError:
    why = why or "the object has been modified; please apply your changes to the latest version and try again"
    message = f'Operation cannot be fulfilled on {qualified(group, plural)} "{name}": {why}'
    return StatusError(409, "Conflict", message, details(group, plural, name))


def expired(message: str, next_page: str = "") -> StatusError:
    """410. ``next_page`` is a continue token for the inconsistent remainder of the list."""
    return ContinueExpired(message, next_page) if next_page else StatusError(410, "Expired", message)


class ContinueExpired(StatusError):
    """410 to a continue token. Its Status has a new token, which continues the list with the current objects."""

    def __init__(self, message: str, next_page: str) -> None:
        super().__init__(410, "Expired", message)
        self._next_page = next_page

    def status(self) -> dict[str, Any]:
        return super().status() | {"metadata": {"continue": self._next_page}}


def too_large(limit: int) -> StatusError:
    """413; ``limit`` in bytes."""
    return StatusError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit}")


def unsupported_media_type(accepted: str) -> StatusError:
    message = f"the body of the request was in an unknown format - accepted media types include: {accepted}"
    return StatusError(415, "UnsupportedMediaType", message)


def invalid(group: str, kind: str, name: str, causes: list[tuple[str, str, str]]) -> StatusError:
    """422. A cause is (reason, message, field)."""
    lines = [f"{field}: {message}" for _, message, field in causes]
    thing = f"{kind}.{group}" if group else kind
    message = f'{thing} "{name}" is invalid: {lines[0] if len(lines) == 1 else "[" + ", ".join(lines) + "]"}'
    found = [{"reason": reason, "message": said, "field": field} for reason, said, field in causes]
    return StatusError(422, "Invalid", message, details(group, kind, name, causes=found))


def version_too_large(asked: int, current: int) -> StatusError:
    """504 with a cause, from which clients see that the version is wrong and the server healthy."""
    message = f"Timeout: Too large resource version: {asked}, current: {current}"
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    return StatusError(504, "Timeout", message, {"causes": causes, "retryAfterSeconds": 1}, 1)


# ── JSON ─────────────────────────────────────────────────────────────────────

_plain = msgspec.json.Encoder()
_sorted = msgspec.json.Encoder(order="sorted")
_ESCAPES = (
    (b"<", b"\\u003c"),
    (b">", b"\\u003e"),
    (b"&", b"\\u0026"),
    ("\u2028".encode(), b"\\u2028"),
    ("\u2029".encode(), b"\\u2029"),
)


def encode(value: Any, *, sort: bool = False) -> bytes:
    """Compact JSON; with ``sort``, the members of every object are sorted by name, as Go writes maps."""
    text = (_sorted if sort else _plain).encode(value)
    # These bytes occur only inside of strings, so a plain replacement is safe.
    for found, escaped in _ESCAPES:
        if found in text:
            text = text.replace(found, escaped)
    return text


def decode(text: bytes) -> Any:
    """Raises msgspec.DecodeError."""
    return msgspec.json.decode(text)
