"""`make docs` makes a site in which every link leads somewhere."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.documents.pages import ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    made = subprocess.run(["make", "docs", f"DOCS={folder}"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stdout + made.stderr
    return folder / "site"


def test_every_page_of_the_repository_is_on_the_site(site: Path) -> None:
    pages = {str(path.relative_to(ROOT)) for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"))}
    made = {re.sub(r"README\.md$", "index.html", page).replace(".md", ".html") for page in pages}
    assert made <= {str(path.relative_to(site)) for path in site.rglob("*.html")}


def test_every_link_on_the_site_leads_to_a_file(site: Path) -> None:
    checked = 0
    for page in site.rglob("*.html"):
        if page.name == "404.html":  # made for any path, with links from the root
            continue
        for link in re.findall(r'(?:href|src)="([^"]+)"', page.read_text(encoding="utf-8")):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or not parts.path:
                continue
            assert (page.parent / unquote(parts.path)).exists(), f"{page.relative_to(site)} links to {link}"
            checked += 1
    assert checked > 100
