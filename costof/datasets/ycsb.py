"""The keys of YCSB's records, as YCSB's core workload makes them (site.ycsb.Utils and CoreWorkload.buildKeyName).

Also the table of its JDBC binding.
"""

from __future__ import annotations

#: The usual name of the table, and its usual number of fields.
TABLE = "usertable"
FIELDS = 10
FIELD_LENGTH = 100

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


def create_empty_table(table: str = TABLE) -> str:
    """Return the statement that creates the table, for MySQL and PostgreSQL."""
    fields = ", ".join(f"FIELD{number} TEXT" for number in range(FIELDS))
    return f"CREATE TABLE {table} (YCSB_KEY VARCHAR(255) PRIMARY KEY, {fields})"


def insert_records(records: int) -> str:
    """Return PostgreSQL's statement that inserts this many records, in the order that YCSB calls 'ordered'.

    The fields have YCSB's default length.
    """
    text = f"left(repeat(md5(record::text || '-' || {{}}), {FIELD_LENGTH // 32 + 1}), {FIELD_LENGTH})"
    values = ", ".join(text.format(number) for number in range(FIELDS))
    return f"INSERT INTO {TABLE} SELECT 'user' || record, {values} FROM generate_series(0, {records - 1}) AS record"  # noqa: S608


def key_name(number: int) -> str:
    """Return the `_id` of record `number` if YCSB inserts in hashed order: 'user' and the hash of the number."""
    return f"user{fnv_hash_64(number)}"
