"""Instruments: separate processes that measure for costof, such as database drivers and runners of commands."""
