"""The files of the page, and the headers of every answer."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from bridge.app.page.server import load_assets
from tests.bridge.app.page.page import APage

STATIC = files("bridge.app.page") / "static"
NAMES = sorted(each.name for each in STATIC.iterdir())


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/", "text/html"), ("/page.js", "text/javascript"), ("/page.css", "text/css"), ("/icon.svg", "image/svg+xml")],
)
async def test_a_file_has_its_type(open_page: APage, path: str, kind: str) -> None:
    status, text, headers = await open_page.ask("GET", path)

    assert (status, headers["Content-Type"]) == (200, f"{kind}; charset=utf-8")
    assert text


async def test_a_browser_asks_whether_its_copy_is_current(open_page: APage) -> None:
    _, _, headers = await open_page.ask("GET", "/page.js")
    assert headers["Cache-Control"] == "no-cache"

    status, text, again = await open_page.ask("GET", "/page.js", headers={"If-None-Match": headers["ETag"]})
    assert (status, text, again["ETag"]) == (304, "", headers["ETag"])
    assert (await open_page.ask("GET", "/page.js", headers={"If-None-Match": '"other"'}))[0] == 200


async def test_a_file_with_a_version_stays_in_the_cache(open_page: APage) -> None:
    versioned = [each.path for each in load_assets() if "uplot" in each.path]
    assert versioned
    for path in versioned:
        _, _, headers = await open_page.ask("GET", path)
        assert "immutable" in headers["Cache-Control"]


@pytest.mark.parametrize("path", ["/", "/page.js", "/v1/dead-letters", "/missing", "/v1/missing"])
async def test_every_answer_has_the_strict_policy(open_page: APage, path: str) -> None:
    _, _, headers = await open_page.ask("GET", path)

    policy = dict(part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["frame-ancestors"] == "'none'"
    assert {policy[each] for each in ("script-src", "style-src", "connect-src", "img-src")} == {"'self'"}
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"


async def test_the_stream_has_the_strict_policy(open_page: APage) -> None:
    async with open_page.looking() as viewer:
        assert viewer.answer.headers["Content-Security-Policy"].startswith("default-src 'none'")
        assert viewer.answer.headers["Cache-Control"] == "no-store"


async def test_data_stay_out_of_caches(open_page: APage) -> None:
    _, _, headers = await open_page.ask("GET", "/v1/dead-letters")
    assert headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("path", ["/../server.py", "/%2e%2e/server.py", "/static/page.js", "//page.js", "/LICENSE"])
async def test_no_other_file_is_served(open_page: APage, path: str) -> None:
    assert (await open_page.ask("GET", path))[0] in (403, 404)


@pytest.mark.parametrize("name", [each for each in NAMES if each.endswith((".js", ".html", ".css"))])
def test_files_name_no_other_origin_and_make_no_markup(name: str) -> None:
    text = (STATIC / name).read_text()
    if "uplot" in name:
        return  # Its comments name its home.
    others = set(re.findall(r"(?:https?:)?//[\w.-]+\.\w+", text)) - {"http://www.w3.org"}
    assert others == set()
    for forbidden in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "style=", "onclick="):
        assert forbidden not in text


def test_a_vendored_file_has_its_licence_beside_it() -> None:
    assert "MIT" in (STATIC / "uplot-LICENSE.txt").read_text()
