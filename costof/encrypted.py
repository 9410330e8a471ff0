"""A driver that decrypts what a gateway has encrypted, for an application, in three lines:

    from costof import encrypted
    connection = encrypted.connect(host="db.example", user="shop", password="…", master_keys={"app": "0011…eeff"})
    cursor = connection.cursor()

It is PyMySQL: `connect` takes what `pymysql.connect` takes, and cursors of every class give what they would have given
without the gateway, `cursor.description` included. What cannot be decrypted is an `EncryptionError`; it names the
column and never its value, and the connection is closed, since what comes next on it is not known. A column that nobody
there can decrypt (the gateway's role `opaque`) is its ciphertext, as bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pymysql
from pymysql.connections import MySQLResult
from pymysql.constants import COMMAND
from pymysql.err import DatabaseError
from pymysql.protocol import FieldDescriptorPacket, MysqlPacket

from costof.column_encryption import Envelope, KeyRing, Opener, RefusedError, RowFormat

# By this attribute a client tells a gateway that it decrypts.
DECRYPTS = "costof_encrypted"


class EncryptionError(DatabaseError):
    """A missing or wrong master key, or a changed ciphertext."""


def connect(*, master_keys: Mapping[str, str | bytes], **settings: Any) -> Connection:
    """A connection; `settings` are PyMySQL's. Keys are 16 bytes, or the same in hexadecimal, by the names that the
    gateway's rules call them.

    Raises `EncryptionError` for what is no key, and what `pymysql.connect` raises.
    """
    return Connection(master_keys=master_keys, **settings)


class Connection(pymysql.Connection):
    """PyMySQL's, on which columns are decrypted."""

    def __init__(self, *, master_keys: Mapping[str, str | bytes], **settings: Any) -> None:
        try:
            self._key_ring = KeyRing(master_keys)
        except RefusedError as refused:
            raise EncryptionError(str(refused)) from None
        super().__init__(**settings)

    def connect(self, sock: Any = None) -> None:
        self._connect_attrs[DECRYPTS] = "1"
        super().connect(sock)

    def show_warnings(self) -> Any:
        self._execute_command(COMMAND.COM_QUERY, "SHOW WARNINGS")
        result = _Result(self)
        result.read()
        return result.rows

    def _read_packet(self, packet_type: type[MysqlPacket] = MysqlPacket) -> Any:
        return super()._read_packet(_Field if packet_type is FieldDescriptorPacket else packet_type)

    def _read_query_result(self, unbuffered: bool = False) -> Any:
        """As PyMySQL's, with our kind of result."""
        self._result = None
        result = _Result(self)
        if unbuffered:
            result.init_unbuffered_query()
        else:
            result.read()
        self._result = result
        if result.server_status is not None:
            self.server_status = result.server_status
        return result.affected_rows


class _Field(FieldDescriptorPacket):
    """A column's definition as the server sent it, and the envelope that a gateway put behind it."""

    def _parse_field_descriptor(self, encoding: str) -> None:
        super()._parse_field_descriptor(encoding)
        tail = self.read_all()
        self.rewind()
        _catalog, database, _table, table, _name, column = (self.read_length_coded_string() for _ in range(6))
        self.names = database, table, column
        self.envelope = self._decrypting(lambda: Envelope.parse(tail))
        if self.envelope is not None and not self.envelope.is_opaque:
            self.charsetnr, self.length, self.type_code, self.flags, self.scale = self.envelope.original

    def converter(self, key_ring: KeyRing, encoding: str | None, convert: Any) -> Callable[[bytes], Any]:
        """What makes of a value's ciphertext what PyMySQL makes of the value."""
        envelope = self.envelope
        opener: Opener = self._decrypting(lambda: key_ring.opener(envelope))
        associated = envelope.associated_data(RowFormat.TEXT, self.names)

        def read(sealed: bytes) -> Any:
            data: Any = self._decrypting(lambda: opener.open(associated, sealed))
            if encoding is not None:
                data = data.decode(encoding)
            return data if convert is None else convert(data)

        return read

    def _decrypting(self, what: Callable[[], Any]) -> Any:
        try:
            return what()
        except RefusedError as refused:
            names = [name.decode(errors="replace") for name in self.names] if self.names[2] else [self.name]
            label = "".join(letter if letter.isprintable() else "?" for letter in ".".join(names))
            raise EncryptionError(f"column {label}: {refused}") from None


class _Result(MySQLResult):
    """PyMySQL's, with converters that decrypt first."""

    def _get_descriptions(self) -> None:
        connection = self.connection
        try:
            super()._get_descriptions()
            for place, field in enumerate(self.fields):
                if field.envelope is not None and not field.envelope.is_opaque:
                    self.converters[place] = (None, field.converter(connection._key_ring, *self.converters[place]))
        except EncryptionError:
            self._give_up()
            raise

    def _read_row_from_packet(self, packet: MysqlPacket) -> Any:
        try:
            return super()._read_row_from_packet(packet)
        except EncryptionError:
            self._give_up()
            raise

    def _give_up(self) -> None:
        """What is left of this result would be taken for the next one's."""
        self.unbuffered_active = False
        self.connection._force_close()
        self.connection = None
