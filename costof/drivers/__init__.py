"""The application view: the drivers that applications use, each in a process of its own.

One file a protocol, run as `python -m costof.drivers.<protocol>`. It is told and
answers what the engine does (docs/architecture.md), so that an experiment treats both alike.
"""
