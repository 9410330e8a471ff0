"""The report as PDF, printed by a browser with the page's style sheet."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from costof.errors import CostofError, ErrorText
from costof.files import write_whole
from costof.instruments.commands import process

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")
MOST_SECONDS = 120.0
#: Options that turn off network access, background services and dialogs.
OPTIONS = [
    "--headless",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--no-pdf-header-footer",
]


def find_browser() -> str:
    """Return the path of an installed browser that can print. Raises `NO_BROWSER`."""
    browser = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if browser is None:
        raise CostofError(ErrorText.NO_BROWSER, names=", ".join(BROWSERS))
    return browser


def print_pdf(browser: str, page: Path, to: Path) -> None:
    """Print a page to a PDF file. If that fails, no file is written. Raises `NOT_PRINTED` and `OUTPUT_NOT_WRITABLE`."""
    # Chromium's sandbox does not work as root. The page is safe without it: costof made it, and it loads nothing.
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    with tempfile.TemporaryDirectory() as profile:
        printed = Path(profile) / "report.pdf"
        paths = [f"--user-data-dir={profile}", f"--print-to-pdf={printed}", page.resolve().as_uri()]
        ended = process.run([browser, *OPTIONS, *sandbox, *paths], os.environ, MOST_SECONDS)
        if ended.failure or not printed.is_file():
            detail = f"{ended.failure or 'it wrote nothing'}{process.last_line(ended)}"
            raise CostofError(ErrorText.NOT_PRINTED, browser=browser, path=to, detail=detail)
        try:
            write_whole(to, printed.read_bytes())
        except OSError as error:
            raise CostofError(ErrorText.OUTPUT_NOT_WRITABLE, path=to, detail=error.strerror) from error
