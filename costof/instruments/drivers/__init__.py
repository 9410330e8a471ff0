"""The application view: the database drivers that applications use, each in a separate process.

There is one module for each protocol, run as `python -m costof.instruments.drivers.<protocol>`. It speaks the engine's
message protocol (docs/ipc.md), so that an experiment treats drivers like the engine.
"""
