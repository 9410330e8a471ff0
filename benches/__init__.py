"""Benchmarks: the engine compared with common clients, on the same server in the same run."""
