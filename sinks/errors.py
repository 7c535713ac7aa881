"""Errors that a sink raises: the destination is unavailable, the Lease may be over, or an option cannot be used."""

from __future__ import annotations

from collections.abc import Callable, Iterable


class SinkUnavailable(Exception):
    """The destination cannot be reached, or takes no records now; both may change later. The message tells the operator
    where to look, and holds no secret."""

    fenced = False
    """See ``RetryLater``, as for the next."""
    doubted = False


class NotLeading(SinkUnavailable):
    """``may_send`` said no (see ``AsksToSend``), so a request was not begun. Its records are pending, and withheld."""


class WrongOption(SinkUnavailable):
    """An option cannot be used: its value, or the file that it names.

    Raised before the bridge runs (``SinkType.examine``), this is a mistake in the configuration. Raised later, the
    bridge waits and tries again, as for every SinkUnavailable: the file may be renewed.
    """

    def __init__(self, option: str, reason: str) -> None:
        super().__init__(f"{option}: {reason}")
        self.option = option
        """The path of the option below its sink, such as ``ca_file`` or ``properties.linger.ms``."""
        self.reason = reason


def wrong_options(steps: Iterable[Callable[[], object]]) -> list[WrongOption]:
    """Runs every step and returns the WrongOption that each raised."""
    found = []
    for step in steps:
        try:
            step()
        except WrongOption as wrong:
            found.append(wrong)
    return found
