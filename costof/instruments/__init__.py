"""Instruments: what measures, each in a process of its own."""
