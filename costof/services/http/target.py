"""A user's own load balancer, with an https:// URL and an http:// URL. It gets only GET requests."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from costof.errors import CostofError, ErrorText
from costof.lab.program import Description
from costof.messages.plan import Endpoint
from costof.programs.access import Access, ShownAccess, check_ca_file
from costof.programs.balancer import ROLE as BALANCER_ROLE
from costof.programs.http import HttpSettings
from costof.programs.reach import check_identity, read_certificate
from costof.services import LoadData, Service
from costof.study.arms import PlannedArm
from costof.study.plan import Plan
from costof.study.schema import ArmSettings, Level, Study
from costof.urls import UrlError, ascii_name, check_without_login, encoded, query_shown

PORTS = {"https": 443, "http": 80}


@dataclass(frozen=True)
class Place:
    """A parsed URL. `address` is the 'host:port' to connect to. `host` is the Host header. `path` includes the query.

    `url` is the URL for plans and reports, without the values of query parameters, which may be secret tokens.
    """

    url: str
    name: str
    port: int
    address: str
    host: str
    path: str


class HttpTarget(Service):
    """A user's balancer as a service. Its counters cannot be read, so arms (variants) are verified by the clients."""

    server_role = BALANCER_ROLE

    def __init__(self, plan: Plan, tls: Place, plain: Place, ca_file: Path | None) -> None:
        self._places = {True: tls, False: plain}
        used = {arm.settings.speaks_tls for arm in plan.arms}
        self._used = [place for tls_used, place in self._places.items() if tls_used in used]
        self._ca_file = ca_file

    def __enter__(self) -> Self:
        check_ca_file(self._ca_file)
        for place in self._used:
            _resolve(place)
        check_identity(self._places[True].url, self.known_identity, self.identity())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def endpoint(self, arm: PlannedArm) -> Endpoint:
        place = self._places[arm.settings.speaks_tls]
        settings = HttpSettings(addresses=[place.address], host=place.host, path=place.path).with_settings(
            arm.settings.service
        )
        return Endpoint(service=settings, transport=arm.settings.transport_trusting(self._ca_file))

    def prepare(self, arms: Sequence[PlannedArm], load: LoadData) -> None: ...

    def writes(self) -> list[str]:
        return [f"nothing: costof only sends GET requests for {' and '.join(place.url for place in self._used)}"]

    def describe(self) -> Description:
        return Description(
            # The version is unknown here: the load generator reads the balancer's name from responses later.
            versions={},
            topology="a balancer of the user's own",
            facts={"plain" if place.url.startswith("http:") else "TLS": place.url for place in self._used},
        )

    def identity(self) -> dict[str, str]:
        tls = self._places[True]
        return read_certificate(tls.name, tls.port) if tls in self._used else {}


def offers(level: Level | ArmSettings, access: Access) -> bool:
    """Return whether a level (setting) can be measured on a user's own balancer.

    Two kinds of levels cannot be measured, because a client could not verify them:

    - levels without a balancer;
    - levels with TLS between the balancer and the origin (the HTTP server).
    """
    return not level.lab.get("direct") and not level.lab.get("tls_at_origin")


def service(plan: Plan, access: Access, run_name: str) -> Service:
    """Return the target service for a plan. Raises `BAD_TARGET`, `TARGET_LACKS_TERMINATION`, `PLAIN_TARGET_MISSING`."""
    offered = {arm.levels[plan.study.main_factor]: offers(arm.settings, access) for arm in plan.arms}
    if unknown := [level for level, is_offered in offered.items() if not is_offered]:
        rest = ",".join(level for level in offered if level not in unknown)
        raise CostofError(ErrorText.TARGET_LACKS_TERMINATION, levels=", ".join(unknown), other_levels=rest)
    tls = parse_url(access.url, "https", plan.study.name)
    if access.plain_url is None:
        raise CostofError(ErrorText.PLAIN_TARGET_MISSING, study=plan.study.name)
    return HttpTarget(plan, tls, parse_url(access.plain_url, "http", plan.study.name), access.ca_file)


def shown(access: Access, study: Study) -> ShownAccess:
    plain = access.plain_url and parse_url(access.plain_url, "http", study.name).url
    return ShownAccess(parse_url(access.url, "https", study.name).url, plain)


def parse_url(url: str, scheme: str, study: str) -> Place:
    """Parse a URL of this `scheme`, such as 'https://host:443/path?query'; ignore a fragment. Raises `BAD_TARGET`."""

    def bad(detail: str) -> CostofError:
        return CostofError(ErrorText.BAD_TARGET, study=study, detail=detail)

    try:
        check_without_login(url)
        parts = urlsplit(url)
        port = parts.port if parts.port is not None else PORTS[scheme]
        name = ascii_name(parts.hostname or "")
        if "[" in parts.netloc and ":" not in name:
            raise UrlError("the text in brackets is not an IPv6 address")
    except UrlError as error:
        raise bad(str(error)) from None
    except ValueError:
        raise bad("after // there must be host:port, with an IPv6 address in brackets") from None
    if parts.scheme != scheme:
        option = "--target" if scheme == "https" else "--plain-target"
        raise bad(f"write {option} as {scheme}://host:{PORTS[scheme]}/path")
    if not name or port == 0:
        raise bad("it has no host" if not name else "port 0 is not a valid port")
    bracketed = f"[{name}]" if ":" in name else name
    path = encoded((parts.path or "/") + (f"?{parts.query}" if parts.query else ""))
    host = bracketed if port == PORTS[scheme] else f"{bracketed}:{port}"
    shown = f"{scheme}://{host}{path.partition('?')[0]}{query_shown(parts.query)}"
    return Place(shown, name, port, f"{bracketed}:{port}", host, path)


def _resolve(place: Place) -> None:
    """Raise `TARGET_UNREACHABLE` if the host name does not resolve. Otherwise each arm (variant) would report it."""
    try:
        socket.getaddrinfo(place.name, place.port, type=socket.SOCK_STREAM)
    except OSError as error:
        detail = f"its name does not resolve ({error.strerror})"
        raise CostofError(ErrorText.TARGET_UNREACHABLE, target=place.url, detail=detail) from None
