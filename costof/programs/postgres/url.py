"""`postgresql://user:password@host:5432/database?sslmode=…`: where a server is, who we are there, whether it is TLS."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, unquote

from pydantic import SecretStr

from costof.errors import CostofError, Problem
from costof.programs.access import Access
from costof.urls import UrlError, UrlParts, host_shown, login_shown, split_host, split_url

SCHEMES = ("postgres", "postgresql")
EXAMPLE = "postgresql://user:password@host:5432/database"
PORT = 5432
#: Where libpq goes, where nobody names a database: every server has it.
DATABASE = "postgres"
#: libpq's, and whether they ask for TLS. All TLS is verified, names too; what may silently be plain ('prefer', 'allow')
#: is no answer to what is measured.
MODE_OPTION, CA_OPTION = "sslmode", "sslrootcert"
MODES = {"disable": False, "require": True, "verify-ca": True, "verify-full": True}


@dataclass(frozen=True)
class PostgresUrl:
    """`database` is where to ask for another.

    `tls`: asked for, so that nothing is said in plain but where an arm is plain and that was allowed.
    """

    host: str
    port: int
    username: str
    password: SecretStr | None
    database: str
    tls: bool
    ca_file: Path | None
    shown: str

    @property
    def address(self) -> str:
        return host_shown(self.host, self.port)


def parse_postgres_url(access: Access, study: str) -> PostgresUrl:
    """Raises `BAD_TARGET`, `PASSWORD_TWICE`."""
    try:
        parts = split_url(access.url, EXAMPLE)
        host, port = _place(parts)
        options = _options(parts.query)
        tls = _tls(options, access.ca_file)
    except UrlError as error:
        raise CostofError(Problem.BAD_TARGET, study=study, detail=str(error)) from None
    assert parts.username is not None
    told = login_shown(parts.username, parts.password is not None)
    query = "?" + "&".join(f"{name}={text}" for name, text in options.items()) if options else ""
    return PostgresUrl(
        host=host,
        port=port,
        username=parts.username,
        password=access.password_beside(parts.password),
        database=unquote(parts.path.strip("/")) or DATABASE,
        tls=tls,
        ca_file=access.ca_file or (Path(options[CA_OPTION]) if CA_OPTION in options else None),
        shown=f"{parts.scheme}://{told}{host_shown(host, port)}{parts.path or '/'}{query}",
    )


def _place(parts: UrlParts) -> tuple[str, int]:
    if parts.scheme not in SCHEMES:
        raise UrlError(f"write it as {EXAMPLE}")
    if not parts.hosts:
        raise UrlError("it names no host")
    if not parts.username:
        raise UrlError("it names no user")
    return split_host(parts.hosts, PORT)


def _options(query: str) -> dict[str, str]:
    """Only what is known is kept, so that all of it can be shown."""
    found = dict(parse_qsl(query, keep_blank_values=True))
    if found.keys() - {MODE_OPTION, CA_OPTION} or found.get(MODE_OPTION, "disable") not in MODES:
        raise UrlError(f"what may stand after '?' is {MODE_OPTION} ({', '.join(MODES)}); {CA_OPTION}")
    return found


def _tls(options: dict[str, str], ca_file: Path | None) -> bool:
    said = {MODES[options[MODE_OPTION]]} if MODE_OPTION in options else set()
    if CA_OPTION in options or ca_file is not None:
        said.add(True)
    if len(said) > 1:
        raise UrlError("it asks for plain and for TLS at once; leave one of the two out")
    return True in said
