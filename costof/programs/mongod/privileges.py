"""What an account may do in one database of a MongoDB, asked of the server before anything is written.

`readWrite` on that database is enough: what a run makes it drops collection by collection, and a database without any
is gone. `dropDatabase` would need `dbAdmin` besides, and take with it whatever another has put there.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable
from typing import Any

from pymongo.errors import OperationFailure

from costof.errors import CostofError, Problem
from costof.programs.mongod.session import MongodbSession
from costof.programs.mongod.url import MongodbUrl
from costof.programs.own_database import granted_on

ROLE, ROLE_EVERYWHERE = "readWrite", "readWriteAnyDatabase"
#: Of a run, its driver and its end.
ACTIONS = ("find", "insert", "update", "remove", "createCollection", "listCollections", "dropCollection")
UNAUTHORIZED = 13


def check_privileges(
    session: MongodbSession, url: MongodbUrl, database: str, collections: Iterable[str], chosen: str | None
) -> None:
    """Raises `PRIVILEGES_MISSING` with what is to be granted: on `chosen`, or on every database.

    A server that asks nobody who he is lets everybody; one that does refuses a stranger at the next question.
    """
    if url.username is None:
        return
    granted = _granted(session)
    if granted:
        missing = [
            action for action in ACTIONS if not all(_allows(granted, action, database, name) for name in collections)
        ]
    else:
        # A user without roles, or a server that has none and lets everybody do everything.
        missing = [] if _lets_do_all(session, database) else list(ACTIONS)
    if missing:
        raise CostofError(
            Problem.PRIVILEGES_MISSING,
            account=url.username,
            actions=", ".join(missing),
            database=database,
            target=url.shown,
            grant=granted_on(chosen, grant_line(url, chosen)),
        )


def grant_line(url: MongodbUrl, chosen: str | None) -> str:
    """The mongosh line for somebody who may grant. A role is for one database or for all, so names of each run's own
    need the latter."""
    role = {"role": ROLE, "db": chosen} if chosen else {"role": ROLE_EVERYWHERE, "db": "admin"}
    values = ", ".join([json.dumps(url.username or "", ensure_ascii=False), f"[{json.dumps(role)}]"])
    return f"db.getSiblingDB({json.dumps(url.auth_source)}).grantRolesToUser({values})"


def _granted(session: MongodbSession) -> list[dict[str, Any]]:
    """Return the privileges that the server lists; [] of one that does not list them."""
    try:
        status = session.client.admin.command("connectionStatus", showPrivileges=True)
    except OperationFailure:
        return []
    return list(status["authInfo"].get("authenticatedUserPrivileges", []))


def _lets_do_all(session: MongodbSession, database: str) -> bool:
    """Return whether the server lets the account read, delete and drop in a collection that is not there."""
    name = f"costof_{secrets.token_hex(8)}"
    there = session.client[database]

    def ask() -> bool:
        try:
            there[name].find_one()
            there[name].delete_many({})
            there[name].drop()
        except OperationFailure as error:
            if error.code == UNAUTHORIZED:
                return False
            raise
        return True

    return bool(session.asked(ask))


def _allows(granted: list[dict[str, Any]], action: str, database: str, collection: str) -> bool:
    """By the server's rules for resources: an empty name stands for all of them, system collections aside."""
    return any(
        action in privilege["actions"] and _covers(privilege["resource"], database, collection) for privilege in granted
    )


def _covers(resource: dict[str, Any], database: str, collection: str) -> bool:
    if resource.get("anyResource"):
        return True
    return resource.get("db") in ("", database) and resource.get("collection") in ("", collection)
