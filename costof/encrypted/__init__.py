"""A MySQL driver, based on PyMySQL, that decrypts the columns which a gateway (an encrypting proxy) has encrypted.

An application needs three lines:

    from costof import encrypted
    connection = encrypted.connect(host="db.example", user="shop", password="…", master_keys={"app": "0011…eeff"})
    cursor = connection.cursor()

`connect` accepts all arguments of `pymysql.connect`. All cursor classes return the same rows and the same
`cursor.description` as without the gateway. A value that cannot be decrypted raises `EncryptionError`, which names the
column but never contains the value. The connection is then closed. If the gateway does not give this client the key of
a column (the gateway's role `opaque`), the column's values are returned as ciphertext, in bytes.

`must_be_encrypted=["shop.people.name"]` lists columns as 'database.table.column'. An alias of the table or of the
column in a query does not hide the column. If a listed column arrives unencrypted, `EncryptionError` is raised.
Possible causes: a rule of the gateway was removed, the connection bypasses the gateway, or somebody between gateway
and client removed the encryption parameters that the gateway adds to each result set.

`close` erases the master keys, so a closed connection cannot be opened again.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pymysql
from pymysql.connections import MySQLResult
from pymysql.constants import COMMAND
from pymysql.err import DatabaseError
from pymysql.protocol import FieldDescriptorPacket, MysqlPacket

from costof.encrypted.envelope import Envelope, RefusedError, RowFormat
from costof.encrypted.keys import KeyRing, SessionKeys, session_salt
from costof.encrypted.required_columns import RequiredColumns
from costof.encrypted.schemes import Opener
from costof.errors import Undecipherable

# Connection attributes that a client sends to the gateway (the encrypting proxy). The attribute `DECRYPTS` announces
# that the client can decrypt. The attribute `NONCE` has random bytes, from which both sides derive the keys of this
# session.
DECRYPTS = "costof_encrypted"
NONCE = "costof_nonce"
NONCE_BYTES = 32


class EncryptionError(DatabaseError):
    """Raised for a missing or wrong master key, a changed ciphertext, or a plain column that must be encrypted."""


def connect(
    *, master_keys: Mapping[str, str | bytes], must_be_encrypted: Iterable[str] = (), **settings: Any
) -> Connection:
    """Open a connection. `settings` are the arguments of `pymysql.connect`.

    `master_keys` maps the names of keys in the rules of the gateway (the encrypting proxy) to keys of 16 bytes or 32
    hexadecimal digits. `must_be_encrypted` lists columns as 'database.table.column', in upper or lower case.

    Raises `EncryptionError` for an invalid key or column name, and all errors of `pymysql.connect`.
    """
    return Connection(master_keys=master_keys, must_be_encrypted=must_be_encrypted, **settings)


def announcement(nonce: bytes) -> dict[str, str]:
    """Return the connection attributes that tell the gateway (an encrypting proxy) that a client can decrypt.

    `nonce` must be 32 random bytes, new for each connection.
    """
    return {DECRYPTS: "1", NONCE: nonce.hex()}


class Connection(pymysql.Connection):
    """A PyMySQL connection that decrypts columns."""

    def __init__(
        self, *, master_keys: Mapping[str, str | bytes], must_be_encrypted: Iterable[str] = (), **settings: Any
    ) -> None:
        self._session_keys: SessionKeys | None = None
        self._key_ring = KeyRing({})
        try:
            self._required_columns = RequiredColumns(must_be_encrypted)
            self._key_ring = KeyRing(master_keys)
        except RefusedError as refused:
            raise EncryptionError(str(refused)) from None
        super().__init__(**settings)

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._key_ring.erase()

    def __del__(self) -> None:
        self._force_close()
        self._key_ring.erase()

    def _force_close(self) -> None:
        if self._session_keys is not None:
            self._session_keys.erase()
        super()._force_close()

    def _get_server_information(self) -> None:
        super()._get_server_information()
        # `salt` is the server's random challenge. Read it here, because PyMySQL replaces it if the server switches to
        # another authentication method, and the keys would then differ from the gateway's.
        nonce = secrets.token_bytes(NONCE_BYTES)
        try:
            self._session_keys = self._key_ring.session(session_salt(self.salt, nonce))
        except RefusedError as refused:
            raise EncryptionError(str(refused)) from None
        self._connect_attrs.update(announcement(nonce))

    def show_warnings(self) -> Any:
        self._execute_command(COMMAND.COM_QUERY, "SHOW WARNINGS")
        result = _Result(self)
        result.read()
        return result.rows

    def _read_packet(self, packet_type: type[MysqlPacket] = MysqlPacket) -> Any:
        return super()._read_packet(_Field if packet_type is FieldDescriptorPacket else packet_type)

    def _read_query_result(self, unbuffered: bool = False) -> Any:
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
    """A column's definition in a result set, with the encryption parameters ("envelope") that a gateway appended."""

    def _parse_field_descriptor(self, encoding: str) -> None:
        super()._parse_field_descriptor(encoding)
        tail = self.read_all()
        self.rewind()
        _catalog, database, alias, table, name, column = (self.read_length_coded_string() for _ in range(6))
        self.names = database, table, column
        self._shown = database, alias, name
        self._encoding = encoding
        self.envelope = self._decrypting(lambda: Envelope.parse(tail))
        if self.envelope is not None and not self.envelope.is_opaque:
            self.charsetnr, self.length, self.type_code, self.flags, self.scale = self.envelope.original

    def check_encrypted(self, required: RequiredColumns) -> None:
        """Raise `EncryptionError` if `required` lists this column, by its original names or by its aliases.

        Call this function only if the column arrived unencrypted, or encrypted with a key that this client lacks.
        """
        for names in (self.names, self._shown) if required else ():
            if required.include(name.decode(self._encoding, "replace") for name in names):
                self._decrypting(_refuse_plain)

    def converter(self, keys: SessionKeys, encoding: str | None, convert: Any) -> Callable[[bytes], Any]:
        envelope = self.envelope
        opener: Opener = self._decrypting(lambda: keys.opener(envelope))
        associated = envelope.associated_data(RowFormat.TEXT, self.names)

        def read(sealed: bytes) -> Any:
            data: Any = self._decrypting(lambda: opener.open(associated, sealed))
            if encoding is not None:
                data = data.decode(encoding)
            return data if convert is None else convert(data)

        return read

    def _decrypting(self, step: Callable[[], Any]) -> Any:
        """Call `step`, and convert a `RefusedError` into an `EncryptionError` that names the column."""
        try:
            return step()
        except RefusedError as refused:
            names = [name.decode(errors="replace") for name in self.names] if self.names[2] else [self.name]
            label = "".join(letter if letter.isprintable() else "?" for letter in ".".join(names))
            raise EncryptionError(f"column {label}: {refused}") from None


def _refuse_plain() -> None:
    raise RefusedError(Undecipherable.NOT_ENCRYPTED)


class _Result(MySQLResult):
    """A PyMySQL result that decrypts each value before PyMySQL converts it."""

    def _get_descriptions(self) -> None:
        connection = self.connection
        try:
            super()._get_descriptions()
            connection._session_keys.begin()
            for place, field in enumerate(self.fields):
                # Without the key of an opaque column, this client cannot check that the values are encrypted. The
                # column therefore counts as unencrypted.
                if field.envelope is None or field.envelope.is_opaque:
                    field.check_encrypted(connection._required_columns)
                else:
                    self.converters[place] = (None, field.converter(connection._session_keys, *self.converters[place]))
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
        """Close the connection. The next query would otherwise take the unread rows of this result for its own."""
        self.unbuffered_active = False
        self.connection._force_close()
        self.connection = None
