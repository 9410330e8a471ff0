"""`mysql://user:password@host:3306/?ssl-mode=…`: where a server is, who we are there, and whether it must be TLS."""

from __future__ import annotations

from costof.programs.access import Access
from costof.programs.login_url import LoginUrl, UrlForm, parse_login_url

SCHEMES = ("mysql", "mariadb")
CA_OPTION = "ssl-ca"
#: The options of MySQL's own clients.
_SWITCH = {"true": True, "1": True, "false": False, "0": False}
ASKS_TLS = {
    "ssl-mode": {"disabled": False, "required": True, "verify_ca": True, "verify_identity": True},
    "tls": _SWITCH,
    "ssl": _SWITCH,
}


def parse_mysql_url(access: Access, study: str) -> LoginUrl:
    """Raises `BAD_TARGET`, `PASSWORD_TWICE`."""
    return parse_login_url(access, study, FORM)


def _spelled(written: str, text: str) -> tuple[str, str]:
    """Its clients write 'ssl_mode' and 'sslmode' too, and values in capitals."""
    name = written.lower().replace("_", "-").replace("sslmode", "ssl-mode")
    return name, text if name == CA_OPTION else text.lower().replace("-", "_")


FORM = UrlForm(
    schemes=SCHEMES,
    example="mysql://user:password@host:3306/",
    port=3306,
    asks_tls=ASKS_TLS,
    ca_option=CA_OPTION,
    spelled=_spelled,
    path_refused="leave the path out: costof makes a database of its own, which --database names",
)
