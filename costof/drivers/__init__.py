"""The application view: the drivers that applications use, each in a process of its own.

One file a protocol, run as `python -m costof.drivers.<protocol>`. It speaks the border of docs/architecture.md as
the engine does, so that an experiment treats both alike.
"""
