"""PostgreSQL."""

from costof.lab.program import located
from costof.programs.postgres.binary import find_postgres, postgres_version
from costof.programs.postgres.leftovers import opened
from costof.programs.postgres.own import OwnPgbench
from costof.programs.postgres.server import PostgresServer
from costof.programs.postgres.url import SCHEMES as URL_SCHEMES

__all__ = ["NEEDED", "URL_SCHEMES", "lab_server", "opened", "own_server"]

lab_server = PostgresServer
own_server = OwnPgbench
NEEDED = {"postgres": located(find_postgres, postgres_version)}
