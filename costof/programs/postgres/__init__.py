"""PostgreSQL in a lab, and a user's own PostgreSQL as a target."""

from costof.lab.debian import Packages
from costof.lab.program import located
from costof.programs.parts import merged
from costof.programs.postgres.connection import PostgresLeftovers
from costof.programs.postgres.lab import PARTS, PostgresServer
from costof.programs.postgres.target import PgbenchTarget
from costof.programs.postgres.versions import PACKAGE, RELEASES, find_postgres, postgres_version

__all__ = ["FETCHABLE", "NEEDED", "RELEASES", "lab_server", "leftovers", "target_server"]

lab_server = PostgresServer
target_server = PgbenchTarget
leftovers = PostgresLeftovers
NEEDED = {"postgres": located(find_postgres, postgres_version)} | merged(part.needed for part in PARTS)
PROGRAMS = [f"usr/lib/postgresql/*/bin/{name}" for name in ("postgres", "initdb")]
FETCHABLE = [
    Packages("postgres", [PACKAGE], PROGRAMS, extension="pgaudit"),
    *(packages for part in PARTS for packages in part.fetchable),
]
