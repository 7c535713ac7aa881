"""The page in a real Chromium, on a real bridge: what operators do there, with a mouse, on a phone, by keyboard."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic_ns as now
from typing import Any

import httpx
import pytest

from tests.browser.chromium import Watched, missing, opened
from tests.browser.scene import EVIL, REFUSED, TOKEN, Scene, a_scene
from tests.cluster.servers.ports import reserve_port
from tests.kit.deadlines import BUSY, until

pytestmark = [pytest.mark.browser, pytest.mark.skipif(bool(missing()), reason=missing())]

DESKTOP = {"viewport": {"width": 1280, "height": 900}}
PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    async with a_scene(tmp_path) as running:
        yield running


@asynccontextmanager
async def looking(scene: Scene, **context: Any) -> AsyncIterator[Watched]:
    """Ends with the promises of every visit: no request leaves the origin, and no complaint is on the console."""
    async with opened(scene.url, **(context or DESKTOP)) as watched:
        watched.page.set_default_timeout(15_000 * BUSY)
        await unlock(watched)
        yield watched
        assert watched.origins == {scene.url.rstrip("/")}
        assert watched.complaints == []


async def seen(watched: Watched, selector: str, text: str) -> None:
    """Returns when the element has this text in it."""
    await watched.page.locator(selector, has_text=text).first.wait_for()


async def unlock(watched: Watched) -> None:
    """The page asks for the token before it shows or offers anything."""
    await watched.page.locator("#token-dialog[open]").wait_for()
    await seen(watched, "#link", "locked")
    await watched.page.fill("#token-input", TOKEN)
    await watched.page.keyboard.press("Enter")
    await seen(watched, "#lock", "Unlocked")
    await seen(watched, "#link", "live")
    [complaint] = watched.complaints  # Of the browser: the answer that asked for the token.
    assert "401" in complaint
    watched.complaints.clear()


async def pictured(watched: Watched, part: str) -> None:
    """Returns when the description of some node has this part."""
    await watched.page.locator(f"#picture [aria-label*='{part}']").first.wait_for()


async def test_the_picture_follows_the_pipeline(scene: Scene) -> None:
    async with looking(scene) as watched:
        await seen(watched, "#ready", "ready")
        await pictured(watched, "configmaps: live")
        await pictured(watched, "0 objects")
        for number in range(3):
            scene.create(f"settings-{number}")
        await pictured(watched, "3 objects")
        await watched.page.locator(".edges path:not(.still)").first.wait_for(state="attached")
        await watched.page.locator("#sink-rows tr", has_text="hook").first.wait_for()


async def test_a_dead_letter_is_read_and_retried(scene: Scene) -> None:
    scene.create(REFUSED, "shop", note=EVIL)
    async with looking(scene) as watched:
        await seen(watched, "#letters-count", "1")
        row = watched.page.locator("#letter-rows tr", has_text=REFUSED)
        assert "413" in await row.inner_text()

        await row.get_by_role("button", name="Body").click()
        await seen(watched, "#body-facts", f"sequence number {await sequence_of(scene)}")
        await seen(watched, "#body-text", EVIL)  # As text: a complaint of the console would be an image.
        await watched.page.keyboard.press("Escape")

        scene.accepts = True
        await row.get_by_role("button", name="Retry").click()
        await seen(watched, ".toast", "is tried again")
        await watched.page.locator("#letters-none").wait_for()
    assert scene.receiver.accepted


async def sequence_of(scene: Scene) -> int:
    """The only dead letter's."""
    [letter] = (await asked(scene, "GET", "dead-letters")).json()
    return int(letter["sequence"])


async def asked(scene: Scene, method: str, path: str, **body: Any) -> httpx.Response:
    """By another client than the browser."""
    async with httpx.AsyncClient(base_url=f"{scene.url}v1/", headers={"Authorization": f"Bearer {TOKEN}"}) as client:
        answer = await client.request(method, path, json=body or None)
        return answer.raise_for_status()


async def test_a_large_body_is_cut_and_says_so(scene: Scene) -> None:
    scene.create(REFUSED, "shop", note="x" * 300_000)
    async with looking(scene) as watched:
        await watched.page.locator("#letter-rows tr").get_by_role("button", name="Body").click()
        await seen(watched, "#body-text", "… only the first 256 KiB are shown")


async def test_dead_letters_are_live(scene: Scene) -> None:
    async with looking(scene) as watched:
        rows = watched.page.locator("#letter-rows tr")
        await watched.page.locator("#letters-none").wait_for()
        for number in range(3):
            scene.create(f"{REFUSED}-{number}")
            await rows.nth(number).wait_for()
        await rows.nth(1).get_by_role("button", name="Body").focus()
        scene.create(f"{REFUSED}-3")
        await rows.nth(3).wait_for()
        focused = await watched.page.evaluate("document.activeElement.getAttribute('aria-label')")
        assert focused == f"Body of configmaps default/{REFUSED}-1", "a row stays while its dead letter does"
        scene.accepts = True
        await asked(scene, "POST", "dead-letters/retry", sink="hook", numbers=None)
        await watched.page.locator("#letters-none").wait_for()


async def test_parked_records_are_a_number_in_the_row_of_the_rejected(scene: Scene) -> None:
    scene.create(REFUSED, "shop")
    for number in range(60):
        scene.update(REFUSED, "shop", n=str(number))
    async with looking(scene) as watched:
        await seen(watched, "#letters-count", "61")
        await seen(watched, "#letter-rows .mark", "1 rejected, 60 parked")
        assert await watched.page.locator("#letter-rows tr").count() == 1


async def test_a_failing_sink_is_in_the_header_and_in_the_title(tmp_path: Path) -> None:
    away = {"type": "webhook", "url": f"http://127.0.0.1:{reserve_port()}"}
    archive = {"type": "file", "path": str(tmp_path / "archive")}
    async with a_scene(tmp_path, pager=away, archive=archive) as scene, looking(scene) as watched:
        await seen(watched, "#ready", "ready")
        await watched.page.wait_for_function("document.title === 'kubedelta · playground'")
        scene.create("settings")
        await seen(watched, "#ready[data-mood=bad]", "1 sink failing")
        await watched.page.wait_for_function("document.title === '1 sink failing · kubedelta · playground'")


async def test_a_phone_shows_many_dead_letters_on_few_screens(scene: Scene) -> None:
    for number in range(61):
        scene.create(f"{REFUSED}-{number}", "shop")
    async with looking(scene, **PHONE) as watched:
        await seen(watched, "#letters-count", "61")
        await watched.page.locator("#letter-rows tr").nth(9).wait_for()
        assert await watched.page.evaluate("document.documentElement.scrollHeight") < 5 * PHONE["viewport"]["height"]
        await watched.page.click("#letters-more")
        await watched.page.locator("#letter-rows tr").nth(19).wait_for()


async def test_the_tail_is_paused_and_filtered(scene: Scene) -> None:
    async with looking(scene) as watched:
        page = watched.page
        lines = page.locator("#tail-lines li")
        await page.click("#tail-start")
        await seen(watched, "#tail-note", "Running")
        scene.create("first", note="x")
        async with asyncio.timeout(30 * BUSY):
            while not await lines.count():
                # The tail is in effect some moments after its button says so.
                scene.cluster.patch("configmaps", "first", {"data": {"at": str(now())}}, namespace="default")
                await page.wait_for_timeout(200)
        await seen(watched, "#tail-lines li", "default/first")

        await page.click("#tail-pause")
        shown = await lines.count()
        scene.create("second")
        await seen(watched, "#tail-pause", "new)")
        assert await lines.count() == shown
        await page.click("#tail-pause")
        await seen(watched, "#tail-lines li", "default/second")

        await page.fill("#tail-namespace", "shop")
        await page.locator("#link", has_text="live").wait_for()
        async with asyncio.timeout(30 * BUSY):
            number = 0
            while not await page.locator("#tail-lines li", has_text="shop/").count():
                # The filter is in effect some moments after the last letter.
                number += 1
                scene.create(f"other-{number}")
                scene.create(f"wanted-{number}", "shop")
                await page.wait_for_timeout(200)

        await page.click("#tail-lines summary >> nth=0")
        await seen(watched, "#tail-lines pre", '"kind": "ConfigMap"')
        await page.click("#tail-start")
        await seen(watched, "#tail-note", "Stopped")


async def test_the_tail_shows_digests_of_secrets(tmp_path: Path) -> None:
    async with a_scene(tmp_path, resources=["secrets"]) as scene, looking(scene) as watched:
        await watched.page.click("#tail-start")
        await seen(watched, "#tail-note", "Running")
        secret = {"metadata": {"name": "database", "namespace": "shop"}, "data": {"password": "aHVudGVyMg=="}}
        scene.cluster.create("secrets", secret)
        async with asyncio.timeout(30 * BUSY):
            while not await watched.page.locator("#tail-lines summary").count():
                # The tail is in effect some moments after its button says so.
                scene.cluster.patch(
                    "secrets", "database", {"metadata": {"labels": {"at": str(now())}}}, namespace="shop"
                )
                await watched.page.wait_for_timeout(200)
        await watched.page.locator("#tail-lines summary").first.click()
        await seen(watched, "#tail-lines pre", '"password": "')
        assert "aHVudGVyMg==" not in await watched.page.content()


async def test_a_replay_begins_from_the_page(scene: Scene) -> None:
    for number in range(3):
        scene.create(f"settings-{number}")
    async with looking(scene) as watched:
        await pictured(watched, "3 objects")
        await scene.bridge.until_delivered("hook")
        before = len(scene.receiver.events)
        await watched.page.get_by_role("button", name="Replay to hook").click()
        await seen(watched, "#replay-range", "1 to 3")
        await watched.page.fill("#replay-number", "2")
        await watched.page.locator("#replay-form button[type=submit]").click()
        await seen(watched, ".toast", "2 records (2 to 3) will go to hook again")
        await until(lambda: len(scene.receiver.events) == before + 2)


async def test_a_snapshot_begins_from_the_page(scene: Scene) -> None:
    for number in range(3):
        scene.create(f"settings-{number}", "shop" if number else "default")
    async with looking(scene) as watched:
        await pictured(watched, "3 objects")
        await scene.bridge.until_delivered("hook")
        before = len(scene.receiver.events)
        await watched.page.get_by_role("button", name="Send a snapshot to hook").click()
        await watched.page.fill("#snapshot-where", "object.")
        await watched.page.keyboard.press("Enter")
        await watched.page.locator("#snapshot-error:not(:empty)").wait_for()
        await watched.page.fill("#snapshot-where", "")
        await watched.page.fill("#snapshot-namespace", "shop")
        await watched.page.keyboard.press("Enter")
        await seen(watched, ".toast", "2 objects will go to hook once more")
        await until(lambda: len(scene.receiver.events) == before + 4)  # With its begin and its end.
        watched.complaints.clear()  # The refusal of the condition.


async def test_a_sink_is_paused_and_resumed(scene: Scene) -> None:
    async with looking(scene) as watched:
        await watched.page.get_by_role("button", name="Pause hook").click()
        await watched.page.click("#sure-yes")
        await seen(watched, "#sink-rows", "paused")
        scene.create("waits")
        await pictured(watched, "backlog 1")
        await watched.page.get_by_role("button", name="Resume hook").click()
        await pictured(watched, "backlog 0")
    assert scene.bridge.logged("operator", "sinks pause hook", "127.0.0.1")


async def test_a_wrong_token_is_refused(scene: Scene) -> None:
    async with opened(scene.url, **DESKTOP) as watched:
        await watched.page.locator("#token-dialog[open]").wait_for()
        await watched.page.fill("#token-input", "a-wrong-token-of-many-letters")
        await watched.page.keyboard.press("Enter")
        await seen(watched, "#token-error", "refuses this token")
        await watched.page.keyboard.press("Escape")
        await seen(watched, "#lock", "Enter token")
        kept = await watched.page.evaluate("JSON.stringify([sessionStorage, localStorage, document.cookie])")
        assert json.loads(kept) == [{}, {}, ""]
        assert all("401" in each for each in watched.complaints)


async def test_without_a_token_the_page_is_read_only(tmp_path: Path) -> None:
    async with a_scene(tmp_path, token=False) as scene, opened(scene.url, **DESKTOP) as watched:
        await seen(watched, "#link", "live")
        await seen(watched, "#lock", "Read-only")
        await watched.page.locator("#sink-rows tr", has_text="hook").first.wait_for()
        assert await watched.page.locator("#sink-rows button:visible").count() == 0
        assert watched.complaints == []


async def test_the_page_is_used_by_keyboard_alone(scene: Scene) -> None:
    scene.create(REFUSED, "shop")
    async with looking(scene) as watched:
        page = watched.page
        await seen(watched, "#letters-count", "1")
        await seen(watched, "#letter-rows", REFUSED)

        async def focused() -> str:
            return str(
                await page.evaluate(
                    "document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent"
                )
            )

        await page.keyboard.press("Tab")
        assert "Skip" in await focused()
        async with asyncio.timeout(30 * BUSY):
            while not (await focused()).startswith("hook, webhook"):
                await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")  # The sink in the picture leads to its row.
        assert await page.evaluate("document.activeElement.closest('#sink-rows') !== null")
        async with asyncio.timeout(30 * BUSY):
            while not (await focused()).startswith("Retry configmaps"):
                await page.keyboard.press("Tab")
        scene.accepts = True
        await page.keyboard.press("Enter")
        await page.locator("#letters-none").wait_for()


FLAWS = (Path(__file__).parent / "flaws.js").read_text()
"""Names, labels, contrast of 4.5, and no sideways scrolling: the part of WCAG that a script can judge."""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("device", [DESKTOP, PHONE], ids=["desktop", "phone"])
async def test_everyone_can_read_it(scene: Scene, device: dict[str, Any], scheme: str) -> None:
    scene.create(REFUSED, "shop-" + "with-a-very-long-name" * 2)
    scene.update(REFUSED, "shop-" + "with-a-very-long-name" * 2, a="1")
    async with looking(scene, **device, color_scheme=scheme) as watched:
        await watched.page.click("#tail-start")
        await seen(watched, "#letter-rows", "parked")
        await watched.page.evaluate("document.querySelector('#resources').open = true")
        await seen(watched, "#resource-rows", "configmaps")
        assert await watched.page.evaluate(FLAWS) == []


async def test_motion_is_reduced_on_request(scene: Scene) -> None:
    async with looking(scene, **DESKTOP, reduced_motion="reduce") as watched:
        await seen(watched, "#ready", "ready")
        animation = "getComputedStyle(document.querySelector('.edges path')).animationName"
        await watched.page.locator(".edges path").first.wait_for(state="attached")
        assert await watched.page.evaluate(animation) == "none"


async def test_the_page_finds_the_bridge_again(scene: Scene) -> None:
    async with opened(scene.url, **DESKTOP) as watched:
        watched.page.set_default_timeout(15_000 * BUSY)
        await unlock(watched)
        await asyncio.to_thread(scene.bridge.kill9)
        await seen(watched, "#link", "reconnecting")
        await seen(watched, "#ready", "no news")
        await asyncio.to_thread(scene.bridge.start)
        await seen(watched, "#link", "live")
        await seen(watched, "#ready", "ready")


async def test_a_tab_that_nobody_sees_costs_nothing(scene: Scene) -> None:
    async with looking(scene) as watched:
        await watched.page.evaluate(
            "Object.defineProperty(document, 'hidden', {get: () => window.away, configurable: true});"
            "window.away = true; document.dispatchEvent(new Event('visibilitychange'))"
        )
        await seen(watched, "#link", "asleep")
        await watched.page.evaluate("window.away = false; document.dispatchEvent(new Event('visibilitychange'))")
        await seen(watched, "#link", "live")
