"""Test vectors of column encryption: result sets as a server sends them, and as a gateway encrypts them."""

from __future__ import annotations

import json
from pathlib import Path

from costof.encrypted.keys import session_salt

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "column-encryption.json").read_text())
CASES = {case["name"]: case for case in VECTORS["cases"]}
REFUSED = {case["name"]: case for case in VECTORS["refused"]}
TEXT_CASES = [name for name, case in CASES.items() if case["format"] == "text"]
BINARY_CASES = [name for name, case in CASES.items() if case["format"] == "binary"]
MASTER_KEYS = VECTORS["master_keys"]
# The nonce of the client. `ScriptedMysql` sends the scramble of the vectors, so sessions have the vectors' keys.
CLIENT_NONCE = bytes.fromhex(VECTORS["nonce"])
SALT = session_salt(VECTORS["scramble"].encode(), CLIENT_NONCE)


def packets(written: list[str]) -> list[bytes]:
    return [bytes.fromhex(packet) for packet in written]
