"""PostgreSQL."""

from costof.lab.program import located
from costof.programs.postgres.connection import PostgresLeftovers
from costof.programs.postgres.lab import PostgresServer, find_postgres, postgres_version
from costof.programs.postgres.target import OwnPgbench

__all__ = ["NEEDED", "lab_server", "leftovers", "own_server"]

lab_server = PostgresServer
own_server = OwnPgbench
leftovers = PostgresLeftovers
NEEDED = {"postgres": located(find_postgres, postgres_version)}
