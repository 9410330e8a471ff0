"""PgBouncer."""

from costof.lab.program import located
from costof.programs.pgbouncer.pooler import find_pgbouncer, pgbouncer_version

NEEDED = {"pgbouncer": located(find_pgbouncer, pgbouncer_version)}
