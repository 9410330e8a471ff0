"""PgBouncer, a connection pooler in front of PostgreSQL, in a lab."""

from costof.lab.debian import Packages
from costof.lab.program import located
from costof.programs.pgbouncer.pooler import PACKAGE, find_pgbouncer, pgbouncer_version

NEEDED = {"pgbouncer": located(find_pgbouncer, pgbouncer_version)}
FETCHABLE = [Packages("pgbouncer", [PACKAGE], ["usr/sbin/pgbouncer"])]
