"""Tests of the search for canaries (known values): it finds a value in every encoding, and nothing else."""

from __future__ import annotations

import base64
import hashlib
import random

import pytest

from tests.gateway.canaries import Canaries

NAMES = (b"kQ7vXz2Lm9TbRw4e", b"Zp3NcYd8Hs6GfJ1u")
SALARIES = (1_739_402_685,)
NAME, SALARY = NAMES[0], SALARIES[0]


@pytest.mark.parametrize(
    "form",
    [
        NAME,
        NAME[5:11],
        NAME.swapcase(),
        NAME.upper(),
        NAME.lower()[3:9],
        NAME[::-1],
        NAME.hex().encode(),
        NAME.hex().upper().encode()[2:14],
        base64.b64encode(NAME),
        base64.b64encode(b"x" + NAME),
        base64.b64encode(b"xy" + NAME),
        NAME.decode().encode("utf-16-le"),
        NAME.decode().encode("utf-16-be"),
        NAME.decode().encode("utf-32-be"),
        hashlib.md5(NAME).hexdigest().encode(),
        hashlib.sha1(NAME).digest(),
        hashlib.sha256(NAME).hexdigest().upper().encode(),
        str(SALARY).encode(),
        str(SALARY)[1:].encode(),
        f"{SALARY:x}".encode(),
    ],
)
def test_protected_value_is_detected_in_each_encoding(form: bytes) -> None:
    canaries = Canaries(NAMES, SALARIES)
    assert canaries.found(b"..." + form + b"...")
    assert not canaries.found(form[:5] + b"." + form[6:11])


def test_random_bytes_are_not_mistaken_for_a_protected_value() -> None:
    noise = random.Random(1).randbytes(1 << 20)
    assert not Canaries(NAMES, SALARIES).found(noise)
