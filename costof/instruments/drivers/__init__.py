"""The application view: the drivers that applications use, each in a process of its own.

One file a protocol, run as `python -m costof.instruments.drivers.<protocol>`. It is told and
answers what the engine does (docs/ipc.md), so that an experiment treats both alike.
"""
