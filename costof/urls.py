"""URLs that may hold a password, taken apart in one way only.

A password with an `@` or a `/` in it could be read in several ways, and whoever guesses wrong shows a part of it, or
sends it to a stranger. What RFC 3986 asks to be percent-encoded must be, then; what is shown of a URL is put together
from its parts, and no message quotes anything of one that could not be read.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import quote, unquote

from pydantic import SecretStr

from costof.model import HIDDEN

ENCODE = (
    "percent-encode whatever is no letter, digit or one of -._~ in the user and the password "
    "(@ as %40, / as %2F, a space as %20, + as %2B)"
)
ENCODE_QUERY = ENCODE + ", and an @ among the options after the '?' as %40"
_URL = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://"
    r"(?:(?P<username>[^@:/?#+\s]*)(?P<colon>:(?P<password>[^@:/?#+\s]*))?@)?"
    r"(?P<hosts>[^@/?#\s]*)(?P<path>/[^@?#\s]*)?(?:\?(?P<query>[^#\s]*))?"
)
#: What may be the hosts of a URL, and would be if an @ before them belonged to a password.
_HOSTS = re.compile(r"[^@/?#&=\s]+(?=[/?#]|$)")
# What a path and a query may hold as they are (RFC 3986, 3.3 and 3.4), and escapes.
_KEPT = "/?:@!$&'()*+,;=-._~%[]|"
_LABELS = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?)*\.?")
_BARE_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")


class UrlError(ValueError):
    """A text is no URL; the words say why and hold nothing of it."""


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
    """Split a URL. `example` shows the form that is expected. Raises `UrlError`."""
    if _LONE_SURROGATE.search(url):
        raise UrlError("it is not UTF-8")
    if any(sign.isspace() or not sign.isprintable() for sign in url):
        raise UrlError(f"it holds a space or a control character; {ENCODE}")
    found = _URL.fullmatch(url)
    if found is None or not _is_read_in_one_way(found):
        # Without an @ no password is in it, and encoding one would be no help.
        encode = ENCODE_QUERY if "@" in url.partition("?")[2] else ENCODE
        raise UrlError(f"it can be read in several ways; {encode}" if "@" in url else f"write it as {example}")
    password = _decoded(found["password"])
    return UrlParts(
        scheme=found["scheme"].lower(),
        username=_decoded(found["username"]),
        password=SecretStr(password) if password is not None else None,
        hosts=found["hosts"],
        path=found["path"] or "",
        query=found["query"] or "",
    )


def _is_read_in_one_way(found: re.Match[str]) -> bool:
    """Return whether no @ of the query may be the one before the hosts.

    In mongodb://user:1?2@host/ with its raw password it is; in mongodb://user:password@host/?appName=@user@ no host
    follows it.
    """
    query = found["query"] or ""
    if "@" not in query:
        return True
    after = [query[at + 1 :] for at, sign in enumerate(query) if sign == "@"]
    return found["username"] is not None and not any(_HOSTS.match(each) for each in after)


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


def encoded(path_and_query: str) -> str:
    """Percent-encode what a path and a query may not hold as it is, as UTF-8; escapes stay as they are."""
    return quote(path_and_query, safe=_KEPT)


def ascii_name(name: str) -> str:
    """Return the name of a host as it is looked up. Raises `UrlError` for what cannot be one."""
    if not name:
        return name
    if ":" in name:
        # The name of a network card (RFC 6874) means nothing to whoever reads the Host header.
        if "%" in name:
            raise UrlError("an address with a zone cannot be asked")
        try:
            return str(ipaddress.IPv6Address(name))
        except ValueError:
            raise UrlError("what stands in brackets is no IPv6 address") from None
    try:
        found = name.encode("idna").decode()
    except UnicodeError:
        found = ""
    if not _LABELS.fullmatch(found):
        raise UrlError("that cannot be the name of a host")
    return found


def query_shown(query: str) -> str:
    """Return '?' and the names of a query, without their values, which may be secrets; '' without any."""
    names = [part.partition("=")[0] + "=…" if "=" in part else "…" for part in query.split("&") if part]
    return "?" + "&".join(names) if names else ""


def login_shown(username: str | None, has_password: bool) -> str:
    """Return what stands before the hosts of a URL that is shown; '' without a user."""
    if username is None:
        return ""
    return quote(username, safe="") + (f":{HIDDEN}@" if has_password else "@")


def without_password(shown: str | None) -> str | None:
    """Return a URL that is shown as it would be, had its password been given apart."""
    return shown.replace(f":{HIDDEN}@", "@", 1) if shown is not None else None


def split_host(text: str, default_port: int) -> tuple[str, int]:
    """Split 'host:port', 'host' or '[address]:port'. Raises `UrlError`."""
    found = re.fullmatch(r"(?:\[(?P<address>[0-9A-Fa-f:.]+)\]|(?P<name>[^:\[\]]*))(?::(?P<port>[0-9]{1,5}))?", text)
    if found is None or int(found["port"] or default_port) not in range(1, 65536):
        raise UrlError("what follows the user is not host:port")
    host = found["address"] or found["name"]
    if not host:
        raise UrlError("it names no host")
    return host, int(found["port"] or default_port)


def host_shown(host: str, port: int) -> str:
    """Return 'host:port', an IPv6 address in brackets."""
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


def is_loopback(address: str) -> bool:
    """Return whether 'host:port' is reached on this machine only."""
    host = address.rpartition(":")[0].strip("[]")
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
