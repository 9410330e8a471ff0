"""What an account may do in one database, asked of the server before anything is written.

Grants come from roles, wildcards and partial revokes, and two servers tell them in two ways. So none are read: the
server is asked to use a table that is not there. It says "denied" to whoever may not, and "no such table" to whoever
may, and nothing can come of either.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable

from pymysql.constants import ER
from pymysql.err import MySQLError

from costof.errors import CostofError, Problem
from costof.programs.mariadb.session import MysqlSession, code_of
from costof.programs.own_database import PREFIX, granted_on

_ASKS = {
    # The same column twice: were the database there, no table could come of it.
    "CREATE": "CREATE TABLE {table} (a INT, a INT)",
    "DROP": "DROP TABLE {table}",
    "SELECT": "SELECT 1 FROM {table}",
    "INSERT": "INSERT INTO {table} VALUES (1)",
    "UPDATE": "UPDATE {table} SET a = 1",
    "DELETE": "DELETE FROM {table}",
    "INDEX": "CREATE INDEX i ON {table} (a)",
}
_DENIED = (ER.DBACCESS_DENIED_ERROR, ER.TABLEACCESS_DENIED_ERROR, ER.COLUMNACCESS_DENIED_ERROR)


def check_privileges(
    session: MysqlSession, database: str, needed: Iterable[str], target: str, chosen: str | None
) -> None:
    """Raises `PRIVILEGES_MISSING` with what is to be granted: on `chosen`, or on all of the names that costof takes."""
    missing = [name for name in needed if not _may(session, database, name)]
    if not missing:
        return
    ((account,),) = session.ask("SELECT CURRENT_USER()")
    user, _, host = str(account).rpartition("@")
    raise CostofError(
        Problem.PRIVILEGES_MISSING,
        account=account,
        actions=", ".join(missing),
        database=database,
        target=target,
        grant=granted_on(chosen, grant_line(needed, chosen, user, host)),
    )


def grant_line(needed: Iterable[str], chosen: str | None, user: str, host: str = "%") -> str:
    """The statement for somebody who may grant: on one database, or on all of the names that costof takes."""
    # An underscore stands for any character in a grant.
    pattern = (chosen or PREFIX).replace("_", r"\_") + ("" if chosen else "%")
    account = "@".join("'" + part.replace("'", "''") + "'" for part in (user, host))
    return f"GRANT {', '.join(needed)} ON `{pattern}`.* TO {account};"


def _may(session: MysqlSession, database: str, privilege: str) -> bool:
    table = f"`{database}`.`costof_{secrets.token_hex(8)}`"
    try:
        session.try_to(_ASKS[privilege].format(table=table))
    except MySQLError as error:
        return code_of(error) not in _DENIED
    return True
