"""The database that a run makes for itself on somebody's servers: its name, its marker, and what is said of it.

It must not exist before, carries a marker, and is dropped only if the marker is this run's.
"""

from __future__ import annotations

import re
import secrets
from pathlib import Path

from cryptography import x509

from costof.errors import CostofError, Problem

MARKER_NAME = "costof"
MARKER = "made by costof"
#: MongoDB's limit is 63, MySQL's 64.
LONGEST_DATABASE_NAME = 63


def new_database_name(run_name: str) -> str:
    """A name of this run's own even where two machines start one in the same second."""
    return database_name(run_name, secrets.token_hex(3))


def database_name(run_name: str, unique: str) -> str:
    """`costof_<run>_<unique>` in the characters and the length that every server allows."""
    words = re.sub(r"[^A-Za-z0-9]+", "_", run_name).strip("_")
    return f"costof_{words[: LONGEST_DATABASE_NAME - len(unique) - 8]}_{unique}"


def told_writes(database: str, target: str, records: int, size: str, table: str) -> list[str]:
    """Every write of a run, in words."""
    return [
        f"create database {database} on {target}; refuse when it is there already",
        f"insert the marker '{MARKER}' into {database}.{MARKER_NAME}",
        f"insert {records:,} records of about {size} into {database}.{table}",
        f"drop database {database} at the end, if its marker is this run's",
    ]


def check_ca_file(path: Path | None) -> None:
    """Raises `TLS_CA_INVALID` unless the file holds certificates in PEM."""
    if path is None:
        return
    try:
        x509.load_pem_x509_certificates(path.read_bytes())
    except OSError as error:
        raise CostofError(Problem.TLS_CA_INVALID, path=path, detail=error.strerror) from None
    except ValueError:
        raise CostofError(Problem.TLS_CA_INVALID, path=path, detail="it holds no certificate") from None
