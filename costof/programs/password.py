"""A password that is not in the URL: from a file, a prompt or the environment, for a command line is everybody's."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click
from pydantic import SecretStr

from costof.errors import CostofError, Problem
from costof.programs.password_variable import VARIABLE


@dataclass(frozen=True)
class Password:
    """`said`: by an option, so that another one in the URL contradicts it; the environment's is for URLs without."""

    value: SecretStr
    said: bool


def take_password(file: Path | None, ask: bool, of_environment: str | None) -> Password | None:
    """The password by whichever way was chosen. Raises `PASSWORD_TWICE`, `PASSWORD_FILE`, `PASSWORD_VARIABLE`."""
    if file is not None and ask:
        raise CostofError(Problem.PASSWORD_TWICE, ways="--password-file and --ask-password")
    if file is not None:
        return Password(SecretStr(_of_file(file)), said=True)
    if ask:
        return Password(SecretStr(click.prompt("Password", hide_input=True, err=True)), said=True)
    return Password(SecretStr(_utf8(of_environment)), said=False) if of_environment is not None else None


def _of_file(path: Path) -> str:
    """Its text without the end of its line."""
    try:
        text = path.read_bytes().decode()
    except OSError as error:
        raise CostofError(Problem.PASSWORD_FILE, path=path, detail=error.strerror) from None
    except UnicodeDecodeError:
        raise CostofError(Problem.PASSWORD_FILE, path=path, detail="it is not UTF-8") from None
    line, _, rest = text.partition("\n")
    if rest.strip():
        raise CostofError(Problem.PASSWORD_FILE, path=path, detail="it has more than one line")
    return line.removesuffix("\r")


def _utf8(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise CostofError(Problem.PASSWORD_VARIABLE, name=VARIABLE) from None
    return text
