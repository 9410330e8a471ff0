"""URLs that may hold a password, taken apart in one way only.

A password with an `@` or a `/` in it could be read in several ways, and whoever guesses wrong shows a part of it, or
sends it to a stranger. What RFC 3986 asks to be percent-encoded must be, then; what is shown of a URL is put together
from its parts, and no message quotes anything of one that could not be read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote

from pydantic import SecretStr

from costof.model import HIDDEN

ENCODE = (
    "percent-encode whatever is no letter, digit or one of -._~ in the user and the password "
    "(@ as %40, / as %2F, a space as %20, + as %2B)"
)
_URL = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://"
    r"(?:(?P<username>[^@:/?#+\s]*)(?P<colon>:(?P<password>[^@:/?#+\s]*))?@)?"
    r"(?P<hosts>[^@/?#\s]*)(?P<path>/[^@?#\s]*)?(?:\?(?P<query>[^@#\s]*))?"
)
_BARE_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")


class UrlError(ValueError):
    """Why a text is no URL, in words that hold nothing of it."""


@dataclass(frozen=True)
class UrlParts:
    """User and password are decoded; hosts, path (with its slash) and query are as they were written."""

    scheme: str
    username: str | None
    password: SecretStr | None
    hosts: str
    path: str
    query: str


def split_url(url: str, example: str) -> UrlParts:
    """Raises `UrlError`. `example` shows the form that is expected."""
    if _LONE_SURROGATE.search(url):
        raise UrlError("it is not UTF-8")
    if any(sign.isspace() or not sign.isprintable() for sign in url):
        raise UrlError(f"it holds a space or a control character; {ENCODE}")
    found = _URL.fullmatch(url)
    if found is None:
        # Without an @ no password is in it, and encoding one would be no help.
        raise UrlError(f"it can be read in several ways; {ENCODE}" if "@" in url else f"write it as {example}")
    password = _decoded(found["password"])
    return UrlParts(
        scheme=found["scheme"].lower(),
        username=_decoded(found["username"]),
        password=SecretStr(password) if password is not None else None,
        hosts=found["hosts"],
        path=found["path"] or "",
        query=found["query"] or "",
    )


def check_without_login(url: str) -> None:
    """Refuse a URL that holds a user, or may: one of HTTP has none. Raises `UrlError`.

    In 'http://user:12/34@host/' a server could be 'user', with a path; 'https://host/@name' can be read in one way.
    """
    if _LONE_SURROGATE.search(url):
        raise UrlError("it is not UTF-8")
    authority = re.split(r"[/?#\\]", url.partition("//")[2], maxsplit=1)[0]
    if "@" in authority or ("@" in url and ":" in authority):
        raise UrlError("leave the user and password out; in a path or a query an @ is written as %40")
    if any(sign.isspace() or not sign.isprintable() for sign in url):
        raise UrlError("it holds a space or a control character")


def query_shown(query: str) -> str:
    """'?' and the names of a query, without their values, which may be secrets; '' without any."""
    names = [part.partition("=")[0] + "=…" if "=" in part else "…" for part in query.split("&") if part]
    return "?" + "&".join(names) if names else ""


def login_shown(username: str | None, has_password: bool) -> str:
    """What stands before the hosts of a URL that is shown; '' without a user."""
    if username is None:
        return ""
    return quote(username, safe="") + (f":{HIDDEN}@" if has_password else "@")


def split_host(text: str, default_port: int) -> tuple[str, int]:
    """Of 'host:port', 'host' or '[address]:port'. Raises `UrlError`."""
    found = re.fullmatch(r"(?:\[(?P<address>[0-9A-Fa-f:.]+)\]|(?P<name>[^:\[\]]*))(?::(?P<port>[0-9]{1,5}))?", text)
    if found is None or int(found["port"] or default_port) not in range(1, 65536):
        raise UrlError("what follows the user is not host:port")
    host = found["address"] or found["name"]
    if not host:
        raise UrlError("it names no host")
    return host, int(found["port"] or default_port)


def host_shown(host: str, port: int) -> str:
    """'host:port', an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _decoded(text: str | None) -> str | None:
    if text is None:
        return None
    if _BARE_PERCENT.search(text):
        raise UrlError(f"a % in it stands alone; {ENCODE}")
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise UrlError("what is percent-encoded in its user or password is not UTF-8") from None
