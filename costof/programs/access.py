"""Access to a user's own server: its URL, the CA file, and where the password comes from."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl

import click
from pydantic import SecretStr

from costof.errors import CostofError, ErrorText
from costof.programs.password_variable import VARIABLE
from costof.urls import UrlError, UrlParts, host_shown, login_shown, split_host, split_url


def check_ca_file(path: Path | None) -> None:
    """Raise `TLS_CA_INVALID` if a file is given and does not hold certificates in PEM format."""
    if path is None:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
    except ssl.SSLError:
        raise CostofError(ErrorText.TLS_CA_INVALID, path=path, detail="it holds no certificate") from None
    except OSError as error:
        raise CostofError(ErrorText.TLS_CA_INVALID, path=path, detail=error.strerror) from None


@dataclass(frozen=True)
class Password:
    """A password from an option or from the environment.

    `explicit` is True for a password from an option: a password in the URL is then an error. Otherwise the URL's
    password takes precedence.
    """

    value: SecretStr
    explicit: bool


def read_password(file: Path | None, ask: bool, environment_value: str | None) -> Password | None:
    """Return the password from the file, from a prompt (if `ask`) or from the environment; None if there is none.

    Raises `PASSWORD_TWICE`, `PASSWORD_FILE`, `PASSWORD_VARIABLE`.
    """
    if file is not None and ask:
        raise CostofError(ErrorText.PASSWORD_TWICE, ways="--password-file and --ask-password")
    if file is not None:
        return Password(SecretStr(_read_password_file(file)), explicit=True)
    if ask:
        return Password(SecretStr(click.prompt("Password", hide_input=True, err=True)), explicit=True)
    if environment_value is None:
        return None
    try:
        environment_value.encode()
    except UnicodeEncodeError:
        raise CostofError(ErrorText.PASSWORD_VARIABLE, name=VARIABLE) from None
    return Password(SecretStr(environment_value), explicit=False)


def _read_password_file(path: Path) -> str:
    try:
        text = path.read_bytes().decode()
    except OSError as error:
        raise CostofError(ErrorText.PASSWORD_FILE, path=path, detail=error.strerror) from None
    except UnicodeDecodeError:
        raise CostofError(ErrorText.PASSWORD_FILE, path=path, detail="it is not UTF-8") from None
    line, _, rest = text.partition("\n")
    if rest.strip():
        raise CostofError(ErrorText.PASSWORD_FILE, path=path, detail="it has more than one line")
    return line.removesuffix("\r")


@dataclass(frozen=True)
class ShownAccess:
    """The URLs of a user's own server (the target) without secrets, as shown in the run's plan file and reports."""

    url: str
    plain_url: str | None = None
    pooler_url: str | None = None
    with_password: bool = False


@dataclass(frozen=True)
class Access:
    """The command line options that describe a user's own server (the target).

    The URLs and the password are secret: they never appear in a run's files, reports and logs.

    `plain_url` is the URL for measurements without TLS, and `pooler_url` the URL of a connection pooler in front of the
    server. `database` is the user's own name for the run's database. `allow_plain` permits measurements without TLS
    although the URL requires TLS. `server_cpu` is a command that prints the CPU seconds that the servers have used.
    `server_memory` is a command that prints the servers' memory in bytes.
    """

    url: str = field(repr=False)
    ca_file: Path | None = None
    plain_url: str | None = field(default=None, repr=False)
    password: Password | None = None
    database: str | None = None
    allow_plain: bool = False
    server_cpu: str | None = None
    pooler_url: str | None = field(default=None, repr=False)
    server_memory: str | None = None

    def choose_password(self, url_password: SecretStr | None) -> SecretStr | None:
        """Return the URL's password or, if it has none, `password`; None if there is neither.

        Raises `PASSWORD_TWICE` if the URL and an option each give a password.
        """
        if url_password is None:
            return self.password.value if self.password else None
        if self.password is not None and self.password.explicit:
            raise CostofError(ErrorText.PASSWORD_TWICE, ways="the URL and an option")
        return url_password


@dataclass(frozen=True)
class UrlForm:
    """The syntax of the URLs of one server program, such as PostgreSQL.

    `tls_options` has the options that turn TLS on or off, their accepted values, and whether each value turns TLS on:
    {"sslmode": {"disable": False, "verify-full": True}}. Some values let a client silently fall back to plaintext. Such
    values are left out of the table and refused, because it would be unclear whether TLS was measured. If TLS is on,
    certificate and host name are always verified.

    `ca_option` is the option for a CA file. `normalize` changes an option's name and value to the spelling in
    `tls_options`. `path_refused` is the error text for a URL with a path; None if a path is allowed.
    """

    schemes: tuple[str, ...]
    example: str
    port: int
    tls_options: Mapping[str, Mapping[str, bool]]
    ca_option: str
    normalize: Callable[[str, str], tuple[str, str]] = lambda name, text: (name, text)
    path_refused: str | None = None


@dataclass(frozen=True)
class LoginUrl:
    """A parsed URL that names a user.

    `password` is empty if there is none. `path` includes its leading slash. `shown` is the URL without secrets.

    `tls` is True if the URL or a CA file requires TLS. All connections then use TLS, except those of arms (measured
    variants) without TLS, which need --allow-plain.
    """

    host: str
    port: int
    username: str
    password: SecretStr
    path: str
    tls: bool
    ca_file: Path | None
    shown: str

    @property
    def address(self) -> str:
        return host_shown(self.host, self.port)


def parse_login_url(access: Access, study: str, form: UrlForm) -> LoginUrl:
    """Parse the URL of a user's server. `form` is the URL's syntax. Raises `BAD_TARGET`, `PASSWORD_TWICE`."""
    try:
        parts = split_url(access.url, form.example)
        username, host, port = _parse_authority(parts, form)
        options = _parse_options(parts.query, form)
        tls = _requires_tls(options, access.ca_file, form)
    except UrlError as error:
        raise CostofError(ErrorText.BAD_TARGET, study=study, detail=str(error)) from None
    login = login_shown(username, parts.password is not None)
    query = "?" + "&".join(f"{name}={text}" for name, text in options.items()) if options else ""
    return LoginUrl(
        host=host,
        port=port,
        username=username,
        password=access.choose_password(parts.password) or SecretStr(""),
        path=parts.path,
        tls=tls,
        ca_file=access.ca_file or (Path(options[form.ca_option]) if form.ca_option in options else None),
        shown=f"{parts.scheme}://{login}{host_shown(host, port)}{parts.path or '/'}{query}",
    )


def _parse_authority(parts: UrlParts, form: UrlForm) -> tuple[str, str, int]:
    if parts.scheme not in form.schemes:
        raise UrlError(f"write it as {form.example}")
    if not parts.hosts:
        raise UrlError("it has no host")
    if not parts.username:
        raise UrlError("it has no user")
    if form.path_refused and parts.path.strip("/"):
        raise UrlError(form.path_refused)
    return parts.username, *split_host(parts.hosts, form.port)


def _parse_options(query: str, form: UrlForm) -> dict[str, str]:
    """Return the URL's options. Raises `UrlError` without quoting an unknown option, which may be a secret."""
    options: dict[str, str] = {}
    for pair in parse_qsl(query, keep_blank_values=True):
        name, text = form.normalize(*pair)
        if name != form.ca_option and text not in form.tls_options.get(name, {}):
            known = "; ".join(f"{each} ({', '.join(values)})" for each, values in form.tls_options.items())
            raise UrlError(f"the options allowed after '?' are {known}; {form.ca_option}")
        options[name] = text
    return options


def _requires_tls(options: dict[str, str], ca_file: Path | None, form: UrlForm) -> bool:
    choices = {form.tls_options[name][text] for name, text in options.items() if name in form.tls_options}
    if form.ca_option in options or ca_file is not None:
        choices.add(True)
    if len(choices) > 1:
        raise UrlError("it requires both plain and TLS; remove one of the two")
    return True in choices
