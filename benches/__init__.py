"""Benchmarks: the engine against the clients people use, on the same server in the same run."""
