"""`redis://user:password@host:6379`, or `rediss://…:6380` with TLS: where a server is, and who we are there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl

from pydantic import SecretStr

from costof.errors import CostofError, Problem
from costof.programs.access import Access
from costof.urls import UrlError, UrlParts, host_shown, login_shown, split_host, split_url

#: Whether they ask for TLS.
SCHEMES = {"redis": False, "rediss": True}
EXAMPLE = "rediss://user:password@host:6380/?plain_port=6379"
PORT = 6379
#: Where the same server takes plain connections, for arms that are plain: Redis takes TLS on a port of its own.
PLAIN_OPTION = "plain_port"


@dataclass(frozen=True)
class RedisUrl:
    """`tls`: asked for, so that nothing is said in plain but where an arm is plain and that was allowed."""

    host: str
    port: int
    plain_port: int
    username: str | None
    password: SecretStr | None
    tls: bool
    ca_file: Path | None
    shown: str

    @property
    def address(self) -> str:
        return host_shown(self.host, self.port)

    @property
    def plain_address(self) -> str:
        return host_shown(self.host, self.plain_port)


def parse_redis_url(access: Access, study: str) -> RedisUrl:
    """Raises `BAD_TARGET`, `PASSWORD_TWICE`."""
    try:
        parts = split_url(access.url, EXAMPLE)
        host, port = _place(parts)
        tls = SCHEMES[parts.scheme]
        if access.ca_file is not None and not tls:
            raise UrlError("authorities are for TLS: write it as rediss://…")
        plain_port = _plain_port(parts.query, port, tls)
    except UrlError as error:
        raise CostofError(Problem.BAD_TARGET, study=study, detail=str(error)) from None
    told = login_shown(parts.username, parts.password is not None) if parts.username else ""
    query = f"/?{PLAIN_OPTION}={plain_port}" if plain_port != port else "/"
    return RedisUrl(
        host=host,
        port=port,
        plain_port=plain_port,
        username=parts.username or None,
        password=access.password_beside(parts.password),
        tls=tls,
        ca_file=access.ca_file,
        shown=f"{parts.scheme}://{told}{host_shown(host, port)}{query}",
    )


def _place(parts: UrlParts) -> tuple[str, int]:
    if parts.scheme not in SCHEMES or parts.path not in ("", "/", "/0"):
        raise UrlError(f"write it as {EXAMPLE}")
    if not parts.hosts:
        raise UrlError("it names no host")
    return split_host(parts.hosts, PORT)


def _plain_port(query: str, port: int, tls: bool) -> int:
    options = dict(parse_qsl(query, keep_blank_values=True))
    if not options:
        return port
    text = options.pop(PLAIN_OPTION, "")
    if options or not tls or not (text.isascii() and text.isdigit() and 0 < int(text) < 1 << 16):
        raise UrlError(f"what may stand after '?' is {PLAIN_OPTION}, of rediss://… alone")
    return int(text)
