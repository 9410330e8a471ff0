"""The report on paper: a browser prints the page, whose style sheet says how it looks there."""

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
#: It needs no network, has no profile of anybody's, and asks nobody anything.
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
    """Return a browser that can print. Raises `NO_BROWSER`."""
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        raise CostofError(ErrorText.NO_BROWSER, names=", ".join(BROWSERS))
    return found


def print_pdf(browser: str, page: Path, to: Path) -> None:
    """Print a page to a file, whole or not at all. Raises `NOT_PRINTED` and `OUTPUT_NOT_WRITABLE`."""
    # The page is ours and loads nothing; Chromium's sandbox refuses to run as root.
    alone = ["--no-sandbox"] if os.geteuid() == 0 else []
    with tempfile.TemporaryDirectory() as profile:
        printed = Path(profile) / "report.pdf"
        places = [f"--user-data-dir={profile}", f"--print-to-pdf={printed}", page.resolve().as_uri()]
        ended = process.run([browser, *OPTIONS, *alone, *places], os.environ, MOST_SECONDS)
        if ended.failure or not printed.is_file():
            detail = f"{ended.failure or 'it wrote nothing'}{process.last_line(ended)}"
            raise CostofError(ErrorText.NOT_PRINTED, browser=browser, path=to, detail=detail)
        try:
            write_whole(to, printed.read_bytes())
        except OSError as error:
            raise CostofError(ErrorText.OUTPUT_NOT_WRITABLE, path=to, detail=error.strerror) from error
