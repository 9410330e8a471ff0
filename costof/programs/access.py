"""How a user's own servers are reached: what a command line says of them, beside the study."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from pydantic import SecretStr

from costof.errors import CostofError, Problem
from costof.programs.password import Password


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
        """The one password there is. Raises `PASSWORD_TWICE`."""
        if of_url is None:
            return self.password.value if self.password else None
        if self.password is not None and self.password.said:
            raise CostofError(Problem.PASSWORD_TWICE, ways="the URL and an option")
        return of_url
