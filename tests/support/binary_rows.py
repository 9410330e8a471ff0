"""Rows as prepared statements get them, value by value, as they stand in their packets."""

from __future__ import annotations

import struct
from typing import Any

import pymysql
from pymysql.constants import COMMAND, FIELD_TYPE
from pymysql.protocol import FieldDescriptorPacket

# Bytes of the types whose values have no length before them (MySQL Internals, "Binary Protocol Value").
FIXED = {
    FIELD_TYPE.TINY: 1,
    FIELD_TYPE.SHORT: 2,
    FIELD_TYPE.YEAR: 2,
    FIELD_TYPE.INT24: 4,
    FIELD_TYPE.LONG: 4,
    FIELD_TYPE.FLOAT: 4,
    FIELD_TYPE.DOUBLE: 8,
    FIELD_TYPE.LONGLONG: 8,
}
PREPARED = struct.Struct("<BIHH")  # status, statement, columns, parameters
EXECUTE = struct.Struct("<IBI")  # statement, no cursor, once


def binary_rows(connection: pymysql.Connection, statement: str) -> tuple[list[Any], list[list[bytes | None]]]:
    """Definitions of the columns, and each row's values without their lengths; a statement without parameters."""
    connection._execute_command(COMMAND.COM_STMT_PREPARE, statement)
    _, number, columns, _ = PREPARED.unpack_from(connection._read_packet().get_all_data())
    for _ in range(columns + 1):
        connection._read_packet()
    connection._execute_command(COMMAND.COM_STMT_EXECUTE, EXECUTE.pack(number, 0, 1))
    connection._read_packet()
    fields = [connection._read_packet(FieldDescriptorPacket) for _ in range(columns)]
    assert connection._read_packet().is_eof_packet()
    rows = []
    while not (packet := connection._read_packet()).is_eof_packet():
        rows.append(_values(packet, [_kind_on_the_wire(field) for field in fields]))
    return fields, rows


def _kind_on_the_wire(field: Any) -> int:
    """The type that the definition names: a driver that decrypts shows the original one instead."""
    field.rewind()
    for _ in range(6):
        field.read_length_coded_string()
    return int(struct.unpack("<xHIB", field.read(8))[2])


def _values(packet: Any, kinds: list[int]) -> list[bytes | None]:
    packet.rewind(1)
    # Two bits stand before those of the columns (MySQL Internals, "NULL-Bitmap").
    nulls = int.from_bytes(packet.read((len(kinds) + 9) // 8), "little") >> 2
    return [None if nulls >> place & 1 else _value(packet, kind) for place, kind in enumerate(kinds)]


def _value(packet: Any, kind: int) -> bytes:
    if kind in FIXED:
        return bytes(packet.read(FIXED[kind]))
    return bytes(packet.read_length_coded_string())
