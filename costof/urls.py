"""Parsing of URLs that may contain a password.

A URL whose password contains an unencoded `@` or `/` is ambiguous: a wrong guess could show a part of the password, or
send it to the wrong host. Such URLs are refused, and reserved characters must be percent-encoded (RFC 3986). To show a
URL, its parsed parts are joined without the password. No message quotes a URL that could not be parsed.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import quote, unquote

from pydantic import SecretStr

from costof.model import HIDDEN

ENCODE = (
    "in the user and the password, percent-encode every character except letters, digits and -._~ "
    "(@ as %40, / as %2F, a space as %20, + as %2B)"
)
ENCODE_QUERY = ENCODE + ", and an @ among the options after the '?' as %40"
_URL = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://"
    r"(?:(?P<username>[^@:/?#+\s]*)(?P<colon>:(?P<password>[^@:/?#+\s]*))?@)?"
    r"(?P<hosts>[^@/?#\s]*)(?P<path>/[^@?#\s]*)?(?:\?(?P<query>[^#\s]*))?"
)
#: Matches text that could be the hosts of a URL. It is used to find an unencoded '?' in a password. In such a URL,
#: `_URL` takes everything after the '?' for the query: the rest of the password, the @, and the hosts. A URL is
#: therefore ambiguous if the text after an @ in its query matches.
_HOSTS = re.compile(r"[^@/?#&=\s]+(?=[/?#]|$)")
# Characters that a path and a query may contain unencoded (RFC 3986, 3.3 and 3.4), and the % of escapes.
_KEPT = "/?:@!$&'()*+,;=-._~%[]|"
_LABELS = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?)*\.?")
_BARE_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")


class UrlError(ValueError):
    """An invalid URL. The message never quotes the URL."""


@dataclass(frozen=True)
class UrlParts:
    """The parts of a URL. User and password are decoded. Hosts, path (with its slash) and query are as written."""

    scheme: str
    username: str | None
    password: SecretStr | None
    hosts: str
    path: str
    query: str


def split_url(url: str, example: str) -> UrlParts:
    """Split a URL. `example`: a valid URL for the error message. Raises `UrlError`."""
    if _LONE_SURROGATE.search(url):
        raise UrlError("it is not UTF-8")
    if any(sign.isspace() or not sign.isprintable() for sign in url):
        raise UrlError(f"it contains a space or a control character; {ENCODE}")
    match = _URL.fullmatch(url)
    if match is None or _is_ambiguous(match):
        # A URL without an @ contains no password, so advice on encoding would not help.
        encode = ENCODE_QUERY if "@" in url.partition("?")[2] else ENCODE
        raise UrlError(f"it is ambiguous; {encode}" if "@" in url else f"write it as {example}")
    password = _decoded(match["password"])
    return UrlParts(
        scheme=match["scheme"].lower(),
        username=_decoded(match["username"]),
        password=SecretStr(password) if password is not None else None,
        hosts=match["hosts"],
        path=match["path"] or "",
        query=match["query"] or "",
    )


def _is_ambiguous(match: re.Match[str]) -> bool:
    """Return whether an @ in the query could be the end of the password.

    In mongodb://user:1?2@host/ this is possible, with the password 1?2, whose '?' is not encoded. In
    mongodb://user:password@host/?appName=@user@ it is not, because no text after an @ of the query is a list of hosts.
    """
    query = match["query"] or ""
    if "@" not in query:
        return False
    after = [query[at + 1 :] for at, sign in enumerate(query) if sign == "@"]
    return match["username"] is None or any(_HOSTS.match(each) for each in after)


def check_without_login(url: str) -> None:
    """Raise `UrlError` for an HTTP URL that contains a user, or that may contain one.

    'http://user:12/34@host/' may contain one: its host could be 'user' or 'host'. 'https://host/@name' contains none.
    """
    if _LONE_SURROGATE.search(url):
        raise UrlError("it is not UTF-8")
    authority = re.split(r"[/?#\\]", url.partition("//")[2], maxsplit=1)[0]
    if "@" in authority or ("@" in url and ":" in authority):
        raise UrlError("remove the user and the password; in a path or a query write an @ as %40")
    if any(sign.isspace() or not sign.isprintable() for sign in url):
        raise UrlError("it contains a space or a control character")


def encoded(path_and_query: str) -> str:
    """Percent-encode, as UTF-8, all characters that a path or query may not contain. Keep existing escapes."""
    return quote(path_and_query, safe=_KEPT)


def ascii_name(name: str) -> str:
    """Return a host name in the ASCII form that DNS uses (IDNA). Raises `UrlError` for an invalid name."""
    if not name:
        return name
    if ":" in name:
        # The zone names a network interface of this machine (RFC 6874), which means nothing in the Host header.
        if "%" in name:
            raise UrlError("an address with a zone is not supported")
        try:
            return str(ipaddress.IPv6Address(name))
        except ValueError:
            raise UrlError("the text in brackets is not an IPv6 address") from None
    try:
        ascii_text = name.encode("idna").decode()
    except UnicodeError:
        ascii_text = ""
    if not _LABELS.fullmatch(ascii_text):
        raise UrlError("the host name is not valid")
    return ascii_text


def query_shown(query: str) -> str:
    """Return '?' and the query with '…' instead of each value, which may be a secret; '' for an empty query."""
    names = [part.partition("=")[0] + "=…" if "=" in part else "…" for part in query.split("&") if part]
    return "?" + "&".join(names) if names else ""


def login_shown(username: str | None, has_password: bool) -> str:
    """Return how a URL's login is shown: 'user:<redacted>@', 'user@' without a password, '' without a user."""
    if username is None:
        return ""
    return quote(username, safe="") + (f":{HIDDEN}@" if has_password else "@")


def without_password(shown: str | None) -> str | None:
    """Return a URL without the ':<redacted>' that stands for its password; None for None."""
    return shown.replace(f":{HIDDEN}@", "@", 1) if shown is not None else None


def split_host(text: str, default_port: int) -> tuple[str, int]:
    """Return host and port of 'host:port', 'host' or '[address]:port'. Raises `UrlError`."""
    match = re.fullmatch(r"(?:\[(?P<address>[0-9A-Fa-f:.]+)\]|(?P<name>[^:\[\]]*))(?::(?P<port>[0-9]{1,5}))?", text)
    if match is None or int(match["port"] or default_port) not in range(1, 65536):
        raise UrlError("the host is not of the form host:port")
    host = match["address"] or match["name"]
    if not host:
        raise UrlError("it names no host")
    return host, int(match["port"] or default_port)


def host_shown(host: str, port: int) -> str:
    """Return 'host:port', with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _decoded(text: str | None) -> str | None:
    if text is None:
        return None
    if _BARE_PERCENT.search(text):
        raise UrlError(f"it contains a % that is not followed by two hexadecimal digits; {ENCODE}")
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise UrlError("the percent-encoded bytes of its user or password are not UTF-8") from None


def is_loopback(address: str) -> bool:
    """Return whether 'host:port' is a loopback address."""
    host = address.rpartition(":")[0].strip("[]")
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
