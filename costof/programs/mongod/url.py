"""`mongodb://user:password@host:27017,…/?replicaSet=…`: pymongo's own parser, held to what can be read in one way."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote

from pydantic import SecretStr
from pymongo import uri_parser
from pymongo.errors import PyMongoError

from costof.errors import CostofError, Problem
from costof.programs.access import Access
from costof.urls import UrlError, UrlParts, host_shown, login_shown, split_url

SCHEMES = ("mongodb", "mongodb+srv")
EXAMPLE = "mongodb://user:password@host:27017/"
#: Options that are shown; others may hold secrets, as authMechanismProperties does.
SHOWN = ("replicaSet", "authSource", "readPreference", "tls", "tlsCAFile", "w")
#: They turn verification off. What that costs is a level of a study; log-ins are verified.
UNVERIFIED = ("tlsAllowInvalidCertificates", "tlsAllowInvalidHostnames", "tlsInsecure")
#: Why a write concern of 0 is refused.
UNACKNOWLEDGED = "w=0 asks for writes that no server answers, and a write without an answer has no latency to measure"


@dataclass(frozen=True)
class MongodbUrl:
    """`tls`: asked for, so that nothing is ever said in plain but where an arm is plain and that was allowed."""

    addresses: list[str]
    username: str | None
    password: SecretStr | None
    auth_source: str
    replica_set: str | None
    read_preference: str
    tls: bool
    ca_file: Path | None
    shown: str


def parse_mongodb_url(access: Access, study: str) -> MongodbUrl:
    """Raises `BAD_TARGET`, `PASSWORD_TWICE`."""
    try:
        parts = split_url(access.url, EXAMPLE)
        parsed = parsed_by_pymongo(parts)
        options = parsed["options"]
        if options.get("w") == 0:
            raise UrlError(f"{UNACKNOWLEDGED}; leave w out")
        tls = _tls(options, access.ca_file)
    except UrlError as error:
        raise CostofError(Problem.BAD_TARGET, study=study, detail=str(error)) from None
    # An empty password is none to MongoDB.
    password = access.password_beside(parts.password or None)
    ca_file = options.get("tlsCAFile")
    return MongodbUrl(
        addresses=[host_shown(host, port) for host, port in parsed["nodelist"]],
        username=parts.username,
        password=password if parts.username is not None else None,
        auth_source=str(options.get("authSource") or parsed["database"] or "admin"),
        replica_set=options.get("replicaSet"),
        read_preference=str(options.get("readPreference", "secondaryPreferred")),
        tls=tls,
        ca_file=access.ca_file or (Path(ca_file) if ca_file else None),
        shown=shown(parts, parsed),
    )


def parsed_by_pymongo(parts: UrlParts) -> dict[str, Any]:
    """What pymongo reads in the hosts, the database and the options. Raises `UrlError`.

    It is not given the user, since its errors quote what they are about.
    """
    if parts.scheme not in SCHEMES:
        raise UrlError(f"write it as {EXAMPLE}")
    if not parts.hosts:
        raise UrlError("it names no host")
    if parts.username == "":
        raise UrlError("it names no user")
    try:
        # An @ would be taken for the one that ends a log-in.
        query = f"?{parts.query.replace('@', '%40')}" if parts.query else ""
        bare = f"{parts.scheme}://{parts.hosts}{parts.path or '/'}{query}"
        parsed = dict(uri_parser.parse_uri(bare, warn=False, normalize=True))
    except OSError as error:
        raise UrlError(f"a file that it names cannot be read: {error.strerror}") from None
    except (PyMongoError, ValueError):
        raise UrlError(_what_is_wrong(parts)) from None
    if any(port is None for _, port in parsed["nodelist"]):
        raise UrlError("it names a Unix socket, and clients come by host and port")
    return parsed


def shown(parts: UrlParts, parsed: dict[str, Any]) -> str:
    """The URL without its secrets: of its options those that hold none."""
    hosts = parsed["fqdn"] or ",".join(host_shown(host, port) for host, port in parsed["nodelist"])
    options = {name: _option_shown(parsed["options"][name]) for name in SHOWN if name in parsed["options"]}
    query = "?" + "&".join(f"{name}={text}" for name, text in options.items()) if options else ""
    database = quote(parsed["database"] or "", safe="")
    return f"{parts.scheme}://{login_shown(parts.username, bool(parts.password))}{hosts}/{database}{query}"


def _option_shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else quote(str(value), safe="/")


def _what_is_wrong(parts: UrlParts) -> str:
    """Which part pymongo does not take; its own words might hold what must not be shown."""
    try:
        uri_parser.split_hosts(parts.hosts)
    except (PyMongoError, ValueError):
        return "what follows the user is not host:port, or several with commas between them"
    if parts.scheme.endswith("+srv"):
        return "its name has no servers in the DNS (SRV), or an option after '?' is none of MongoDB's"
    for number, (name, value) in enumerate(parse_qsl(parts.query, keep_blank_values=True), start=1):
        try:
            uri_parser.split_options(f"{quote(name)}={quote(value)}", warn=False)
        except (PyMongoError, ValueError):
            return f"option {number} after '?' is none of MongoDB's, or has a value that it does not take"
    return "its database or its options are not MongoDB's"


def _tls(options: dict[str, Any], ca_file: Path | None) -> bool:
    for name in UNVERIFIED:
        if options.get(name):
            raise UrlError(f"leave {name} out: log-ins to a target are verified; arms without are --set verify=…")
    asked = options.get("tls")
    if asked is False and (ca_file is not None or "tlsCAFile" in options):
        raise UrlError("it asks for plain and for TLS at once; leave one of the two out")
    return bool(asked) or ca_file is not None or "tlsCAFile" in options
