"""How a user's own server is reached: URL, CA file, and the ways to give a password."""

from __future__ import annotations

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
    """Raises `TLS_CA_INVALID` unless the file holds certificates in PEM."""
    if path is None:
        return
    # Imported here: most name none.
    from cryptography import x509

    try:
        x509.load_pem_x509_certificates(path.read_bytes())
    except OSError as error:
        raise CostofError(ErrorText.TLS_CA_INVALID, path=path, detail=error.strerror) from None
    except ValueError:
        raise CostofError(ErrorText.TLS_CA_INVALID, path=path, detail="it holds no certificate") from None


@dataclass(frozen=True)
class Password:
    """`said`: by an option, so that another one in the URL contradicts it; the environment's is for URLs without."""

    value: SecretStr
    said: bool


def read_password(file: Path | None, ask: bool, of_environment: str | None) -> Password | None:
    """Return the password by the chosen way. Raises `PASSWORD_TWICE`, `PASSWORD_FILE`, `PASSWORD_VARIABLE`."""
    if file is not None and ask:
        raise CostofError(ErrorText.PASSWORD_TWICE, ways="--password-file and --ask-password")
    if file is not None:
        return Password(SecretStr(_of_file(file)), said=True)
    if ask:
        return Password(SecretStr(click.prompt("Password", hide_input=True, err=True)), said=True)
    if of_environment is None:
        return None
    try:
        of_environment.encode()
    except UnicodeEncodeError:
        raise CostofError(ErrorText.PASSWORD_VARIABLE, name=VARIABLE) from None
    return Password(SecretStr(of_environment), said=False)


def _of_file(path: Path) -> str:
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
    """URLs of a target without secrets, as plans and reports show them."""

    url: str
    plain_url: str | None = None
    pooler_url: str | None = None
    with_password: bool = False


@dataclass(frozen=True)
class Access:
    """`url` and `password` are as they were said, and shown nowhere. `database`: the user's choice for the run's own.

    `allow_plain`: arms without TLS may be measured though TLS is asked for. `server_cpu`: a command that prints the
    CPU seconds of these servers. `pooler_url`: of what stands before them.
    """

    url: str = field(repr=False)
    ca_file: Path | None = None
    plain_url: str | None = field(default=None, repr=False)
    password: Password | None = None
    database: str | None = None
    allow_plain: bool = False
    server_cpu: str | None = None
    pooler_url: str | None = field(default=None, repr=False)

    def password_beside(self, of_url: SecretStr | None) -> SecretStr | None:
        """Return the one password there is. Raises `PASSWORD_TWICE`."""
        if of_url is None:
            return self.password.value if self.password else None
        if self.password is not None and self.password.said:
            raise CostofError(ErrorText.PASSWORD_TWICE, ways="the URL and an option")
        return of_url


@dataclass(frozen=True)
class UrlForm:
    """How one kind of server is written.

    `asks_tls` has the options that say whether it is TLS, with the values that they take. All TLS is verified, names
    too; what may silently be plain is no answer to what is measured. `ca_option` names a file of authorities.
    `spelled` brings an option and its value to the names of `asks_tls`. `path_refused`: why none may be there.
    """

    schemes: tuple[str, ...]
    example: str
    port: int
    asks_tls: Mapping[str, Mapping[str, bool]]
    ca_option: str
    spelled: Callable[[str, str], tuple[str, str]] = lambda name, text: (name, text)
    path_refused: str | None = None


@dataclass(frozen=True)
class LoginUrl:
    """`password` is empty where there is none. `path` with its slash, as it was written. `shown` has no secret in it.

    `tls`: asked for, so that nothing is ever said in plain but where an arm is plain and that was allowed.
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
    """Raises `BAD_TARGET`, `PASSWORD_TWICE`."""
    try:
        parts = split_url(access.url, form.example)
        username, host, port = _place(parts, form)
        options = _options(parts.query, form)
        tls = _tls(options, access.ca_file, form)
    except UrlError as error:
        raise CostofError(ErrorText.BAD_TARGET, study=study, detail=str(error)) from None
    told = login_shown(username, parts.password is not None)
    query = "?" + "&".join(f"{name}={text}" for name, text in options.items()) if options else ""
    return LoginUrl(
        host=host,
        port=port,
        username=username,
        password=access.password_beside(parts.password) or SecretStr(""),
        path=parts.path,
        tls=tls,
        ca_file=access.ca_file or (Path(options[form.ca_option]) if form.ca_option in options else None),
        shown=f"{parts.scheme}://{told}{host_shown(host, port)}{parts.path or '/'}{query}",
    )


def _place(parts: UrlParts, form: UrlForm) -> tuple[str, str, int]:
    if parts.scheme not in form.schemes:
        raise UrlError(f"write it as {form.example}")
    if not parts.hosts:
        raise UrlError("it names no host")
    if not parts.username:
        raise UrlError("it names no user")
    if form.path_refused and parts.path.strip("/"):
        raise UrlError(form.path_refused)
    return parts.username, *split_host(parts.hosts, form.port)


def _options(query: str, form: UrlForm) -> dict[str, str]:
    """Read the options. Only what is known is kept, so that all of it can be shown."""
    found: dict[str, str] = {}
    for written in parse_qsl(query, keep_blank_values=True):
        name, text = form.spelled(*written)
        if name != form.ca_option and text not in form.asks_tls.get(name, {}):
            known = "; ".join(f"{each} ({', '.join(values)})" for each, values in form.asks_tls.items())
            raise UrlError(f"what may stand after '?' is {known}; {form.ca_option}")
        found[name] = text
    return found


def _tls(options: dict[str, str], ca_file: Path | None, form: UrlForm) -> bool:
    said = {form.asks_tls[name][text] for name, text in options.items() if name in form.asks_tls}
    if form.ca_option in options or ca_file is not None:
        said.add(True)
    if len(said) > 1:
        raise UrlError("it asks for plain and for TLS at once; leave one of the two out")
    return True in said
