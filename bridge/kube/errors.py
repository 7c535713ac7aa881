"""What this room raises. Lists and watches raise nothing: their troubles are answers."""

from __future__ import annotations

from bridge.model.answers import Trouble


class CredentialsError(Exception):
    """The way to the API server, or the right to use it, could not be had. The message names the file, context or
    user, and what to do; it never holds a token."""


class ApiError(Exception):
    """The API server did not answer a request as asked; ``answer`` says what there is to do about it."""

    def __init__(self, asked: str, answer: Trouble) -> None:
        super().__init__(f"{asked}: {answer.reason}")
        self.answer = answer
