"""`scheme://user:password@host:port/…?option=…`: the URL of one server with accounts, of whatever program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl

from pydantic import SecretStr

from costof.errors import CostofError, Problem
from costof.programs.access import Access
from costof.urls import UrlError, UrlParts, host_shown, login_shown, split_host, split_url


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
        raise CostofError(Problem.BAD_TARGET, study=study, detail=str(error)) from None
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
    """Only what is known is kept, so that all of it can be shown."""
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
