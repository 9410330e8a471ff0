"""The tables of the round trip, and the lines that every client is to tell of it.

A client reflects `cities`, inserts one with two visits, reads them back, sums them up, changes the city, rolls another
change back, does the like with a person whose name and salary are protected, finds the person by name, and deletes all
that it has inserted. `owner` is in all its rows, so that clients do not meet.
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
# Of AES-128-GCM: the algorithm's number, nonce and tag.
SEALING = 1 + 12 + 16
HEX = "hex:"


def name_of(owner: str) -> str:
    return f"Ann-{owner}"


def shown(value: object) -> str:
    """A value as the lines have it; a ciphertext is bytes."""
    return (
        HEX + bytes(value).hex() if isinstance(value, (bytes, bytearray)) else "none" if value is None else str(value)
    )


def check(lines: Sequence[str], owner: str, *, sealed: bool) -> None:
    """That a client saw all as it is, but for what is protected, which it must not see where it is `sealed`."""
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
        # A number is text in text rows, and four bytes in binary ones.
        _check_sealed(salary, str(SALARY).encode(), [len(str(SALARY)), 4])
    else:
        assert (name, salary) == (name_of(owner), str(SALARY)), lines


def _check_sealed(seen: str, plaintext: bytes, lengths: Sequence[int]) -> None:
    assert seen.startswith(HEX), f"{seen} came in plain"
    ciphertext = bytes.fromhex(seen.removeprefix(HEX))
    assert plaintext not in ciphertext
    assert len(ciphertext) - SEALING in lengths, f"{seen} is no ciphertext of {plaintext!r}"
