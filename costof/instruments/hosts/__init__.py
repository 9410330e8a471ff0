"""Measurement from several machines: hosts of a Ray cluster that send load at the same time."""
