"""`postgresql://user:password@host:5432/database?sslmode=…`: where a server is, who we are there, whether it is TLS."""

from __future__ import annotations

from urllib.parse import unquote

from costof.programs.access import Access
from costof.programs.login_url import LoginUrl, UrlForm, parse_login_url

SCHEMES = ("postgres", "postgresql")
#: Where libpq goes, where nobody names a database: every server has it.
DATABASE = "postgres"
#: The options are libpq's.
FORM = UrlForm(
    schemes=SCHEMES,
    example="postgresql://user:password@host:5432/database",
    port=5432,
    asks_tls={"sslmode": {"disable": False, "require": True, "verify-ca": True, "verify-full": True}},
    ca_option="sslrootcert",
)


def parse_postgres_url(access: Access, study: str) -> LoginUrl:
    """Raises `BAD_TARGET`, `PASSWORD_TWICE`."""
    return parse_login_url(access, study, FORM)


def first_database(url: LoginUrl) -> str:
    """From which another can be asked for."""
    return unquote(url.path.strip("/")) or DATABASE
