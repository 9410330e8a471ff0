"""A user's replica set whose members are not all as far."""

from __future__ import annotations

from threading import Event, Thread
from typing import Any

import pytest

from costof.programs.access import Access
from costof.programs.mongod.connection import Client
from costof.programs.mongod.target import OwnMongodb
from costof.programs.target_database import MARKER_NAME
from tests.support.services import user_of_a_set

pytestmark = pytest.mark.servers


def waits_for_the_last_write(member: Client) -> bool:
    asked: dict[str, Any] = {"command.find": MARKER_NAME, "command.readConcern.afterClusterTime": {"$exists": True}}
    return bool(member.admin.command({"currentOp": 1, **asked})["inprog"])


def test_a_load_is_over_when_each_visible_member_has_it_whatever_a_hidden_one_has() -> None:
    with user_of_a_set() as (url, ca_file):
        own = OwnMongodb(Access(url, ca_file, allow_plain=True), "mongodb-tls", "run", records=1)
        own.reach()
        own.claim()
        (late,) = (own.session.member(host) for host in own.hello["hosts"] if host != own.hello["primary"])
        asked_of, over = Event(), Event()

        def let_it_catch_up() -> None:
            while not waits_for_the_last_write(late) and not over.is_set():
                pass
            if not over.is_set():
                asked_of.set()
            late.admin.command("fsyncUnlock")

        catching_up = Thread(target=let_it_catch_up)

        def load() -> None:
            late.admin.command("fsync", lock=True)
            catching_up.start()
            own.session.client[own.database]["data"].insert_one({"_id": 1})

        try:
            own.prepare(load)
            assert asked_of.is_set(), "it was not waited for"
            assert late[own.database]["data"].find_one({"_id": 1}) is not None
        finally:
            over.set()
            catching_up.join()
            own.remove_made()
            own.close()
