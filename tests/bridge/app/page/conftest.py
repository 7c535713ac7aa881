from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.bridge.app.page.page import TOKEN, APage, a_page


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    return path


@pytest.fixture
async def page(token_file: Path) -> AsyncIterator[APage]:
    """With a token."""
    async with a_page(token=token_file) as running:
        yield running


@pytest.fixture
async def open_page() -> AsyncIterator[APage]:
    """Without a token."""
    async with a_page() as running:
        yield running
