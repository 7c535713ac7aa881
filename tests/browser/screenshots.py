"""Renews the pictures of docs/page.md: ``make screenshots``. Takes two minutes, so that the chart has a course."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.browser.chromium import missing, opened
from tests.browser.scene import REFUSED, TOKEN, a_scene
from tests.kit.webhook_receiver import WebhookReceiver

IMAGES = Path(__file__).parents[2] / "docs" / "images"
LARGEST = 200_000
"""Bytes of a picture in the repository."""
DESKTOP = {"viewport": {"width": 1180, "height": 880}}
PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True, "device_scale_factor": 1}
RESOURCES = ("pods", "deployments.apps", "configmaps", "secrets", "nodes", "leases.coordination.k8s.io")
OUTAGE = 45.0
"""Seconds."""


async def take(url: str, name: str, section: str, **context: Any) -> None:
    async with opened(url, **context) as watched:
        page = watched.page
        await page.fill("#token-input", TOKEN)
        await page.keyboard.press("Enter")
        await page.locator("#lock", has_text="Unlocked").wait_for()
        await page.locator("#letter-rows tr").first.wait_for()
        await page.click("#tail-start")
        await page.wait_for_timeout(4000)
        await page.evaluate("document.activeElement.blur()")
        await page.evaluate(f"document.querySelector('{section}').scrollIntoView({{behavior: 'instant'}})")
        await page.wait_for_timeout(500)
        file = IMAGES / name
        await page.screenshot(path=file)
        size = len(await asyncio.to_thread(file.read_bytes))
        if size > LARGEST:
            sys.exit(f"{name} has {size} bytes; at most {LARGEST}")
        print(f"{file}: {size} bytes")


async def main(folder: Path) -> None:
    async with WebhookReceiver() as pager:
        sinks: dict[str, Any] = {
            "archive": {"type": "file", "path": str(folder / "archive.ndjson")},
            "pager": {"type": "webhook", "url": pager.url},
        }
        async with a_scene(folder, resources=RESOURCES, rate=20, **sinks) as scene:
            scene.create(REFUSED, "shop")
            scene.update(REFUSED, "shop", size="large")
            await asyncio.sleep(15)
            await pager.stop()
            await asyncio.sleep(OUTAGE)
            await pager.start()
            await asyncio.sleep(30)
            await pager.stop()
            await asyncio.sleep(20)
            await take(scene.url, "page-desktop.png", "body", **DESKTOP)
            await take(scene.url, "page-dark.png", "#sinks", **DESKTOP, color_scheme="dark")
            await take(scene.url, "page-phone.png", "body", **PHONE)


if __name__ == "__main__":
    if missing():
        sys.exit(missing())
    IMAGES.mkdir(exist_ok=True)
    with TemporaryDirectory() as place:
        asyncio.run(main(Path(place)))
