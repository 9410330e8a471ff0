"""PgBouncer, a connection pooler in front of PostgreSQL, in a lab."""

from costof.lab.program import located
from costof.programs.pgbouncer.pooler import find_pgbouncer, pgbouncer_version

NEEDED = {"pgbouncer": located(find_pgbouncer, pgbouncer_version)}
