"""Chromium, driven through its DevTools by playwright, with a watch on everything that it does."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
"""Debian's, and others that speak the same protocol."""


def program() -> str | None:
    return next((found for name in PROGRAMS if (found := shutil.which(name))), None)


def missing() -> str:
    """What the tests lack, in words; empty if they can run."""
    try:
        import playwright  # noqa: F401
    except ImportError:
        return "`make test-page` installs playwright"
    return "" if program() else "`make test-page` installs chromium"


class Watched:
    """A page in the browser, and all that a stranger could notice: requests, messages on the console, errors."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.requests: list[str] = []
        self.complaints: list[str] = []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("console", self._listen)
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))

    def _listen(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text}")

    @property
    def origins(self) -> set[str]:
        return {f"{urlsplit(url).scheme}://{urlsplit(url).netloc}" for url in self.requests}


@asynccontextmanager
async def opened(url: str, **context: Any) -> AsyncIterator[Watched]:
    """A new browser, without a profile, on this page. ``context``: options of playwright's ``new_context``."""
    from playwright.async_api import async_playwright

    async with async_playwright() as driver:
        # Its sandbox needs a user namespace, or another user than root. It opens only our own page.
        options = ["--no-sandbox", "--disable-background-networking", "--disable-component-update", "--no-first-run"]
        browser = await driver.chromium.launch(executable_path=program(), args=options)
        try:
            made = await browser.new_context(**context)
            watched = Watched(await made.new_page())
            await watched.page.goto(url)
            yield watched
        finally:
            await browser.close()
