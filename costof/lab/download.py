"""Downloads of server programs by HTTP, each checked by its SHA-256 before anything uses it."""

from __future__ import annotations

import hashlib
import os
import shutil
import ssl
import urllib.request
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

SILENT_SECONDS = 60
_CHUNK = 1 << 20


class FetchError(Exception):
    """A program cannot be fetched. The message has the reason."""


def url_opener(address: str) -> tuple[urllib.request.OpenerDirector, str]:
    """Return an opener, and the address without user and password.

    The opener sends the user and password of the address only to the address's host.
    """
    parts = urlsplit(address)
    without_login = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    handlers: list[urllib.request.BaseHandler] = []
    if parts.username is not None:
        logins = urllib.request.HTTPPasswordMgrWithPriorAuth()
        login = unquote(parts.username), unquote(parts.password or "")
        logins.add_password(None, urljoin(without_login, "/"), *login, is_authenticated=True)
        handlers.append(urllib.request.HTTPBasicAuthHandler(logins))
    trusted = ssl.create_default_context(cafile=os.environ.get("PIP_CERT") or os.environ.get("SSL_CERT_FILE"))
    return urllib.request.build_opener(*handlers, urllib.request.HTTPSHandler(context=trusted)), without_login


def download(opener: urllib.request.OpenerDirector, url: str, path: Path) -> None:
    """Save the file at a URL. The caller must check its hash. Raises `HTTPException`, `ValueError` and `OSError`."""
    with opener.open(url, timeout=SILENT_SECONDS) as answer, path.open("wb") as file:
        shutil.copyfileobj(answer, file, _CHUNK)


def reason(error: Exception) -> object:
    """Return the reason for a failed download, without the text that `urllib` adds."""
    return getattr(error, "reason", None) or error


def check_hash(what: str, path: Path, expected: str) -> None:
    """Raise `FetchError` if the file does not have the expected SHA-256."""
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != expected:
        raise FetchError(f"{what} has SHA-256 {found}, not {expected}, and was removed")
