"""PostgreSQL."""

from costof.lab.program import located
from costof.programs.postgres.connection import SCHEMES as URL_SCHEMES
from costof.programs.postgres.connection import opened
from costof.programs.postgres.lab import PostgresServer, find_postgres, postgres_version
from costof.programs.postgres.target import OwnPgbench

__all__ = ["NEEDED", "URL_SCHEMES", "lab_server", "opened", "own_server"]

lab_server = PostgresServer
own_server = OwnPgbench
NEEDED = {"postgres": located(find_postgres, postgres_version)}
