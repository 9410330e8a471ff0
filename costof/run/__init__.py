"""Execution of a run: order of slices, instruments, evidence and the stop rule."""
