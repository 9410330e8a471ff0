"""Execution of a run: start the processes that measure, measure round after round, and decide when the run ends."""
