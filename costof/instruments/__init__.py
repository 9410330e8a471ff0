"""Instruments: programs that measure on costof's order, each in a separate process, such as drivers and commands."""
