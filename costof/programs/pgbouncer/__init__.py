"""PgBouncer."""
