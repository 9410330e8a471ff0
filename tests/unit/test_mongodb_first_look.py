"""What is told of a MongoDB whose addresses all fail: their own words, as soon as each has failed once."""

from __future__ import annotations

import pytest
from pymongo.errors import AutoReconnect, ServerSelectionTimeoutError
from pymongo.monitoring import ServerHeartbeatFailedEvent, ServerHeartbeatSucceededEvent

from costof.programs.mongod.connection import FirstLook

HERE, THERE = ("127.0.0.1", 1), ("127.0.0.1", 2)


def failed(address: tuple[str, int], words: str) -> ServerHeartbeatFailedEvent:
    return ServerHeartbeatFailedEvent(0.0, AutoReconnect(words), address)


def test_each_failure_is_told_once_though_the_client_has_not_heard_of_it_yet() -> None:
    look = FirstLook(addresses=2)
    look.failed(failed(HERE, "certificate is not valid"))
    look.failed(failed(HERE, "a second try"))
    look.failed(failed(THERE, "Connection refused"))
    with pytest.raises(ServerSelectionTimeoutError, match=r"^certificate is not valid,Connection refused$"):
        look.found()


def test_one_address_that_answers_is_enough() -> None:
    look = FirstLook(addresses=2)
    look.failed(failed(HERE, "Connection refused"))
    look.succeeded(ServerHeartbeatSucceededEvent(0.0, None, THERE))
    look.failed(failed(THERE, "Connection refused"))
    look.found()
