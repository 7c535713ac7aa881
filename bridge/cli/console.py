"""The rich console that the displays of ``demo`` and ``top`` draw on."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console

from bridge.cli.terminal import discard_output


class ScreenConsole(Console):
    """A console that ends quietly when the reader closes the pipe."""

    def __init__(self, when_left: Callable[[], None] | None = None) -> None:
        """``when_left``: is called when the reader has closed the pipe."""
        super().__init__(highlight=False)
        self._when_left = when_left

    def on_broken_pipe(self) -> None:
        self.quiet = True
        discard_output()
        if self._when_left is not None:
            self._when_left()
