"""PostgreSQL in a lab, and a user's own PostgreSQL as a target."""

from costof.lab.program import located
from costof.programs.postgres.connection import PostgresLeftovers
from costof.programs.postgres.file_system import bindfs_version, find_bindfs, find_gocryptfs, gocryptfs_version
from costof.programs.postgres.lab import RELEASES, PostgresServer, find_postgres, postgres_version
from costof.programs.postgres.target import PgbenchTarget

__all__ = ["NEEDED", "RELEASES", "lab_server", "leftovers", "target_server"]

lab_server = PostgresServer
target_server = PgbenchTarget
leftovers = PostgresLeftovers
NEEDED = {
    "postgres": located(find_postgres, postgres_version),
    "bindfs": located(find_bindfs, bindfs_version),
    "gocryptfs": located(find_gocryptfs, gocryptfs_version),
}
