"""A search for canaries (recognisable protected values) in received bytes: whole or in part, in any encoding."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator

PIECE = 6
DIGITS = 8


class Canaries:
    """A search for canaries in bytes that a client received. A canary is a text of letters and digits, or a number."""

    def __init__(self, texts: Iterable[bytes], numbers: Iterable[int]) -> None:
        self._forms: dict[bytes, str] = {}
        for text in texts:
            self._forms |= dict(_forms_of_text(text))
        for number in numbers:
            self._forms |= dict(_forms_of_number(number))

    def found(self, data: bytes) -> list[str]:
        return [f"{kind} {form!r}" for form, kind in self._forms.items() if form in data]


def _forms_of_text(text: bytes) -> Iterator[tuple[bytes, str]]:
    for kind, digest in (("MD5", hashlib.md5), ("SHA1", hashlib.sha1), ("SHA256", hashlib.sha256)):
        yield digest(text).digest(), f"{kind} of a value"
        yield from _hexadecimal(digest(text).digest(), f"{kind} of a value")
    for piece in _pieces(text, PIECE):
        for kind, changed in (
            ("", piece),
            ("in other case", piece.swapcase()),
            ("in capitals", piece.upper()),
            ("in small letters", piece.lower()),
        ):
            yield changed, f"a piece {kind}"
            yield changed[::-1], f"a reversed piece {kind}"
        yield from _hexadecimal(piece, "a piece")
        for width, encoding in ((2, "utf-16-le"), (2, "utf-16-be"), (4, "utf-32-le"), (4, "utf-32-be")):
            yield piece.decode().encode(encoding), f"a piece in UTF-{8 * width}"
        for phase in range(3):
            # The first and last base64 characters are cut off, since they also depend on the bytes around the value.
            whole = base64.b64encode(b"\0" * phase + piece)
            yield whole[(phase * 8 + 5) // 6 : (phase + PIECE) * 8 // 6], "a piece in base64"


def _forms_of_number(number: int) -> Iterator[tuple[bytes, str]]:
    for piece in _pieces(str(number).encode(), DIGITS):
        yield piece, "digits of a number"
        yield piece[::-1], "reversed digits of a number"
        yield from _hexadecimal(piece, "digits of a number")
    yield f"{number:x}".encode(), "a number in hexadecimal"
    yield f"{number:X}".encode(), "a number in hexadecimal"
    yield f"{number:b}".encode(), "a number in binary"


def _hexadecimal(data: bytes, kind: str) -> Iterator[tuple[bytes, str]]:
    yield data.hex().encode(), f"{kind} in hexadecimal"
    yield data.hex().upper().encode(), f"{kind} in hexadecimal"


def _pieces(data: bytes, size: int) -> Iterator[bytes]:
    return (data[start : start + size] for start in range(len(data) - size + 1))
