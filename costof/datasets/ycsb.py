"""YCSB's records: their keys, as YCSB's core workload makes them (site.ycsb.Utils and CoreWorkload.buildKeyName), and a
table with records in PostgreSQL."""

from __future__ import annotations

FNV_OFFSET_BASIS_64 = 0xCBF29CE484222325
FNV_PRIME_64 = 1099511628211
_MASK = (1 << 64) - 1


def fnv_hash_64(value: int) -> int:
    """Return the FNV-1a hash of a record's number. The number's bytes are hashed from the lowest to the highest.

    As in YCSB, the result is the absolute value of the hash as a signed 64-bit integer.
    """
    hashed = FNV_OFFSET_BASIS_64
    for _ in range(8):
        hashed = ((hashed ^ (value & 0xFF)) * FNV_PRIME_64) & _MASK
        value >>= 8
    signed = hashed - (1 << 64) if hashed >> 63 else hashed
    return abs(signed)


def key_name(number: int) -> str:
    """Return the `_id` of record `number` if YCSB inserts in hashed order: 'user' and the hash of the number."""
    return f"user{fnv_hash_64(number)}"


TABLE = "usertable"
FIELDS = 10
FIELD_LENGTH = 100


def create_table(records: int) -> list[str]:
    """Return PostgreSQL's statements that create YCSB's table with this many records.

    The keys are those of YCSB's option `insertorder=ordered`. The fields have YCSB's default number and length.
    """
    columns = ", ".join(f"FIELD{number} TEXT" for number in range(FIELDS))
    text = f"left(repeat(md5(record::text || '-' || {{}}), {FIELD_LENGTH // 32 + 1}), {FIELD_LENGTH})"
    values = ", ".join(text.format(number) for number in range(FIELDS))
    rows = f"SELECT 'user' || record, {values} FROM generate_series(0, {records - 1}) AS record"  # noqa: S608
    return [f"CREATE TABLE {TABLE} (YCSB_KEY VARCHAR(255) PRIMARY KEY, {columns})", f"INSERT INTO {TABLE} {rows}"]


def after_load() -> list[str]:
    return [f"VACUUM ANALYZE {TABLE}"]
