"""The memory of a user's servers, read from the output of a command that the user names (--server-memory)."""

from __future__ import annotations

import re

import pytest

from costof.errors import CostofError
from costof.services.server_memory import ServerMemory, parse_bytes

PROCESS = "Rss:                2048 kB\nPss:                1000 kB\nPss_Dirty:           112 kB\n"


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("1048576\n", 2**20),
        ("1000000 2000000", 3_000_000),
        ("812 MiB", 812 * 2**20),
        ("1.5GiB\n200 kB", 3 * 2**29 + 200 * 1024),
        (PROCESS, 1_024_000),
        (PROCESS * 2, 2_048_000),
        ("Name:\tredis-server\nVmRSS:\t    9000 kB\nRssAnon:\t 7000 kB\n", 9_216_000),
        ("MemoryCurrent=123456789\n", 123_456_789),
        ("process_open_fds 9\nprocess_resident_memory_bytes 1.2e+08\n", 120_000_000),
    ],
)
def test_printed_memory_is_parsed_in_every_supported_format(printed: str, expected: int) -> None:
    assert parse_bytes(printed) == expected


@pytest.mark.parametrize("printed", ["none", "MemoryCurrent=[not set]", "12 parsecs", "a 12"])
def test_output_of_the_server_memory_command_without_a_number_is_refused(printed: str) -> None:
    with pytest.raises(ValueError, match=re.escape(printed)):
        parse_bytes(printed)


def test_memory_reading_too_small_for_any_server_is_refused() -> None:
    with pytest.raises(CostofError, match=r"it printed '9000', which is 9\.00.kB, less than any server uses"):
        ServerMemory("echo 9000").read()


def test_failing_server_memory_command_is_reported() -> None:
    with pytest.raises(CostofError, match="--server-memory false: "):
        ServerMemory("false").read()
