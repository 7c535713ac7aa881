"""Defines the errors of this room. Lists and watches do not raise: their failures are answers."""

from __future__ import annotations

from bridge.model.answers import ErrorAnswer


class CredentialsError(Exception):
    """No connection or no usable credentials are configured. The message names the file, context or user and the
    remedy; it never holds a token."""


class ApiError(Exception):
    """A request failed; ``answer`` is the classified failure."""

    def __init__(self, asked: str, answer: ErrorAnswer) -> None:
        super().__init__(f"{asked}: {answer.reason}")
        self.answer = answer
