"""PostgreSQL."""

from costof.programs.postgres.server import PostgresServer

lab_server = PostgresServer
