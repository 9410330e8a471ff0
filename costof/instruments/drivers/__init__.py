"""Measurement with the database drivers that applications use, such as psycopg, each in a separate process.

Each driver has a module, run as `python -m costof.instruments.drivers.<module>`. The modules understand the same
messages as costof's own load generator, the engine (docs/ipc.md), so costof controls both in the same way.
"""
