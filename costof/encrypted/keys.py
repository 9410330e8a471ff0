"""Master keys, and the data keys of a session that they unwrap."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from cryptography.hazmat.primitives.keywrap import InvalidUnwrap, aes_key_unwrap

from costof.encrypted.envelope import Algorithm, Envelope, RefusedError
from costof.encrypted.schemes import KEY, Opener, erase, opener
from costof.errors import Undecipherable

SCRAMBLE = 20


def session_salt(scramble: bytes, nonce: bytes) -> bytes:
    """Return what binds keys to a session: the scramble of the server's greeting and the client's nonce."""
    return hashlib.sha256(scramble[:SCRAMBLE] + nonce).digest()


def master_key(key: str | bytes) -> bytearray:
    """Return the 16 bytes of a key, which may be hexadecimal. Raises `RefusedError`."""
    try:
        found = bytearray.fromhex(key) if isinstance(key, str) else key
    except ValueError:
        found = b""
    # A number would make so many zeros.
    if not isinstance(found, bytes | bytearray) or len(found) != KEY:
        raise RefusedError(Undecipherable.MASTER_KEY)
    return bytearray(found)


class KeyRing:
    """Master keys by their names in a gateway's rules.

    What it holds is erased by `erase`, as far as Python lets: of a key that is unwrapped or derived, the libraries
    leave copies that cannot be reached.
    """

    def __init__(self, master_keys: Mapping[str, str | bytes]) -> None:
        """Raises `RefusedError` where one of them is no key."""
        self._master_keys = {name: master_key(key) for name, key in master_keys.items()}
        self._erased = False

    def session(self, salt: bytes) -> SessionKeys:
        """Raises `RefusedError` where it was erased."""
        if self._erased:
            raise RefusedError(Undecipherable.KEYS_GONE)
        return SessionKeys(self, salt)

    def unwrap(self, envelope: Envelope) -> bytes:
        """Return a data key. Raises `RefusedError` where its master key is missing or another."""
        key = self._master_keys.get(envelope.master_key)
        if key is None:
            raise RefusedError(Undecipherable.KEY_MISSING, name=repr(envelope.master_key))
        try:
            return aes_key_unwrap(key, envelope.wrapped)
        except InvalidUnwrap:
            raise RefusedError(Undecipherable.KEY_WRONG, name=repr(envelope.master_key)) from None

    def erase(self) -> None:
        for key in self._master_keys.values():
            erase(key)
        self._erased = True


class SessionKeys:
    """The present data key of one session, and what decrypts with it."""

    def __init__(self, key_ring: KeyRing, salt: bytes) -> None:
        self._key_ring = key_ring
        self._salt = salt
        self._present: tuple[int, str, bytes] | None = None
        self._data_key = bytearray()
        self._openers: dict[Algorithm, Opener] = {}

    def begin(self) -> None:
        """Begin a result set: what was left of the one before may have gone unread."""
        for each in self._openers.values():
            each.begin()

    def opener(self, envelope: Envelope) -> Opener:
        """For a column that is not opaque.

        Raises `RefusedError` where its master key is missing or another, or where its data key is one that the session
        has left behind.
        """
        key = envelope.number, envelope.master_key, envelope.wrapped
        if key != self._present:
            if self._present is not None and envelope.number <= self._present[0]:
                raise RefusedError(Undecipherable.KEY_PAST)
            data_key = self._key_ring.unwrap(envelope)
            self.erase()
            self._present, self._data_key = key, bytearray(data_key)
        found = self._openers.get(envelope.algorithm)
        if found is None:
            found = opener(envelope.algorithm, self._data_key, self._salt, envelope.number)
            self._openers[envelope.algorithm] = found
        return found

    def erase(self) -> None:
        erase(self._data_key)
        for each in self._openers.values():
            each.erase()
        self._openers = {}
