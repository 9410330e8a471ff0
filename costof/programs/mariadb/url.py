"""`mysql://user:password@host:3306/?ssl-mode=…`: where a server is, who we are there, and whether it must be TLS."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl

from pydantic import SecretStr

from costof.errors import CostofError, Problem
from costof.programs.access import Access
from costof.urls import UrlError, UrlParts, host_shown, login_shown, split_host, split_url

SCHEMES = ("mysql", "mariadb")
EXAMPLE = "mysql://user:password@host:3306/"
PORT = 3306
#: Options of MySQL's own clients, and what they ask for. All TLS is verified, names too; what may silently be plain
#: ('PREFERRED') is no answer to what is measured.
ASKS_TLS = {
    "ssl-mode": {"disabled": False, "required": True, "verify_ca": True, "verify_identity": True},
    "tls": {"true": True, "1": True, "false": False, "0": False},
    "ssl": {"true": True, "1": True, "false": False, "0": False},
}
CA_OPTION = "ssl-ca"


@dataclass(frozen=True)
class MysqlUrl:
    """`tls`: asked for, so that nothing is ever said in plain but where an arm is plain and that was allowed."""

    host: str
    port: int
    username: str
    password: SecretStr
    tls: bool
    ca_file: Path | None
    shown: str

    @property
    def address(self) -> str:
        return host_shown(self.host, self.port)


def parse_mysql_url(access: Access, study: str) -> MysqlUrl:
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
    return MysqlUrl(
        host=host,
        port=port,
        username=parts.username,
        password=access.password_beside(parts.password) or SecretStr(""),
        tls=tls,
        ca_file=access.ca_file or (Path(options[CA_OPTION]) if CA_OPTION in options else None),
        shown=f"{parts.scheme}://{told}{host_shown(host, port)}/{query}",
    )


def _place(parts: UrlParts) -> tuple[str, int]:
    if parts.scheme not in SCHEMES:
        raise UrlError(f"write it as {EXAMPLE}")
    if not parts.hosts:
        raise UrlError("it names no host")
    if not parts.username:
        raise UrlError("it names no user")
    if parts.path.strip("/"):
        raise UrlError("leave the path out: costof makes a database of its own, which --database names")
    return split_host(parts.hosts, PORT)


def _options(query: str) -> dict[str, str]:
    """By MySQL's names. Only what is known is kept, so that all of it can be shown."""
    found: dict[str, str] = {}
    for written, text in parse_qsl(query, keep_blank_values=True):
        name = written.lower().replace("_", "-").replace("sslmode", "ssl-mode")
        value = text if name == CA_OPTION else text.lower().replace("-", "_")
        if name != CA_OPTION and value not in ASKS_TLS.get(name, {}):
            known = "; ".join(f"{each} ({', '.join(words)})" for each, words in ASKS_TLS.items())
            raise UrlError(f"what may stand after '?' is {known}; {CA_OPTION}")
        found[name] = value
    return found


def _tls(options: dict[str, str], ca_file: Path | None) -> bool:
    said = {ASKS_TLS[name][text] for name, text in options.items() if name in ASKS_TLS}
    if CA_OPTION in options or ca_file is not None:
        said.add(True)
    if len(said) > 1:
        raise UrlError("it asks for plain and for TLS at once; leave one of the two out")
    return True in said
