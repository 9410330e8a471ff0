"""A real Chromium without a window and without a network, driven over WebDriver."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

PROGRAMS = {"chromium": ("chromium", "google-chrome"), "chromedriver": ("chromedriver",)}
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # No name resolves and every connection is refused, so the page can only show what it contains.
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--proxy-server=127.0.0.1:9",
)


def program(name: str) -> str:
    """Return the path of a program. If it is missing, the test is skipped, or fails if the variable CI is set."""
    found = next((path for each in PROGRAMS[name] if (path := shutil.which(each))), None)
    if found is None and os.environ.get("CI"):
        pytest.fail(f"{name} is missing; run scripts/system-packages")
    return found or pytest.skip(f"{name} is missing; run scripts/system-packages")


@contextmanager
def browser(folder: Path, *flags: str, width: int = 1100, height: int = 1400) -> Iterator[Chrome]:
    """Start a browser that logs its requests and keeps its profile in `folder`."""
    # Imported here, because the import takes half a second in each process of the tests.
    from selenium.webdriver import Chrome, ChromeOptions, ChromeService

    options = ChromeOptions()
    options.binary_location = program("chromium")
    for flag in (*FLAGS, *flags, f"--user-data-dir={folder}", f"--window-size={width},{height}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    driver = Chrome(options=options, service=ChromeService(executable_path=program("chromedriver")))
    try:
        # The first page makes the browser request files of its own. Drop these requests from the log.
        driver.get("about:blank")
        requested(driver)
        yield driver
    finally:
        driver.quit()


def requested(driver: Chrome) -> list[str]:
    """Return the URLs that the page requested since the last call."""
    messages = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    return [each["params"]["request"]["url"] for each in messages if each["method"] == "Network.requestWillBeSent"]


def complaints(driver: Chrome) -> list[str]:
    """Return the messages of the console, such as errors of a script."""
    return [entry["message"] for entry in driver.get_log("browser")]
