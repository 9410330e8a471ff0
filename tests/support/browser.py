"""A real Chromium without a window and without a network, driven by Playwright."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PROGRAMS = {"chromium": ("chromium", "google-chrome")}
FLAGS = (
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # No name resolves and every connection is refused, so the page can only show what it contains.
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--proxy-server=127.0.0.1:9",
)
MOST_MILLISECONDS = 30_000


def program(name: str) -> str:
    """Return a program's path. If the program is missing, skip the test or, with the variable CI, fail."""
    found = next((path for each in PROGRAMS[name] if (path := shutil.which(each))), None)
    if found is None and os.environ.get("CI"):
        pytest.fail(f"{name} is missing; run scripts/system-packages")
    return found or pytest.skip(f"{name} is missing; run scripts/system-packages")


@contextmanager
def browser() -> Iterator[Browser]:
    # Imported here, because the import takes long in each process of the tests.
    from playwright.sync_api import sync_playwright

    path = program("chromium")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=[*FLAGS], chromium_sandbox=False)
        try:
            yield started
        finally:
            started.close()


@contextmanager
def opened(browser: Browser, path: Path, fragment: str = "", **options: Any) -> Iterator[Page]:
    """Open a file as a page. At the end, fail if the page wrote a message to the console or requested another file.

    `options` are for Playwright's `new_context`.
    """
    context = browser.new_context(**options)
    context.set_default_timeout(MOST_MILLISECONDS)
    page = context.new_page()
    messages: list[str] = []
    requests: list[str] = []
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    try:
        page.goto(path.as_uri() + fragment)
        yield page
        assert not messages
        assert {url.partition("#")[0] for url in requests if not url.startswith(("data:", "blob:"))} == {path.as_uri()}
    finally:
        context.close()


def size(width: int, height: int) -> dict[str, dict[str, int]]:
    return {"viewport": {"width": width, "height": height}}
