"""The files of the page, in memory, with the headers of their answers.

The page is written by hand and has no build step: modules of plain JavaScript, and a vendored file for the chart. A
framework would bring a bundler, a second lock file and a second world of releases for one page; the price is that our
own code keeps and updates rows and nodes.
"""

from __future__ import annotations

import hashlib
from importlib.resources import files

from aiohttp import web

CONTENT_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        # Text that a tenant chose cannot become markup: the browser refuses innerHTML.
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": CONTENT_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Of every answer of the page."""

_INDEX = "index.html"
_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_ASK_AGAIN = "no-cache"
"""The browser asks whether its copy is current, so an upgraded bridge gets its own script."""
_FOR_EVER = "max-age=31536000, immutable"
_VERSIONED = "uplot-"
"""Begin of the names that have a version."""


class Asset:
    """A file of the page."""

    def __init__(self, name: str, body: bytes) -> None:
        self.path = "/" if name == _INDEX else f"/{name}"
        suffix = name[name.rindex(".") :]
        self._body = body
        self._tag = hashlib.sha256(body).hexdigest()[:16]
        self._headers = {
            "Content-Type": f"{_TYPES[suffix]}; charset=utf-8",
            "Cache-Control": _FOR_EVER if name.startswith(_VERSIONED) else _ASK_AGAIN,
            "ETag": f'"{self._tag}"',
        }

    async def answer(self, request: web.Request) -> web.Response:
        """304 for a client that has this content."""
        known = request.if_none_match or ()
        if any(each.value in (self._tag, "*") for each in known):
            return web.Response(status=304, headers=self._headers)
        return web.Response(body=self._body, headers=self._headers)


def load_assets() -> list[Asset]:
    """Reads the package's files; blocks for a moment."""
    folder = files("bridge.page") / "static"
    known = [each for each in folder.iterdir() if each.name.endswith(tuple(_TYPES))]
    return [Asset(each.name, each.read_bytes()) for each in sorted(known, key=lambda each: each.name)]
