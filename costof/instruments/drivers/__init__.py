"""The application view: measurement with the database drivers that applications use, each in a separate process.

Each driver has a module, run as `python -m costof.instruments.drivers.<module>`. The modules speak the engine's message
protocol (docs/ipc.md), so that an experiment treats drivers like the engine.
"""
