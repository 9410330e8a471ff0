"""Names of records as YCSB makes them."""

from __future__ import annotations

import pytest

from costof.datasets.ycsb import FNV_OFFSET_BASIS_64, FNV_PRIME_64, fnv_hash_64, key_name


def published_algorithm(value: int) -> int:
    """FNV-1a over the eight octets of a Java long, lowest first, in Java's signed 64-bit arithmetic."""
    hashed = FNV_OFFSET_BASIS_64 - (1 << 64)
    for _ in range(8):
        octet = value & 0xFF
        value >>= 8
        hashed ^= octet
        hashed = (hashed * FNV_PRIME_64 + (1 << 63)) % (1 << 64) - (1 << 63)
    return abs(hashed)


@pytest.mark.parametrize("number", [0, 1, 2, 255, 256, 999_999, 2**40 + 7])
def test_hash_agrees_with_the_published_algorithm(number: int) -> None:
    assert fnv_hash_64(number) == published_algorithm(number)


def test_key_zero_is_the_key_every_ycsb_table_begins_with() -> None:
    assert key_name(0) == "user6284781860667377211"
