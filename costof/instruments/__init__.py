"""Instruments: programs that measure, each in a separate process."""
