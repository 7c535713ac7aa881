"""Who may look at the page, and who may change something."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from yarl import URL

from bridge.app.page.server import OFFERED
from bridge.telemetry.facts.process import OperatorCommand, PageTokenRefused
from tests.bridge.app.page.page import BEARER, APage, a_page
from tests.kit.fake_admin import a_dead_letter

PAUSE = json.dumps({"sink": "hook"})
RETRY = json.dumps({"sink": "hook", "numbers": [1]})


async def test_without_a_token_the_page_changes_nothing(open_page: APage) -> None:
    status, text, _ = await open_page.ask("POST", "/v1/sinks/pause", data=PAUSE)

    assert (status, text) == (403, "the page is read-only: page.token_file is not set\n")
    assert open_page.admin.asked == []


async def test_without_a_token_everyone_on_the_machine_may_look(open_page: APage) -> None:
    status, text, _ = await open_page.ask("GET", "/v1/dead-letters")
    assert (status, json.loads(text)) == (200, [])


@pytest.mark.parametrize("headers", [{}, {"Host": "localhost"}, {"Connection": "close"}], ids=str)
async def test_with_a_token_nobody_is_taken_for_local(page: APage, headers: Mapping[str, str]) -> None:
    """A proxy on this machine connects from the loopback, and may say nothing about itself."""
    for method, path in (("GET", "/v1/dead-letters"), ("GET", "/v1/events"), ("POST", "/v1/sinks/pause")):
        status, text, answer = await page.ask(method, path, data=PAUSE, headers=headers)
        assert (status, text) == (401, "the token of page.token_file is needed\n")
        assert answer["WWW-Authenticate"].startswith("Bearer")
    assert page.admin.asked == []
    assert (await page.ask("GET", "/"))[0] == 200, "the files have no data, and ask for the token"


async def test_the_token_allows_changes(page: APage) -> None:
    page.admin.stored = [a_dead_letter(1)]

    status, text, _ = await page.ask("POST", "/v1/dead-letters/retry", data=RETRY, headers=BEARER)

    assert (status, json.loads(text)) == (200, {"count": 1})
    assert page.admin.asked == [("retry", "hook", [1])]


@pytest.mark.parametrize("given", ["", "Bearer", "Bearer wrong", "Basic a-token-of-twenty-nine-letters", "Bearer \xff"])
@pytest.mark.parametrize(("method", "path"), [("GET", "/v1/dead-letters"), ("POST", "/v1/sinks/pause")])
async def test_a_wrong_token_is_refused(page: APage, method: str, path: str, given: str) -> None:
    status, text, headers = await page.ask(method, path, data=PAUSE, headers={"Authorization": given})

    assert (status, text) == (401, "wrong token\n")
    assert headers["WWW-Authenticate"].startswith("Bearer")
    assert page.facts[-1] == PageTokenRefused("127.0.0.1")
    assert page.admin.asked == []


async def test_wrong_tokens_never_lock_out_the_right_one(page: APage) -> None:
    wrong = {"Authorization": "Bearer wrong"}
    answers = [await page.ask("GET", "/v1/dead-letters", headers=each) for each in [*[wrong] * 11, BEARER, wrong]]

    assert [status for status, _, _ in answers] == [401] * 10 + [429, 200, 429]
    assert 0 < int(answers[-1][2]["Retry-After"]) <= 60
    assert len([each for each in page.facts if isinstance(each, PageTokenRefused)]) == 10


async def test_a_renewed_token_counts_at_once(page: APage, token_file: Path) -> None:
    token_file.write_text("another-token-of-many-letters")  # noqa: ASYNC240

    assert (await page.ask("GET", "/v1/dead-letters", headers=BEARER))[0] == 401
    renewed = {"Authorization": "Bearer another-token-of-many-letters"}
    assert (await page.ask("GET", "/v1/dead-letters", headers=renewed))[0] == 200


async def test_beyond_loopback_all_data_need_the_token(token_file: Path) -> None:
    async with a_page(token=token_file, host="0.0.0.0") as page:
        assert (await page.ask("GET", "/v1/dead-letters"))[0] == 401
        assert (await page.ask("GET", "/v1/events"))[0] == 401
        assert (await page.ask("GET", "/v1/dead-letters", headers=BEARER))[0] == 200
        assert (await page.ask("GET", "/"))[0] == 200  # It has no data, and asks for the token.


@pytest.mark.parametrize(
    "path", ["/v1/dead%2Dletters", "/%761/dead-letters", "//v1/dead-letters", "/v1/./dead-letters"]
)
async def test_no_spelling_of_a_path_avoids_the_token(token_file: Path, path: str) -> None:
    async with a_page(token=token_file, host="0.0.0.0") as page:
        url = URL(f"http://127.0.0.1:{page.server.port}{path}", encoded=True)
        async with page.client.get(url) as answer:
            assert answer.status == 401


async def test_without_a_token_a_proxy_that_says_so_gets_nothing(open_page: APage) -> None:
    for name in ("X-Forwarded-For", "X-Real-IP", "Via", "Forwarded"):
        status, text, _ = await open_page.ask("GET", "/v1/dead-letters", headers={name: "203.0.113.7"})
        assert (status, text) == (403, "through a proxy the page needs page.token_file, which is not set\n")


@pytest.mark.parametrize("path", ["/", "/page.js", "/v1/dead-letters", "/v1/events"])
async def test_a_foreign_host_is_refused_on_loopback(open_page: APage, path: str) -> None:
    status, text, _ = await open_page.ask("GET", path, headers={"Host": "rebound.example:8081"})

    assert (status, text) == (421, "this server answers to localhost alone\n")


@pytest.mark.parametrize(
    "marks",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://["},
        {"Origin": "http://[::1"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
async def test_requests_of_other_sites_are_refused(page: APage, marks: Mapping[str, str]) -> None:
    for method, path in (("GET", "/v1/events"), ("POST", "/v1/sinks/pause")):
        status, _, headers = await page.ask(method, path, data=PAUSE, headers=BEARER | dict(marks))
        assert status == 403
        assert "Access-Control-Allow-Origin" not in headers
    assert page.admin.asked == []


async def test_requests_of_the_page_itself_are_answered(page: APage) -> None:
    own = {"Origin": f"http://127.0.0.1:{page.server.port}", "Sec-Fetch-Site": "same-origin"}

    assert (await page.ask("POST", "/v1/sinks/pause", data=PAUSE, headers=BEARER | own))[0] == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/dead-letters/drop"),
        ("POST", "/v1/reload"),
        ("GET", "/v1/state"),
        ("GET", "/v1/"),
        ("GET", "/v1/missing"),
        ("DELETE", "/v1/dead-letters"),
    ],
)
async def test_other_commands_are_not_offered(page: APage, method: str, path: str) -> None:
    status, _, _ = await page.ask(method, path, data="{}", headers=BEARER)

    assert status == 404
    assert page.admin.asked == []


def test_few_changes_are_offered() -> None:
    changes = {each for each in OFFERED if each.startswith("POST")}
    assert changes == {
        "POST /v1/dead-letters/retry",
        "POST /v1/replay",
        "POST /v1/sinks/pause",
        "POST /v1/sinks/resume",
        "POST /v1/sinks/retry",
        "POST /v1/snapshots",
        "POST /v1/snapshots/cancel",
    }


async def test_a_change_is_reported_with_its_client(page: APage) -> None:
    await page.ask("POST", "/v1/sinks/pause", data=PAUSE, headers=BEARER)
    await page.ask("POST", "/v1/sinks/pause", data=json.dumps({"sink": "other"}), headers=BEARER)
    await page.ask("GET", "/v1/dead-letters")

    commands = [fact for fact in page.facts if isinstance(fact, OperatorCommand)]
    assert [(each.command, each.done, each.client) for each in commands] == [
        ("sinks pause hook", True, "127.0.0.1"),
        ("sinks pause other", False, "127.0.0.1"),
    ]


@pytest.mark.parametrize("body", ["", "{", '{"sink": 7}', '{"sink": "hook", "more": 1}'])
async def test_a_malformed_change_is_refused(page: APage, body: str) -> None:
    status, _, _ = await page.ask("POST", "/v1/sinks/pause", data=body, headers=BEARER)

    assert status == 400
    assert page.admin.asked == []


async def test_no_answer_repeats_the_token(page: APage) -> None:
    answers: list[Any] = [
        await page.ask("POST", "/v1/sinks/pause", data=PAUSE, headers=BEARER),
        await page.ask("POST", "/v1/sinks/pause", data="{", headers=BEARER),
        await page.ask("GET", "/v1/missing", headers=BEARER),
    ]
    assert "a-token-of" not in repr(answers) + repr(page.facts)


async def test_the_page_gets_the_first_part_of_a_large_body(page: APage) -> None:
    """Answers that nobody reads stay in memory for a while."""
    page.admin.bodies[1] = b"x" * (1 << 20)

    status, text, _ = await page.ask("GET", "/v1/dead-letters/1/object", headers=BEARER)

    assert (status, len(text)) == (200, 256 * 1024)
