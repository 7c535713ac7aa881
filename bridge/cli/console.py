"""The rich console that the displays of ``demo`` and ``top`` draw on."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console

from bridge.cli.terminal import discard_output


class ScreenConsole(Console):
    """A console that ends quietly when the reader closes the pipe."""

    when_left: Callable[[], None] = staticmethod(lambda: None)

    def on_broken_pipe(self) -> None:
        self.quiet = True
        discard_output()
        self.when_left()
