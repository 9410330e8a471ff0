"""YCSB's data: the keys of its records, and the SQL table of its JDBC binding.

The keys are those of YCSB's core workload (site.ycsb.Utils and CoreWorkload.buildKeyName).
"""

from __future__ import annotations

#: YCSB's defaults: the table's name, the number of fields of a record, and the length of a field in characters.
TABLE = "usertable"
FIELDS = 10
FIELD_LENGTH = 100

FNV_OFFSET_BASIS_64 = 0xCBF29CE484222325
FNV_PRIME_64 = 1099511628211
_MASK = (1 << 64) - 1


def fnv_hash_64(value: int) -> int:
    """Return the 64-bit FNV-1a hash of a record's number, hashed from its lowest byte to its highest.

    As in YCSB, the hash is read as a signed integer, and the result is the absolute value.
    """
    hashed = FNV_OFFSET_BASIS_64
    for _ in range(8):
        hashed = ((hashed ^ (value & 0xFF)) * FNV_PRIME_64) & _MASK
        value >>= 8
    signed = hashed - (1 << 64) if hashed >> 63 else hashed
    return abs(signed)


def create_empty_table(table: str = TABLE) -> str:
    """Return the CREATE TABLE statement, which MySQL and PostgreSQL both accept."""
    fields = ", ".join(f"FIELD{number} TEXT" for number in range(FIELDS))
    return f"CREATE TABLE {table} (YCSB_KEY VARCHAR(255) PRIMARY KEY, {fields})"


def insert_records(records: int) -> str:
    """Return a statement for PostgreSQL that inserts this many records with fields of `FIELD_LENGTH` characters.

    The keys are 'user0', 'user1', … (YCSB's insert order 'ordered').
    """
    text = f"left(repeat(md5(record::text || '-' || {{}}), {FIELD_LENGTH // 32 + 1}), {FIELD_LENGTH})"
    values = ", ".join(text.format(number) for number in range(FIELDS))
    return f"INSERT INTO {TABLE} SELECT 'user' || record, {values} FROM generate_series(0, {records - 1}) AS record"  # noqa: S608


def key_name(number: int) -> str:
    """Return the key of a record in YCSB's insert order 'hashed': 'user' and the hash of the record's number."""
    return f"user{fnv_hash_64(number)}"
