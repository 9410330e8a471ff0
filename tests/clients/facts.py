"""The statements that every client runs, their tables, and the check of what the client prints.

A client reads the column names of `cities`, inserts a city with two visits, reads these rows back, and computes a sum.
It changes the city, and rolls another change back. It does the same with a person whose name and salary are protected,
finds the person by name, and deletes all rows that it inserted. All inserted rows contain `owner`, so clients that run
at the same time do not disturb each other.
"""

from __future__ import annotations

from collections.abc import Sequence

TABLES = """
CREATE TABLE cities (
  id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(64) NOT NULL UNIQUE, residents INT NOT NULL DEFAULT 0);
CREATE TABLE visits (
  id INT AUTO_INCREMENT PRIMARY KEY, city_id INT NOT NULL, at DATETIME NOT NULL, note TEXT, price DECIMAL(12,2),
  FOREIGN KEY (city_id) REFERENCES cities(id));
CREATE TABLE people (
  id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(64) NOT NULL, salary INT NOT NULL, city VARCHAR(64) NOT NULL,
  KEY name_idx (name))
"""
PROTECTED = {"people": ("name", "salary")}
NOTE = "O'Hara \\ é"
SALARY = 4711
# The number of bytes by which an AES-128-GCM ciphertext is longer than its plaintext: algorithm number, nonce and tag.
SEALING = 1 + 12 + 16
HEX = "hex:"


def name_of(owner: str) -> str:
    return f"Ann-{owner}"


def shown(value: object) -> str:
    return (
        HEX + bytes(value).hex() if isinstance(value, (bytes, bytearray)) else "none" if value is None else str(value)
    )


def check(lines: Sequence[str], owner: str, *, sealed: bool) -> None:
    """Check that a client read all values unchanged. If `sealed`, the protected values must be ciphertexts."""
    facts = dict(line.split(": ", 1) for line in lines if not line.startswith(("visit: ", "person: ")))
    assert facts == {
        "columns": "id, name, residents",
        "summary": f"{owner}, 2, 3.75, 2026-01-03 00:00:00",
        "updated": "1",
        "residents": "4",
        "found": "1",
        "left": "0",
    }, lines
    visits = [line for line in lines if line.startswith("visit: ")]
    assert visits == ["visit: 2026-01-02 03:04:05, none, 1.50", f"visit: 2026-01-03 00:00:00, {NOTE}, 2.25"], lines
    (person,) = (line.removeprefix("person: ") for line in lines if line.startswith("person: "))
    name, salary, city = person.split(", ")
    assert city == owner, lines
    if sealed:
        _check_sealed(name, name_of(owner).encode(), [len(name_of(owner))])
        # The gateway encrypts a number in the form in which the server sends it: as text in the result of a query, and
        # as four bytes in the result of a prepared statement.
        _check_sealed(salary, str(SALARY).encode(), [len(str(SALARY)), 4])
    else:
        assert (name, salary) == (name_of(owner), str(SALARY)), lines


def _check_sealed(value: str, plaintext: bytes, lengths: Sequence[int]) -> None:
    assert value.startswith(HEX), f"{value} came in plain"
    ciphertext = bytes.fromhex(value.removeprefix(HEX))
    assert plaintext not in ciphertext
    assert len(ciphertext) - SEALING in lengths, f"{value} is no ciphertext of {plaintext!r}"
